"""Files made to mislead or to exhaust their reader: one line, an exit code, bounded memory; bounded time outside of the gate.

A process is measured from the outside, beyond one that reads no file. Its time is CPU time, whatever else the machine does; one
that waits without end is killed (tests/support/measured.py), and so has no exit code of its own.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any, NamedTuple

import pytest

from exporter.investigate.schema import VIEWS
from tests.support.exporter_process import COMMAND
from tests.support.forked_commands import Commands, commands
from tests.support.hostile_files import (
    HAND_MADE_EXPOSITIONS,
    HOSTILE_TEXTS,
    damaged,
    damaged_exposition,
    damaged_recording,
    hand_made_histories,
    hand_made_recordings,
    is_clean,
    make_history,
    raw_labels,
    recording_with,
)
from tests.support.measured import Measured
from tests.support.metrics_page import page, responds

pytestmark = pytest.mark.end_to_end
PEAK_MIB_MAX = 98
"""With the 30 MiB of a process that reads no file: 128 MiB."""
STARTS_MAX = 7
"""CPU time of a command, in times of a start: 2.8 s where that takes 0.4 s."""
LONG = 10_000
EVERYTHING = " union all ".join(f"select '{view.name}', count(*) from {view.name}" for view in VIEWS)  # noqa: S608 - names of our own
COMMANDS = pytest.mark.parametrize(
    "command", [("explain", "--recording"), ("export", "--recording"), ("demo", "--replay")]
)


class Extent(NamedTuple):
    """every: one in so many of the files that are made by hand is used. damaged: how many have damage that a seed chooses.

    starts_max: bound of the CPU time, in times of a start.
    """

    every: int
    damaged: int
    starts_max: float


@pytest.fixture(
    scope="module",
    params=[Extent(4, 3, math.inf), pytest.param(Extent(1, 40, STARTS_MAX), marks=pytest.mark.acceptance)],
)
def extent(request: pytest.FixtureRequest) -> Extent:
    return request.param


@pytest.fixture(scope="module")
def programs(extent: Extent) -> Iterator[Commands]:
    with commands() as found:
        found.cpu_seconds_max = extent.starts_max * found.start_cpu_seconds
        yield found


def failure_of(programs: Commands, done: Measured, *, may_succeed: bool = False) -> str:
    """What is wrong with the answer to a hostile file; "" for a good one."""
    if done.peak_mib > PEAK_MIB_MAX or done.cpu_seconds > programs.cpu_seconds_max:
        return f"{done.cpu_seconds:.1f} s, {done.peak_mib:.0f} MiB"
    if may_succeed and done.code == 0 and is_clean(done.stdout) and not done.stderr:
        return ""
    is_refused = done.code in (2, 3) and done.stderr.count("\n") == 1 and not done.stdout and is_clean(done.stderr)
    return "" if is_refused else f"exit code {done.code}: {done.stdout[-300:]} {done.stderr[-300:]}"


def without_title(done: Measured, command: tuple[str, ...]) -> Measured:
    """`demo` prints the name of the file before it reads it."""
    return done._replace(stdout=done.stdout.partition("\n")[2]) if command[0] == "demo" else done


def output(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The flag that keeps the bytes of a timeline from standard output."""
    return (f"--output={folder / 't'}",) if command[0] == "export" else ()


HISTORY_COMMANDS = {
    "explain": ("explain", "--per-process"),
    "query": ("query", EVERYTHING),
    "export": ("export",),
}


class Answers(NamedTuple):
    """To one history. by_command: of HISTORY_COMMANDS. has_merged: whether `merge` left a file."""

    by_command: dict[str, Measured]
    merge: Measured
    has_merged: bool


