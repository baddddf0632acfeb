"""`run --otlp.endpoint`: pushed metrics equal the served ones, whatever the receivers do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import sub
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.catalog import Kind
from tests.conformance import series
from tests.support import receiver
from tests.support.exporter_process import Exporter
from tests.support.held_calls import fresh_rank, held_calls
from tests.support.inbox import Inbox, calls_of, inbox
from tests.support.pushing_exporter import await_probes, await_process, running
from tests.support.receiver import Entry, answer, drip, drop, hang, refused
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
WAIT, RECORD = "cudaStreamSynchronize", "cudaEventRecord"
ORDERS = (
    "--sync=block",
    "cudaStreamSynchronize:23:2ms",
    "cudaMalloc:5:4096",
    "cudaMemcpyAsync:17:4096:h2d",
    "ncclAllReduce:11:4096",
    "sleep:1:3600s",  # with its communicator, which would be gone after the last order
)
FAILING = {"STANDIN_FAIL": "cudaMemcpyAsync:2:3"}
"""The third copy runs out of memory."""

API_KEY = "b7c2d6a19e"
CUMULATIVE = ("default", "binary")


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


@dataclass(frozen=True)
class Pushing:
    """An exporter that pushes to several receivers. rank: of a program that has made all of its calls, and rests."""

    exporter: Exporter
    inboxes: Mapping[str, Inbox]
    rank: str


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushing]:
    """Cumulative in JSON and in protobuf, deltas, one receiver that is down and one that denies."""
    folder = tmp_path_factory.mktemp("push")
    token, config, rank = folder / "token", folder / "exporter.toml", fresh_rank()
    token.write_text(f"api-key={API_KEY}\n")
    with ExitStack() as running_now:
        boxes = {name: running_now.enter_context(inbox()) for name in (*CUMULATIVE, "delta")}
        denying = running_now.enter_context(receiver.receiver([answer(401)]))
        config.write_text(
            _table("binary", boxes["binary"].url, protocol="http/protobuf", histograms="explicit", interval="300ms")
            + f'headers-file = "{token}"\n'
            + _table("delta", boxes["delta"].url, temporality="delta", interval="600ms", timeout="1s")
            + _table("dead", running_now.enter_context(refused()), interval="200ms")
            + _table("denying", f"{denying.url}?key={API_KEY}", interval="200ms")
            + f'headers-file = "{token}"\n'
        )
        default = f"--otlp.endpoint={boxes['default'].url}"
        flags = (f"--config.file={config}", default, "--otlp.interval=300ms", "--otlp.timeout=1s")
        exporter = running_now.enter_context(running(*flags))
        running_now.enter_context(held_calls("ncclAllReduce:1:4096"))
        await_probes(exporter)
        calls = running_now.enter_context(held_calls(*ORDERS, rank=rank, environment=FAILING))
        calls.begin()
        last = {"operation": "ncclAllReduce", "rank": rank}
        eventually(
            lambda: exporter.scrape().total("gpustall_nccl_operation_duration_seconds_count", **last) == 11, "it rests"
        )
        for box in boxes.values():
            eventually(lambda box=box: sum(calls_of(box.every(rank), WAIT)) >= 23, "it is pushed")
        yield Pushing(exporter, boxes, rank)


def _table(name: str, url: str, **settings: str) -> str:
    lines = (f'{key} = "{value}"\n' for key, value in {"endpoint": url, **settings}.items())
    return f"[otlp.receiver.{name}]\n{''.join(lines)}"


EVERY_KIND = pytest.mark.parametrize("kind", list(Kind))
BOTH_FORMATS = pytest.mark.parametrize("name", CUMULATIVE)


class TestNumbers:
    """A program at rest has the same values in a push and a scrape."""

    @EVERY_KIND
    @BOTH_FORMATS
    def test_series_are_those_of_a_scrape(self, pushing: Pushing, name: str, kind: Kind) -> None:
        """Names, labels and numbers; of a histogram the sum, the count and every classic bucket."""

        def both() -> tuple[series.Series, series.Series]:
            scraped = series.of_scrape(pushing.exporter.scrape(), kind, rank=pushing.rank)
            return scraped, self._pushed(pushing, name, kind)

        eventually(lambda: both()[0] == both()[1], f"{name} has the same {kind}")

        assert len(both()[0]) > 0

    @staticmethod
    def _pushed(pushing: Pushing, name: str, kind: Kind) -> series.Series:
        return series.of_points(pushing.inboxes[name].newest(pushing.rank), kind)

    @BOTH_FORMATS
    def test_calls_are_those_that_were_made(self, pushing: Pushing, name: str) -> None:
        """So that two empty results do not count as equal: 23 waits, 17 copies of 4 KiB of which one failed."""
        found = pushing.inboxes[name]
        eventually(lambda: calls_of(found.newest(pushing.rank), WAIT) == [23], "all is pushed")
        latest = {
            (point.name, point.attributes.get("operation") or point.attributes.get("direction")): point.value
            for point in found.newest(pushing.rank)
            if point.attributes.get("api") != "driver"
        }

        assert latest["gpustall.cuda.memcpy", "h2d"] == 16 * 4096
        assert latest["gpustall.cuda.operation.errors", "cudaMemcpyAsync"] == 1

    @pytest.mark.parametrize(
        ("name", "form"), [("default", (False, "exponential")), ("binary", (True, "histogram"))], ids=CUMULATIVE
    )
    def test_format_is_the_one_that_was_configured(self, pushing: Pushing, name: str, form: tuple[bool, str]) -> None:
        """JSON with exponential histograms by default."""
        found = pushing.inboxes[name]
        durations = [p for p in found.newest(pushing.rank) if p.name == "gpustall.cuda.operation.duration"]

        assert {(found.taken[-1].is_protobuf, point.kind) for point in durations} == {form}

    def test_deltas_add_up_to_what_is_served(self, pushing: Pushing) -> None:
        """For every counter, from the first push on."""

        def scraped() -> series.Series:
            found = series.of_scrape(pushing.exporter.scrape(), Kind.COUNTER, rank=pushing.rank)
            return {key: value for key, value in found.items() if value}

        # Sums of seconds are rounded once a delta.
        eventually(
            lambda: self._sums(pushing) == pytest.approx(scraped(), rel=1e-9, abs=1e-9),
            "the sums are those of the scrape",
        )

        assert len(scraped()) > 0

    @staticmethod
    def _sums(pushing: Pushing) -> series.Series:
        sums: series.Series = {}
        for point in pushing.inboxes["delta"].every(pushing.rank):
            for key, value in series.of_points([point], Kind.COUNTER).items():
                sums[key] = sums.get(key, 0) + value
        return sums

    def test_a_receiver_that_is_down_is_counted(self, pushing: Pushing) -> None:
        """The others are not affected."""
        down = {"receiver": "dead", "outcome": "no_answer"}
        eventually(lambda: pushing.exporter.scrape().total("gpustall_exporter_pushes_total", **down), "it is counted")

        assert pushing.exporter.scrape().total("gpustall_exporter_pushed_points_total", receiver="dead") == 0


class TestToken:
    """A token in a headers file."""

    def test_it_reaches_its_receiver_and_no_other(self, pushing: Pushing) -> None:
        """Each receiver has headers of its own."""
        sent = {name: found.taken[-1].headers["api-key"] for name, found in pushing.inboxes.items()}

        assert sent == {"default": None, "binary": API_KEY, "delta": None}

    def test_token_is_not_shown(self, pushing: Pushing) -> None:
        """Nor is the query of a URL: in command line, log and metrics, with a receiver that refuses."""
        denied = {"receiver": "denying", "outcome": "rejected"}
        eventually(lambda: pushing.exporter.scrape().total("gpustall_exporter_pushes_total", **denied), "it denies")
        shown = {
            "command line": Path(f"/proc/{pushing.exporter.process.pid}/cmdline").read_text(),
            "log": pushing.exporter.logs,
            "metrics": pushing.exporter.get().body.decode(),
        }

        assert "OTLP receiver denying" in shown["log"]
        assert {where for where, text in shown.items() if API_KEY in text} == set()


class TestHostileNames:
    """A process may have any bytes for a name."""

    def test_name_that_is_no_text_is_pushed_as_text(self, pushing: Pushing, tmp_path: Path) -> None:
        """U+FFFD stands for a byte that is no UTF-8, in either format."""
        rank = fresh_rank()
        with _named(b"\xffgpu", rank, tmp_path):
            comms = [self._comms(pushing.inboxes[name], rank) for name in CUMULATIVE]

        assert comms == [{"\ufffdgpu"}] * 2

    @staticmethod
    def _comms(found: Inbox, rank: str) -> set[object]:
        def pushed() -> set[object]:
            return {point.attributes["comm"] for point in found.newest(rank) if point.name == "gpustall.workload.info"}

        comms: set[object] = eventually(pushed, "it is pushed")
        return comms


@contextmanager
def _named(comm: bytes, rank: str, folder: Path) -> Iterator[None]:
    """A program of the stand-in that has made a call, under another name."""
    link = folder / os.fsdecode(comm)
    link.symlink_to(standin.build_dir() / "calls")
    # The shell gets the path of the program, and starts the other.
    renamed = ("sh", "-c", 'shift; exec "$PROGRAM" "$@"', "sh")
    with held_calls("cudaEventRecord:1", rank=rank, environment={"PROGRAM": str(link)}, before=renamed) as calls:
        calls.make()
        yield


@dataclass(frozen=True)
class Outage:
    """23 calls that were made while no receiver accepted anything, and their totals.

    starts: of a program that had made its calls before; the first is that of before.
    """

    ticks: float
    totals: list[int]
    delta_sum: int
    starts: list[int]


OUTAGES = {"503": answer(503), "drop": drop(), "hang": hang(), "drip": drip(0.05)}


@pytest.fixture(scope="module")
def outages(pushing: Pushing) -> dict[str, Outage]:
    """An outage of each kind, in turn."""
    return {name: _outage(pushing, entry) for name, entry in OUTAGES.items()}


def _outage(pushing: Pushing, entry: Entry) -> Outage:
    """Begin the outage, make the calls, wait for two failed pushes, end it, and wait for two delivered ones."""
    exporter, default, delta = pushing.exporter, pushing.inboxes["default"], pushing.inboxes["delta"]
    rank = fresh_rank()
    with held_calls("cudaEventRecord:23", rank=rank) as calls:
        await_process(exporter, rank)
        start_before = _start(default, pushing.rank)
        with default.broken(entry), delta.broken(entry):
            ticks_before, failed_before = _ticks(exporter), _failed_pushes(exporter)
            calls.make()
            eventually(lambda: min(map(sub, _failed_pushes(exporter), failed_before)) >= 2, "two pushes fail")
            ticks = _ticks(exporter) - ticks_before
        eventually(lambda: _calls(default, rank) == [23], "the total is pushed")
        eventually(lambda: sum(_deltas(delta, rank)) >= 23, "the deltas are pushed")
        delta.await_another()
        return Outage(
            ticks,
            _calls(default, rank),
            sum(_deltas(delta, rank)),
            [start_before, _start(default, pushing.rank)],
        )


def _calls(found: Inbox, rank: str) -> list[int]:
    return calls_of(found.newest(rank), RECORD)


def _deltas(found: Inbox, rank: str) -> list[int]:
    return calls_of(found.every(rank), RECORD)


def _start(found: Inbox, rank: str) -> int:
    eventually(lambda: calls_of(found.newest(rank), WAIT), "it is pushed")
    return next(point.start_unix_ns for point in found.newest(rank) if point.name == "gpustall.cuda.operations")


def _ticks(exporter: Exporter) -> float:
    return exporter.scrape().total("gpustall_exporter_ticks_total")


def _failed_pushes(exporter: Exporter) -> list[float]:
    """To the receivers with an outage."""
    scrape = exporter.scrape()
    return [
        sum(
            sample.value
            for sample in scrape.matching("gpustall_exporter_pushes_total", receiver=name)
            if sample.labels["outcome"] != "delivered"
        )
        for name in ("default", "delta")
    ]


@pytest.mark.parametrize("outage", OUTAGES)
class TestOutage:
    """No receiver accepts anything for some pushes."""

    def test_ticks_go_on(self, outages: dict[str, Outage], outage: str) -> None:
        """Ticks do not wait for pushes."""
        assert outages[outage].ticks > 0

    def test_totals_are_right_afterwards(self, outages: dict[str, Outage], outage: str) -> None:
        """Those of the calls during the outage included."""
        assert outages[outage].totals == [23]

    def test_start_is_that_of_before(self, outages: dict[str, Outage], outage: str) -> None:
        """A receiver sees no reset."""
        before, after = outages[outage].starts

        assert after == before

    def test_deltas_add_up(self, outages: dict[str, Outage], outage: str) -> None:
        """Nothing is lost or sent twice."""
        assert outages[outage].delta_sum == 23


@pytest.mark.acceptance
class TestMemory:
    """Memory of an exporter whose receivers are down."""

    def test_it_does_not_grow(self, tmp_path: Path) -> None:
        """Nothing is queued: 60 failed pushes to four receivers take less than 4 MiB, also with deltas."""
        config = tmp_path / "exporter.toml"
        with refused() as url, held_calls(*ORDERS) as calls:
            config.write_text("".join(_table(name, url, temporality="delta", interval="200ms") for name in "abcd"))
            with running(f"--config.file={config}") as exporter, held_calls("ncclAllReduce:1:4096"):
                await_probes(exporter)
                calls.begin()
                _await_failures(exporter, 20)
                before = _resident_bytes(exporter)
                _await_failures(exporter, 80)
                after = _resident_bytes(exporter)

        assert after - before < 4 << 20


def _await_failures(exporter: Exporter, count: int) -> None:
    name, failed = "gpustall_exporter_pushes_total", {"outcome": "no_answer"}
    eventually(lambda: exporter.scrape().total(name, **failed) >= count, f"{count} pushes come to nothing")


def _resident_bytes(exporter: Exporter) -> int:
    pages = Path(f"/proc/{exporter.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


class TestStopping:
    """SIGTERM."""

    def test_last_push_has_the_last_calls(self) -> None:
        """Though the next one was due in an hour."""
        rank = fresh_rank()
        with (
            inbox() as found,
            running(f"--otlp.endpoint={found.url}", "--otlp.interval=1h") as exporter,
            held_calls("ncclAllReduce:1:4096"),
        ):
            await_probes(exporter)
            with held_calls("cudaEventRecord:23", rank=rank) as calls:
                await_process(exporter, rank)
                calls.make()
                exit_code = exporter.stop()

        assert exit_code == 0
        assert _calls(found, rank) == [23]

    def test_last_push_has_the_calls_of_a_process_that_has_just_begun(self) -> None:
        """It has run for less than a tick."""
        rank = fresh_rank()
        with (
            inbox() as found,
            running(f"--otlp.endpoint={found.url}", "--otlp.interval=1h", "--tick.interval=3s") as exporter,
            held_calls("ncclAllReduce:1:4096"),
        ):
            await_probes(exporter)
            with held_calls("cudaEventRecord:23", rank=rank) as calls:
                calls.make()
                exit_code = exporter.stop()

        assert exit_code == 0
        assert _calls(found, rank) == [23]

    def test_receiver_that_hangs_delays_no_other_and_no_scrape(self, tmp_path: Path) -> None:
        """A push to it takes an hour. It is abandoned after the stop, and the other one gets its last push."""
        rank = fresh_rank()
        config = tmp_path / "exporter.toml"
        with (
            receiver.receiver([hang()]) as slow,
            inbox() as found,
        ):
            config.write_text(
                _table("slow", slow.url, interval="200ms", timeout="1h") + _table("well", found.url, interval="1h")
            )
            with running(f"--config.file={config}") as exporter, held_calls("ncclAllReduce:1:4096"):
                await_probes(exporter)
                with held_calls("cudaEventRecord:23", rank=rank) as calls:
                    calls.make()
                    await_process(exporter, rank)
                    slow.awaited(1)
                    exporter.scrape()
                    exit_code = exporter.stop()

        assert exit_code == 0
        assert _calls(found, rank) == [23]
