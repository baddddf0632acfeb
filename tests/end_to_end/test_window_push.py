"""`run --otlp.windows`: windows that receivers got hold what jobs did, in both encodings, without a history."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

import gpustall_standin as standin
from tests.support import receiver
from tests.support.held_calls import fresh_rank, held_calls, without_rank
from tests.support.otlp_records import WINDOW, ReceivedLog, read_logs_json, read_logs_protobuf
from tests.support.patience import PATIENCE_SECONDS
from tests.support.pushing_exporter import await_probes, await_process, running
from tests.support.receiver import Receiver
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
ORDERS = ("--sync=block", "cudaStreamSynchronize:23:2ms", "cudaMemcpyAsync:17:4096:h2d")
FAILING = {"STANDIN_FAIL": "cudaMemcpyAsync:2:3"}
"""The third copy runs out of memory."""

STEPS = 80
TRAINER = ("--ranks=2", f"--steps={STEPS}", "--pace-us=40000", "--sync=block")
STEP_COUNT = "gpustall_step_duration_seconds_count"
RECEIVERS = pytest.mark.parametrize("name", ["default", "binary"])


@dataclass(frozen=True)
class Pushed:
    """What receivers got until the exporter had stopped. windows: by receiver, in the order in which they came.

    rank: of a program that has made its calls, and rests. counted_steps: of each rank of the trainer, as scraped after its end.
    logged_steps: as its own log has them.
    """

    windows: Mapping[str, Sequence[ReceivedLog]]
    requests_without: int
    rank: str
    counted_steps: Mapping[str, float]
    logged_steps: Mapping[str, int]


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    """Windows in JSON and in protobuf, and a receiver of chains alone."""
    need_tracing()
    rank, config = fresh_rank(), tmp_path_factory.mktemp("windows") / "exporter.toml"
    with ExitStack() as stack:
        json_box, binary, without = (stack.enter_context(receiver.receiver()) for _ in range(3))
        config.write_text(
            f'[otlp.receiver.binary]\nendpoint = "{binary.url}"\nprotocol = "http/protobuf"\nwindows = true\n'
            f'[otlp.receiver.without]\nendpoint = "{without.url}"\ninterval = "1h"\n'
        )
        flags = (f"--config.file={config}", f"--otlp.endpoint={json_box.url}", "--otlp.windows=true")
        exporter = stack.enter_context(running(*flags))
        stack.enter_context(held_calls("ncclAllReduce:1:4096"))
        await_probes(exporter)
        calls = stack.enter_context(held_calls(*ORDERS, rank=rank, environment=FAILING))
        await_process(exporter, rank)
        calls.make()
        logged_steps = _trained()
        eventually(lambda: not exporter.scrape().matching("gpustall_workload_info", comm="trainer"), "it is gone")
        counted_steps = {one: exporter.scrape().total(STEP_COUNT, rank=one) for one in logged_steps}
        assert exporter.stop() == 0
        yield Pushed(
            {"default": _windows(json_box), "binary": _windows(binary)},
            len(_windows(without)),
            rank,
            counted_steps,
            logged_steps,
        )


def _trained() -> dict[str, int]:
    """Run a job of two ranks to its end: rank -> steps in its log."""
    done = subprocess.run(
        standin.trainer_command(*TRAINER),
        env={**without_rank(), **standin.environment()},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(Counter(str(line["rank"]) for line in lines if line["type"] == "step"))


def _windows(found: Receiver) -> list[ReceivedLog]:
    """All windows that it was sent."""
    return [
        one
        for request in found.requests
        if request.path == "/v1/logs"
        for one in (read_logs_protobuf if request.is_protobuf else read_logs_json)(request.content)
        if one.event_name == WINDOW
    ]


def of_rank(pushed: Pushed, name: str, rank: str) -> list[Mapping[str, Any]]:
    """Attributes of the windows of one rank."""
    return [one.attributes for one in pushed.windows[name] if one.attributes.get("rank") == rank]


def sums(windows: Sequence[Mapping[str, Any]], figure: str) -> Counter[str]:
    """Calls or errors of each operation of the runtime, over all windows."""
    found: Counter[str] = Counter()
    for window in windows:
        for one in window.get("gpustall.calls", ()):
            if one.get("api") == "runtime" and one.get(figure):
                found[one["operation"]] += one[figure]
    return found


@RECEIVERS
class TestWindows:
    def test_calls_are_those_that_were_made(self, pushed: Pushed, name: str) -> None:
        """Added up over the windows, of which the last one ended when the exporter stopped."""
        windows = of_rank(pushed, name, pushed.rank)

        assert sums(windows, "calls").items() >= {"cudaStreamSynchronize": 23, "cudaMemcpyAsync": 17}.items()
        assert sums(windows, "errors") == {"cudaMemcpyAsync": 1}

    def test_steps_are_those_that_were_scraped(self, pushed: Pushed, name: str) -> None:
        """And no more than the job's log has. The first ones are not detected; the job ended before the exporter did."""
        for rank, logged in pushed.logged_steps.items():
            steps = sum(window.get("gpustall.steps", 0) for window in of_rank(pushed, name, rank))

            assert logged == STEPS
            assert 0 < steps == pushed.counted_steps[rank] <= logged

    def test_buckets_hold_the_steps(self, pushed: Pushed, name: str) -> None:
        """In every window."""
        windows = [one.attributes for one in pushed.windows[name] if "gpustall.steps" in one.attributes]

        assert [sum(one["gpustall.step.buckets"]["counts"]) for one in windows] == [
            one["gpustall.steps"] for one in windows
        ]

    def test_ranks_of_a_job_share_a_communicator(self, pushed: Pushed, name: str) -> None:
        """Also in their last windows, which they did not live to see."""
        places = [
            (one["hash"], one["rank"], one["ranks"])
            for rank in pushed.logged_steps
            for window in of_rank(pushed, name, rank)
            for one in window["gpustall.communicators"]
        ]

        assert len({hash_ for hash_, _, _ in places}) == 1
        assert {(rank, ranks) for _, rank, ranks in places} == {(0, 2), (1, 2)}

    def test_windows_of_a_process_follow_each_other(self, pushed: Pushed, name: str) -> None:
        """None overlaps another one."""
        spans = sorted(
            (one.attributes["gpustall.window.id"].rpartition("-")[2], one.time_unix_ns)
            for one in pushed.windows[name]
            if one.attributes.get("rank") == pushed.rank
        )

        assert all(int(began) < ended for began, ended in spans)
        assert all(ended <= int(began) for (_, ended), (began, _) in pairwise(spans))

    def test_ids_are_unique(self, pushed: Pushed, name: str) -> None:
        ids = [one.attributes["gpustall.window.id"] for one in pushed.windows[name]]

        assert len(set(ids)) == len(ids) > 0


class TestReceivers:
    def test_both_encodings_have_the_same_windows(self, pushed: Pushed) -> None:
        assert pushed.windows["default"] == pushed.windows["binary"]

    def test_receiver_that_wants_none_gets_none(self, pushed: Pushed) -> None:
        """None does by default."""
        assert pushed.requests_without == 0
