"""A job that becomes slower under the running exporter: its chain in the log, in what is scraped and pushed, and in `explain`."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter.causes import Cause
from exporter.chains.chain import Severity
from exporter.chains.verdict import severity_of
from exporter.text.figures import percent
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.otlp import Received, read_json
from tests.support.otlp_records import ReceivedLog, ReceivedSpan, read_logs_json, read_spans_json
from tests.support.patience import PATIENCE_SECONDS
from tests.support.priority import before_others
from tests.support.prometheus_server import Prometheus, scraping
from tests.support.receiver import Receiver, Request, receiver
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually, only

FAULT_FROM, FAULT_TO = 700, 1_100
"""Steps of 14 ms without the fault: a baseline of ten seconds, then 400 steps that wait 20 ms for a lock."""

LOST = 'gpustall_lost_seconds_total{cause="lock"}'


class Job:
    """One rank whose step thread waits for a lock in steps FAULT_FROM to FAULT_TO. step: the last one that it has printed.

    It runs before others: the lock is all that it waits for, whatever else runs on the machine.
    """

    def __init__(self) -> None:
        flags = (f"--fault-from-step={FAULT_FROM}", f"--fault-to-step={FAULT_TO}", "--fault=lock", "--fault-us=20000")
        command = standin.trainer_command("--ranks=1", "--sync=block", "--seed=1", "--evaluate-every=0", *flags)
        with before_others():
            self.process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.PIPE, text=True)
        self.step = 0
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def _follow(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.step = json.loads(line).get("step", self.step)

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        self._follower.join()

    def wait_for_step(self, number: int) -> None:
        """Return when it has made that step."""
        eventually(lambda: self.step >= number, f"step {number}")


@contextmanager
def a_job() -> Iterator[Job]:
    """A job that runs until the block is left."""
    built()
    job = Job()
    try:
        yield job
    finally:
        job.end()


def severity(exporter: Exporter, cause: str) -> float | None:
    """Severity of the chain with this cause; None while there was none."""
    found = exporter.scrape().by("cause", "gpustall_chain_severity")
    return found.get(cause)


@dataclass(frozen=True)
class Episode:
    """What was reported of one chain. lines: of the log, by what happened. exemplars: that Prometheus has stored.
    explained_open, explained_over: by `explain`, while it was open and when the exporter had stopped; document: then, as JSON.
    last: the last values of the chain's gauges while it was open, as Prometheus has stored them.

    Chains of other processes and of other causes are left out.
    """

    chain_id: str
    lines: dict[str, list[str]]
    logs: list[ReceivedLog]
    spans: list[ReceivedSpan]
    points: list[Received]
    exemplars: list[dict[str, Any]]
    explained_open: list[str]
    explained_over: list[str]
    document: dict[str, Any]
    last: dict[str, float]


@pytest.fixture(scope="module")
def episode(tmp_path_factory: pytest.TempPathFactory) -> Episode:
    """A lock that another thread of the job holds, from the fault's begin to the chain's end."""
    need_tracing()
    folder = tmp_path_factory.mktemp("episode")
    history = folder / "state" / "history.sqlite"
    without_proxy = {"NO_PROXY": "*", "no_proxy": "*"}
    with (
        receiver() as found,
        running(
            f"--otlp.endpoint={found.url}", "--otlp.interval=1s", f"--history.path={history}", environment=without_proxy
        ) as exporter,
        scraping(exporter, folder, "--enable-feature=exemplar-storage") as prometheus,
        a_job() as job,
    ):
        job.wait_for_step(FAULT_FROM)
        eventually(lambda: severity(exporter, "lock"), "a chain is open")
        stored = eventually(lambda: prometheus.exemplars(LOST), "an exemplar is stored")
        opened = [line for line in exporter.logs.splitlines() if 'msg="chain opened: lock' in line]
        (chain_id,) = re.findall(r" chain_id=([0-9a-f]{32}) ", opened[0])
        eventually(lambda: chain_id in chains_of(history, opened[0]), "it is in the history")
        explained_open = explained(history, opened[0])
        job.wait_for_step(FAULT_TO)
        eventually(lambda: severity(exporter, "lock") == 0, "it is resolved")
        lines = {
            change: [line for line in exporter.logs.splitlines() if f'msg="chain {change}: lock' in line]
            for change in ("opened", "escalated", "resolved")
        }

        def spans() -> list[ReceivedSpan]:
            every = (one for request in sent(found, "/v1/traces") for one in read_spans_json(request.content))
            return [one for one in every if one.trace_id == chain_id]

        def logs() -> list[ReceivedLog]:
            every = (one for request in sent(found, "/v1/logs") for one in read_logs_json(request.content))
            return [one for one in every if one.trace_id == chain_id]

        eventually(spans, "its span is pushed")
        eventually(lambda: "gpustall.chain.resolved" in {one.event_name for one in logs()}, "its end is pushed")
        points = [one for request in sent(found, "/v1/metrics") for one in read_json(request.content)]
        last = {
            name: last_open(prometheus, name) for name in ("gpustall_chain_severity", "gpustall_chain_worst_lost_ratio")
        }
        exporter.stop()
        document = chains_of(history, opened[0])[chain_id]
        explained_over = explained(history, opened[0])
        return Episode(chain_id, lines, logs(), spans(), points, stored, explained_open, explained_over, document, last)


def last_open(prometheus: Prometheus, name: str) -> float:
    """The last value above 0."""
    (found,) = prometheus.query(f'last_over_time(({name}{{cause="lock"}} > 0)[5m:250ms])')
    return float(found["value"][1])


def sent(found: Receiver, path: str) -> list[Request]:
    """Requests to a path."""
    return [request for request in found.requests if request.path == path]


def explained(history: Path, opened: str, *flags: str) -> list[str]:
    """Output of `explain` for the process that a log line names; no lines while the history does not have it."""
    pid = re.search(r" pid=(\d+)", opened)
    assert pid is not None
    command = [*COMMAND, "explain", f"--history.path={history}", f"--workload=pid={pid[1]}", *flags]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    return done.stdout.splitlines()


def chains_of(history: Path, opened: str) -> dict[str, dict[str, Any]]:
    """Chain id -> the chain as JSON, of the same process."""
    text = "\n".join(explained(history, opened, "--format=json"))
    return {one["chain_id"]: one for one in json.loads(text)["chains"]} if text else {}


@pytest.mark.acceptance
@pytest.mark.end_to_end
class TestChain:
    """A lock that another thread of the job holds."""

    def test_it_opens_with_its_cause_and_is_resolved(self, episode: Episode) -> None:
        """One chain, high or critical, in the log with what to do."""
        severities = {
            point.value
            for point in episode.points
            if (point.name, point.attributes.get("cause")) == ("gpustall.chain.severity", "lock")
        }

        assert max(severities) in (3, 4)
        assert (len(episode.lines["opened"]), len(episode.lines["resolved"])) == (1, 1)
        assert 'remedy="The thread that feeds the GPU waits for a lock' in episode.lines["opened"][0]

    def test_log_records_of_it_are_pushed(self, episode: Episode) -> None:
        """From its opening to its end, in one trace."""
        names = [one.event_name for one in episode.logs]
        opened, *_, resolved = episode.logs

        assert (names[0], names[-1]) == ("gpustall.chain.opened", "gpustall.chain.resolved")
        assert set(names[1:-1]) <= {"gpustall.chain.escalated", "gpustall.chain.evidence"}
        assert (opened.attributes["gpustall.chain.cause"], opened.severity[1] in ("WARN", "ERROR")) == ("lock", True)
        assert "ERROR" in {one.severity[1] for one in episode.logs}
        assert re.match(r"lock: \d+ % of the time is lost to it, steps take ", opened.body)
        assert resolved.severity == (9, "INFO")
        assert opened.time_unix_ns < resolved.time_unix_ns

    def test_span_is_the_episode(self, episode: Episode) -> None:
        """It lasts 400 steps of 20 ms at least, and has the resource of the rank's metrics."""
        span = only(episode.spans)
        lasted_seconds = (span.end_unix_ns - span.start_unix_ns) / 1e9

        assert (span.name, span.attributes["gpustall.chain.end"]) == ("lock", "recovered")
        assert lasted_seconds > (FAULT_TO - FAULT_FROM) * 0.02 * 0.9
        assert span.status[0] == 2
        assert span.events[0].name == "gpustall.chain.opened"
        assert span.resource in [point.resource for point in episode.points if point.name == "gpustall.chain.active"]

    def test_lost_seconds_lead_to_it(self, episode: Episode) -> None:
        """Exemplars, scraped and pushed, name the span and the lost time."""
        pushed = {
            (one.trace_id, one.span_id): one.value
            for point in episode.points
            if (point.name, point.attributes.get("cause")) == ("gpustall.lost", "lock")
            for one in point.exemplars
        }
        ids = (episode.chain_id, only(episode.spans).span_id)

        assert ids in [(one["labels"]["trace_id"], one["labels"]["span_id"]) for one in episode.exemplars]
        assert pushed[ids] > (FAULT_TO - FAULT_FROM) * 0.02 * 0.5

    def test_explain_shows_an_open_chain(self, episode: Episode) -> None:
        """With its cost and what to do."""
        first, *rest = episode.explained_open

        assert re.match(
            r"rank 0 \(pid \d+\) loses .* lock, since .*, severity (high|critical); culprit pt_holder\. Still going on\.$",
            first,
        )
        assert any("steps take" in line and "times as long" in line for line in rest)
        assert any("py-spy" in line for line in rest)

    def test_explain_shows_a_resolved_chain(self, episode: Episode) -> None:
        """Also when the exporter has stopped."""
        first, second, *_ = episode.explained_over

        assert first.startswith("The exporter stopped at ")
        assert re.match(r"No chain was open then\. .* lost .* lock, from .* It recovered\.$", second)


