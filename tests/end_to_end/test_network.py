"""A link that loses packets: retransmits, round-trip time, and the GPU time that is lost, as the exporter reports them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

import gpustall_standin as standin
from tests.faults.injectors import NotPossible, network
from tests.faults.injectors.cpu import in_groups
from tests.faults.injectors.network import Wire
from tests.support.exporter_process import Exporter, running
from tests.support.exposition import Scrape
from tests.support.named_cgroup import named_cgroup
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end

CLIENT, SERVER = "c1" * 32, "5e" * 32
UNSHOWN_SHARE = 0.02
"""Segments that this kernel does not show a program, at most: one in some hundreds on a busy node."""
RETRANSMITS = "gpustall_network_retransmits_total"
FLAGS = ("--ranks=1", "--steps=0", "--sync=block", "--loader-workers=0", "--loader-fetch-bytes=65536", "--quiet")


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    """Skip, naming what is missing."""
    need_tracing()


class Scene(NamedTuple):
    """A job that fetches its batches over the link, and the exporter."""

    wire: Wire
    exporter: Exporter
    job: subprocess.Popen[bytes]
    server: subprocess.Popen[str]


@contextmanager
def fetching(*flags: str) -> Iterator[Scene]:
    """Each in a container of its own in the unified hierarchy; one of 11 packets is lost, either way."""
    try:
        with (
            named_cgroup("v2", f"docker-{CLIENT}.scope") as client,
            named_cgroup("v2", f"docker-{SERVER}.scope") as group,
            network.wire() as wire,
            network.server(network.PEER_ADDRESS, wire.peer, group) as server,
            network.dropper(11) as program,
            network.loss(program, wire.own, wire.peer),
            running(*flags) as exporter,
        ):
            line = [*in_groups([client]), *network.inside(wire.own), standin.build_dir() / "trainer", *FLAGS]
            with subprocess.Popen([*line, *server.flags], env=standin.environment(dict(os.environ))) as job:
                try:
                    yield Scene(wire, exporter, job, server.process)
                finally:
                    job.terminate()
    except NotPossible as reason:
        pytest.skip(str(reason))


def retransmitted(page: Scrape) -> tuple[float, float]:
    """Retransmits of the job's container, and of the server's."""
    job, server = (page.total(RETRANSMITS, container=one[:12], family="ipv4") for one in (CLIENT, SERVER))
    return job, server


class TestLoss:
    """The job in a network namespace, its server in another one, the exporter in a third."""

    @pytest.mark.acceptance
    def test_both_ends_and_the_lost_time_are_reported(self) -> None:
        """The rank's sockets and its lost time; and for each container as many segments as the kernel counts in its namespace."""
        of_rank = {"rank": "0", "container": CLIENT[:12]}
        with fetching("--collector.network.namespaces=true") as scene:

            def is_exported() -> bool:
                page = scene.exporter.scrape()
                return (
                    min(retransmitted(page)) > 10
                    and page.total("gpustall_network_socket_retransmits_total", peer="ephemeral", **of_rank) > 10
                    and page.total("gpustall_lost_seconds_total", cause="network", **of_rank) > 1
                )

            eventually(is_exported, "all of it is exported")
            scene.job.terminate()
            scene.job.wait()
            scene.server.kill()
            scene.server.wait()
            counted = [scene.wire.retransmitted(name) for name in (scene.wire.own, scene.wire.peer)]

            def is_counted() -> Scrape | None:
                page = scene.exporter.scrape()
                shares = zip(retransmitted(page), counted, strict=True)
                return page if all(theirs * (1 - UNSHOWN_SHARE) - 1 <= ours for ours, theirs in shares) else None

            page = eventually(is_counted, "what the kernel counts is exported")

        for ours, theirs in zip(retransmitted(page), counted, strict=True):
            assert ours <= theirs
        assert page.total("gpustall_network_socket_segments_total", peer="ephemeral", **of_rank) > 100

    def test_other_namespaces_are_not_entered_by_default(self) -> None:
        """The rank's sockets are counted as unread; retransmits by container are reported all the same."""
        with fetching() as scene:

            def is_exported() -> bool:
                page = scene.exporter.scrape()
                return (
                    min(retransmitted(page)) > 0 and page.total("gpustall_network_unread_total", reason="namespace") > 0
                )

            eventually(is_exported, "it is exported")

            assert not scene.exporter.scrape().matching("gpustall_network_sockets", rank="0")

    def test_sockets_of_this_namespace_need_no_capability(self) -> None:
        """A job and a server on the loopback interface: round-trip time, window, number of sockets."""
        with network.server() as server, running() as exporter:
            line = [standin.build_dir() / "trainer", *FLAGS, *server.flags]
            with subprocess.Popen(line, env=standin.environment(dict(os.environ))) as job:
                try:

                    def is_exported() -> bool:
                        return exporter.scrape().total("gpustall_network_socket_segments_total", peer="ephemeral") > 100

                    eventually(is_exported, "its segments are exported")
                    page = exporter.scrape()
                finally:
                    job.terminate()

        assert page.total("gpustall_network_sockets", rank="0", peer="ephemeral") == 1
        assert page.total("gpustall_network_socket_round_trip_seconds", rank="0", peer="ephemeral") > 0
        assert page.total("gpustall_network_socket_congestion_window", rank="0", peer="ephemeral") >= 1
        assert page.total("gpustall_exporter_collector_success", collector="network") == 1
