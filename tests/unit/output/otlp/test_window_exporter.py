"""otlp.window_exporter: windows at every receiver that wants them, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from exporter import catalog
from exporter.config.otlp import Receiver
from exporter.history.window_batch import WindowBatch
from exporter.output.otlp.batch_queue import MAX_QUEUED
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.window_exporter import WINDOWS, WindowExporter
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.history import a_window
from tests.support.otlp_records import ReceivedLog, read_logs_json, read_logs_protobuf
from tests.support.pushing import ORIGIN, own_value, target
from tests.support.receiver import Receiver as RunningReceiver
from tests.support.receiver import refused
from tests.support.reports import a_report

RUN_ID = "00c0ffee00c0ffee"


def wanting(url: str, **settings: object) -> Receiver:
    """A receiver that wants windows."""
    return target(url, windows="true", **settings)


def a_batch(processes: int = 1, dropped: int = 0) -> WindowBatch:
    """A window for each process."""
    first = a_window()
    windows = [a_window(process=number) for number in range(1, processes + 1)]
    return WindowBatch(first.began_unix_ns, first.ended_unix_ns, windows, dropped=dropped)


@contextmanager
def exporting(*to: Receiver, own: OwnMetrics | None = None) -> Iterator[WindowExporter]:
    """A started exporter; stopped at the end of the block, when everything has been sent."""
    exporter = WindowExporter(to, own or OwnMetrics(), ORIGIN, RUN_ID)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.stop()
        exporter.join()


def received(found: RunningReceiver) -> list[list[ReceivedLog]]:
    """The records in each request."""
    return [
        (read_logs_protobuf if request.is_protobuf else read_logs_json)(request.content) for request in found.requests
    ]


class TestWindows:
    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_windows_of_a_node_share_a_request(self, protocol: str) -> None:
        """As log records, so they go to the path of logs."""
        with receivers.receiver() as found:
            with exporting(wanting(found.url, protocol=protocol)) as exporter:
                exporter.on_windows(a_batch(processes=8))
            (records,) = received(found)

            assert [request.path for request in found.requests] == ["/v1/logs"]
        assert [one.attributes["gpustall.window.id"].split("-")[1] for one in records] == list("12345678")
        assert {one.event_name for one in records} == {"gpustall.window"}

    def test_delivered_windows_are_counted_apart_from_logs_of_chains(self) -> None:
        own = OwnMetrics()
        with receivers.receiver() as found, exporting(wanting(found.url), own=own) as exporter:
            exporter.on_windows(a_batch(processes=3))

        assert own_value(own, catalog.own.RECORDS, WINDOWS, "delivered") == 3


class TestReceivers:
    def test_only_receivers_that_want_windows_get_them(self) -> None:
        """No receiver wants them by default."""
        with receivers.receiver() as without, receivers.receiver() as found:
            with exporting(target(without.url), wanting(found.url)) as exporter:
                exporter.on_windows(a_batch())

            assert (len(without.requests), len(found.requests)) == (0, 1)

    def test_receiver_may_take_windows_and_no_logs(self) -> None:
        with receivers.receiver() as found:
            with exporting(wanting(found.url, logs="false")) as exporter:
                exporter.on_windows(a_batch())

            assert len(found.requests) == 1

    def test_windows_are_wanted_if_a_receiver_wants_them(self) -> None:
        url = "http://127.0.0.1:4318"
        made = [WindowExporter(to, OwnMetrics(), ORIGIN, RUN_ID) for to in ([], [target(url)], [wanting(url)])]

        assert [one.wants_windows for one in made] == [False, False, True]


class TestLoss:
    """A receiver that is down."""

    def test_oldest_windows_are_dropped_and_counted(self) -> None:
        """The thread is not started, as if the receiver did not answer."""
        own = OwnMetrics()
        with refused() as url:
            WindowExporter([wanting(url)], own, ORIGIN, RUN_ID).on_windows(a_batch(processes=MAX_QUEUED + 3))

        assert own_value(own, catalog.own.RECORDS, WINDOWS, "dropped") == 3

    def test_windows_of_too_many_processes_are_counted(self) -> None:
        own = OwnMetrics()
        with refused() as url:
            WindowExporter([wanting(url)], own, ORIGIN, RUN_ID).on_windows(a_batch(dropped=7))

        assert own_value(own, catalog.own.RECORDS, WINDOWS, "dropped") == 7

    def test_windows_drive_out_no_chain(self) -> None:
        """Chain events have a queue of their own."""
        own = OwnMetrics()
        with refused() as url:
            chains = ChainExporter([wanting(url)], own, ORIGIN)
            chains.on_chain_event(a_report())
            WindowExporter([wanting(url)], own, ORIGIN, RUN_ID).on_windows(a_batch(processes=MAX_QUEUED + 3))

        assert own_value(own, catalog.own.RECORDS, "logs", "dropped") == 0