@pytest.fixture(scope="module")
def answers(programs: Commands, extent: Extent, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answers]:
    """Case -> answers. Each history is made once; the largest ones have 200 MB."""
    found = {}
    cases = [*hand_made_histories()][:: extent.every]
    cases += [(f"damaged by seed {seed}", damaged(_live_history, seed)) for seed in range(extent.damaged)]
    for name, make in cases:
        folder = tmp_path_factory.mktemp("history")
        path, merged = folder / "history.sqlite", folder / "merged.sqlite"
        make(path)
        by_command = {
            known: programs.run(*command, *output(command, folder), f"--history.path={path}")
            for known, command in HISTORY_COMMANDS.items()
        }
        found[name] = Answers(by_command, programs.run("merge", str(path), f"--output={merged}"), merged.exists())
        shutil.rmtree(folder)
    return found


@pytest.mark.timeout(1200)  # hundreds of programs, one after another
class TestHistories:
    @pytest.mark.parametrize("command", HISTORY_COMMANDS)
    def test_each_is_refused_in_one_line(self, command: str, programs: Commands, answers: dict[str, Answers]) -> None:
        failures = {
            name: failure_of(programs, found.by_command[command], may_succeed=name.startswith(("damaged", "no stacks")))
            for name, found in answers.items()
        }

        assert {name: failure for name, failure in failures.items() if failure} == {}
        assert len(failures) >= 20

    def test_each_is_refused_in_one_line_or_copied(self, programs: Commands, answers: dict[str, Answers]) -> None:
        """By `merge`. It does not decode windows: readers of the new file find damage in them. A refusal leaves no file."""
        failures = {}
        for name, found in answers.items():
            done = found.merge
            is_copied = done.code == 0 and found.has_merged and done.peak_mib <= PEAK_MIB_MAX
            failures[name] = (
                "" if is_copied and is_clean(done.stdout) else failure_of(programs, done) or "a file" * found.has_merged
            )

        assert {name: failure for name, failure in failures.items() if failure} == {}


class TestRecordings:
    @COMMANDS
    def test_each_is_refused_in_one_line(
        self, programs: Commands, extent: Extent, tmp_path: Path, command: tuple[str, ...]
    ) -> None:
        """A row that no accounting looks at, and a flipped bit in a figure, may go unnoticed."""
        failures = {}
        cases = [(name, content, "of o" in name) for name, content in hand_made_recordings()][:: extent.every]
        cases += [(f"damaged by seed {seed}", damaged_recording(seed), True) for seed in range(extent.damaged)]
        for name, content, may_succeed in cases:
            path = tmp_path / "one.capsule"
            path.write_bytes(content)
            done = without_title(programs.run(*command, str(path), *output(command, tmp_path)), command)
            failures[name] = failure_of(programs, done, may_succeed=may_succeed)

        assert {name: failure for name, failure in failures.items() if failure} == {}


class TestExpositions:
    def test_each_is_refused_in_one_line(self, programs: Commands, extent: Extent) -> None:
        """A changed figure may go unnoticed."""
        failures = {}
        cases = [(name, made(), False) for name, made in HAND_MADE_EXPOSITIONS.items()][:: extent.every]
        cases += [(f"damaged by seed {seed}", damaged_exposition(seed), True) for seed in range(extent.damaged)]
        for name, body, may_succeed in cases:
            with page({"/metrics": responds(body)}) as found:
                done = programs.run("top", "--once", "--interval=500ms", f"--url={found.base}")
            failures[name] = failure_of(programs, done, may_succeed=may_succeed)

        assert {name: failure for name, failure in failures.items() if failure} == {}