@pytest.mark.acceptance
@pytest.mark.end_to_end
class TestOneTruth:
    """Every output prints the figures of one record."""

    def test_lost_share_is_the_same_everywhere(self, episode: Episode) -> None:
        """In the log, in what is pushed, in the history, as JSON and as text: at most 0.1 % apart, as printed."""
        resolved = episode.lines["resolved"][0]
        (field,) = re.findall(r" lost_share=(\S+)", resolved)
        (said,) = re.findall(r"lock: up to (\S+ %) of the time is lost to it", resolved)
        share, chain = float(field), episode.document
        pushed = episode.logs[-1].attributes["gpustall.chain.lost_share"]
        spanned = only(episode.spans).attributes["gpustall.chain.lost_share"]

        assert [pushed, spanned, chain["lost_ratio"]] == pytest.approx([share] * 3, abs=0.001)
        assert said == percent(pushed)  # `share` is rounded, and would be rounded twice
        assert f"lost up to {said} of its time to lock" in "\n".join(episode.explained_over)

    def test_what_was_scraped_last_is_what_it_ended_with(self, episode: Episode) -> None:
        """Prometheus has the worst share up to then, and the severity of it; a page prints them."""
        (share,) = re.findall(r" lost_share=(\S+)", episode.lines["resolved"][0])
        (name,) = re.findall(r" severity=(\w+)", episode.lines["resolved"][0])

        assert episode.last["gpustall_chain_worst_lost_ratio"] == pytest.approx(float(share), abs=0.001)
        assert Severity(int(episode.last["gpustall_chain_severity"])).name.lower() == name

    def test_severity_is_the_same_everywhere_and_that_of_the_lost_share(self, episode: Episode) -> None:
        (name,) = re.findall(r" severity=(\w+)", episode.lines["resolved"][0])
        chain = episode.document
        severity = severity_of(Cause.LOCK, chain["lost_ratio"])

        assert (name, chain["severity"]) == (severity.name.lower(), severity.name.lower())
        assert only(episode.spans).attributes["gpustall.chain.severity"] == name
        assert re.search(rf"of its time to lock.*\b{name}\b", "\n".join(episode.explained_over))

    def test_slowdown_and_duration_are_the_same_everywhere(self, episode: Episode) -> None:
        resolved, chain = episode.lines["resolved"][0], episode.document
        (slower,) = re.findall(r"steps take (\S+) times as long", resolved)
        (open_seconds,) = re.findall(r" open_seconds=(\S+)", resolved)

        assert f"{1 + chain['slowdown_ratio']:.1f}" == slower
        assert chain["duration_seconds"] == pytest.approx(float(open_seconds), abs=0.01)
        assert episode.logs[-1].attributes["gpustall.chain.duration"] == pytest.approx(float(open_seconds), abs=0.01)

    def test_shares_add_up(self, episode: Episode) -> None:
        chain = episode.document

        assert sum(one["share_ratio"] for one in chain["causes"]) <= 1.0 + 1e-9
        assert sum(one["share_ratio"] for one in chain["culprits"]) <= 1.0 + 1e-9
