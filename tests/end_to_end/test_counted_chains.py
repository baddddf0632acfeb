"""The board Chains counts what the log has: each opening and each escalation, on servers that scrape at different intervals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpustall_standin as standin
from dashboards import chains
from dashboards.data import filled_in
from tests.support.exporter_process import Exporter, running
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.patience import PATIENCE_SECONDS
from tests.support.prometheus_server import Prometheus, serving
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.whole_machine,
]  # its chains are those of its own faults alon, pytest.mark.acceptance]

INTERVALS = ("1s", "5s")
CRASHES = 3

STEADY_SECONDS, PAUSED_SECONDS, PAUSE_PERIOD_SECONDS = 11.0, 12.0, 0.2
PAUSED_SHARES = (0.15, 0.65)
"""Parts of the time that a fourth job is stopped for, first the small one: its chain becomes worse."""

STEPS = ("--fault-from-step=700", "--fault-to-step=1000")
FAULTS = (
    ("--fault=lock", "--fault-us=20000"),
    ("--fault=host", "--fault-us=9000"),
    ("--fault=lock", "--fault-us=3000"),
)
"""The jobs, of 14 ms a step: one loses most of its time, one computes more, one loses a little."""

_CONFIGURATION = """\
global: {{scrape_interval: {interval}, scrape_timeout: 1s}}
scrape_configs:
  - job_name: gpu-stall-exporter
    honor_labels: true
    static_configs: [{{targets: ["{target}"]}}]
"""
_KIND = re.compile(r'msg="chain (opened|escalated): .*? cause=(\w+) effect=(\w+) severity=(\w+)')


def logged(exporter: Exporter, change: str) -> Counter[tuple[str, ...]]:
    """(cause, effect, severity) -> how often a chain was opened or escalated so far, by the log."""
    return Counter(tuple(kind) for what, *kind in _KIND.findall(exporter.logs) if what == change)


@dataclass(frozen=True)
class Watched:
    """seconds: since a moment at which chains had been counted already. opened, escalated: since then, by the log."""

    servers: tuple[Prometheus, ...]
    seconds: float
    opened: Counter[tuple[str, ...]]
    escalated: Counter[tuple[str, ...]]


def shown(prometheus: Prometheus, watched: Watched, title: str) -> list[dict[str, object]]:
    """The series of a panel."""
    panel = next(panel for panel in chains.BOARD.panels() if panel.title == title)
    return prometheus.query(filled_in(panel.queries[0].expr, watched.seconds))


def number(prometheus: Prometheus, expression: str) -> float:
    """The value of a query; 0 without one."""
    found = prometheus.query(expression)
    return float(found[0]["value"][1]) if found else 0.0


def crash() -> None:
    """A process of a rank ends by SIGSEGV soon after its first calls: it may be seen for the first time when it has ended."""
    with held_calls("cudaStreamSynchronize:3:1ms", rank=fresh_rank()) as calls:
        calls.make()
        calls.process.send_signal(signal.SIGSEGV)
        calls.process.wait()


def pause(tgid: int, share: float) -> None:
    """Stop a process for this share of the time, again and again."""
    until = time.monotonic() + PAUSED_SECONDS
    while time.monotonic() < until:
        os.kill(tgid, signal.SIGSTOP)
        time.sleep(share * PAUSE_PERIOD_SECONDS)
        os.kill(tgid, signal.SIGCONT)
        time.sleep((1 - share) * PAUSE_PERIOD_SECONDS)


def rank_of(job: subprocess.Popen[bytes]) -> int:
    """The process of its only rank."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
    return int(eventually(lambda: children.read_text().split(), "its rank runs")[0])


def count_up(exporter: Exporter, servers: tuple[Prometheus, ...], crashes: int) -> None:
    """Crashes, until both servers have scraped them."""
    before = logged(exporter, "opened")["crash", "exit", "critical"]
    for _ in range(crashes):
        crash()
    eventually(
        lambda: logged(exporter, "opened")["crash", "exit", "critical"] == before + crashes, "the crashes are logged"
    )
    await_scrapes(exporter, servers)


def await_scrapes(exporter: Exporter, servers: tuple[Prometheus, ...]) -> None:
    """Until both servers have what is in the log."""
    for server in servers:
        for change, metric in (("opened", "gpustall_chains_total"), ("escalated", "gpustall_chain_escalations_total")):
            eventually(
                lambda server=server, change=change, metric=metric: (
                    number(server, f"sum({metric})") == logged(exporter, change).total()
                ),
                f"{metric} is scraped",
            )


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A crash, and a scrape of it; then three jobs that become slower, and three crashes."""
    need_tracing()
    binary = need_command("prometheus", "prometheus")
    built()
    with ExitStack() as stack:
        exporter = stack.enter_context(running())
        target = exporter.url.removeprefix("http://").removesuffix("/metrics")
        servers = tuple(
            stack.enter_context(
                serving(
                    binary, _CONFIGURATION.format(interval=interval, target=target), tmp_path_factory.mktemp(interval)
                )
            )
            for interval in INTERVALS
        )
        for server in servers:
            server.awaited("up == 1")
        stack.enter_context(held_calls("ncclAllReduce:1:4096", rank=fresh_rank()))
        for library in standin.PROBED:  # from the first call of a process on
            path = standin.build_dir() / library
            eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
        count_up(exporter, servers, 1)
        opened, escalated, since = logged(exporter, "opened"), logged(exporter, "escalated"), time.time()
        jobs = [
            subprocess.Popen(
                standin.trainer_command("--ranks=1", "--sync=block", f"--seed={seed}", *flags),
                env=standin.environment(),
                stdout=subprocess.DEVNULL,
            )
            for seed, flags in enumerate([*(("--steps=1200", *STEPS, *fault) for fault in FAULTS), ()])
        ]
        for job in jobs:
            stack.callback(job.wait)
            stack.callback(job.kill)
        *ending, paused = jobs
        tgid = rank_of(paused)
        time.sleep(STEADY_SECONDS)
        for share in PAUSED_SHARES:
            pause(tgid, share)
        for job in ending:
            job.wait(PATIENCE_SECONDS)
        paused.kill()
        count_up(exporter, servers, CRASHES)
        now_opened, now_escalated = logged(exporter, "opened"), logged(exporter, "escalated")
        yield Watched(servers, time.time() - since, now_opened - opened, now_escalated - escalated)


class TestCountedChains:
    """Every panel with a number of chains, on both servers."""

    def test_there_are_chains_to_count(self, watched: Watched) -> None:
        """Opened at their end, and during a fault; and one became worse."""
        assert watched.opened["crash", "exit", "critical"] == CRASHES
        assert watched.opened.total() > CRASHES
        assert watched.escalated.total() > 0

    @pytest.mark.parametrize("place", range(len(INTERVALS)), ids=INTERVALS)
    def test_openings_and_escalations_are_those_of_the_log(self, watched: Watched, place: int) -> None:
        """Without what was counted before the time range."""
        server = watched.servers[place]
        numbers = [float(shown(server, watched, title)[0]["value"][1]) for title in ("Opened", "Escalated")]

        assert numbers == [watched.opened.total(), watched.escalated.total()]

    @pytest.mark.parametrize("place", range(len(INTERVALS)), ids=INTERVALS)
    def test_each_kind_of_chain_is_that_of_the_log(self, watched: Watched, place: int) -> None:
        """By cause, effect and severity."""
        found = shown(watched.servers[place], watched, "Chains opened, by cause")
        counted = {
            tuple(one["metric"][label] for label in ("cause", "effect", "severity")): int(one["value"][1])
            for one in found
        }

        assert counted == dict(watched.opened)