class TestTexts:
    """No output has a character that a terminal acts on."""

    @pytest.mark.parametrize(
        "command",
        [
            ("explain", "--per-process", "--format=text"),
            ("explain", "--per-process", "--format=json"),
            ("query", "select * from chains, chain_events, node", "--format=table"),
            ("query", "select * from chains, chain_events, node", "--format=csv"),
        ],
        ids=["text", "json", "table", "csv"],
    )
    def test_history(self, programs: Commands, tmp_path: Path, command: tuple[str, ...]) -> None:
        """In every text of every event, window and run."""
        path = tmp_path / "history.sqlite"
        tmp_path.chmod(0o700)
        _live_history(path)
        for text in HOSTILE_TEXTS:
            with closing(connect(path, isolation_level=None)) as connection:
                (document,) = connection.execute("select document from events").fetchone()
                changed = json.dumps(_with_texts(json.loads(document), text))
                connection.execute("update events set document = ?", (changed,))
                connection.execute("update runs set version = ?", (text.encode("utf-8", "replace").decode(),))
            done = programs.run(*command, "--since=1h", "--history.path", str(path))

            assert failure_of(programs, done, may_succeed=True) == ""
            assert len(done.stdout) < 1 << 20
            assert done.code == 0 or len(text) > LONG  # a megabyte in every text is refused

    def test_encoding_without_the_characters(self, programs: Commands, tmp_path: Path) -> None:
        """An output in ASCII shows them escaped."""
        path = tmp_path / "history.sqlite"
        tmp_path.chmod(0o700)
        _live_history(path)
        with closing(connect(path, isolation_level=None)) as connection:
            connection.execute("update events set document = replace(document, 'stress-ng', 'caf\u00e9\\u001b')")
        done = programs.start(
            "env", "PYTHONIOENCODING=ascii", *COMMAND, "explain", "--since=1h", "--history.path", str(path)
        )

        assert (done.code, done.stderr) == (0, "")
        assert "caf\\xe9\\ufffd" in done.stdout

    def test_name_of_a_file(self, programs: Commands, tmp_path: Path) -> None:
        """It is printed, too."""
        path = tmp_path / "\x1b[31m\u202e.capsule"
        path.write_bytes(recording_with())
        done = programs.start(*COMMAND, "demo", "--replay", str(path))

        assert done.code == 0
        assert is_clean(done.stdout)

    @COMMANDS
    def test_recording(self, programs: Commands, tmp_path: Path, command: tuple[str, ...]) -> None:
        for text in HOSTILE_TEXTS:
            path = tmp_path / "one.capsule"
            identity = dict.fromkeys(("node", "rank", "container", "namespace", "pod"), text)
            process = {"pid": 1, "identity": identity, "cgroup": text, "cpus": text}
            path.write_bytes(
                recording_with(version=text, node=text, processes={str(number): process for number in range(1, 9)})
            )
            done = without_title(programs.run(*command, str(path), *output(command, tmp_path)), command)

            assert failure_of(programs, done, may_succeed=True) == ""
            assert len(done.stdout) < 1 << 20
            assert done.code == 0 or len(text) > LONG  # a megabyte in every text is refused

    @pytest.mark.parametrize("form", ["text", pytest.param("json", marks=pytest.mark.acceptance)])
    def test_exposition(self, programs: Commands, form: str) -> None:
        """Also bytes that are no text."""
        for text in (b"\xff\xfe\x1b", *(text.encode("utf-8", "replace") for text in HOSTILE_TEXTS)):
            body = raw_labels(text[:1000])
            with page({"/metrics": responds(body)}) as found:
                done = programs.run("top", "--once", "--interval=500ms", f"--format={form}", f"--url={found.base}")

            assert (done.code, done.stderr) == (0, "")
            assert is_clean(done.stdout)
            assert len(done.stdout) < 1 << 20

    def test_prices(self, programs: Commands, tmp_path: Path) -> None:
        """They become rules: names are refused rather than changed."""
        for text in (*HOSTILE_TEXTS, 'A"} or vector(1)'):
            path = tmp_path / "rates.toml"
            key = json.dumps(f"NVIDIA {text}\n".encode("utf-8", "replace").decode())
            path.write_text(f"[usd_per_hour]\n{key} = 1\n")
            done = programs.run("rates", "--rates", str(path))

            assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
            assert is_clean(done.stderr)
            assert len(done.stderr) < 1000


def _live_history(path: Path) -> None:
    make_history(path, now_unix_ns=time.time_ns())


_FIXED = ("change", "cause", "effect", "severity", "end")


def _with_texts(value: Any, text: str, key: str = "") -> Any:
    """With `text` in place of every text but names of members and of closed sets."""
    if isinstance(value, str):
        return value if key in _FIXED else text
    if isinstance(value, dict):
        return {name: _with_texts(one, text, name) for name, one in value.items()}
    return [_with_texts(one, text) for one in value] if isinstance(value, list) else value
