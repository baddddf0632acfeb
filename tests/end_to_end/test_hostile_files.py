"""Files made to mislead or to exhaust their reader: one line, an exit code, bounded memory and time.

A process is measured from the outside, with the interpreter's start in it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest

from tests.support.exporter_process import COMMAND
from tests.support.hostile_files import (
    HOSTILE_TEXTS,
    damaged,
    damaged_exposition,
    damaged_recording,
    hand_made_expositions,
    hand_made_histories,
    hand_made_recordings,
    is_clean,
    make_history,
    raw_labels,
    recording_with,
)
from tests.support.measured import Measured, Runner, runner
from tests.support.metrics_page import page, responds

pytestmark = pytest.mark.end_to_end
PEAK_MIB_MAX = 128
SECONDS_MAX = 3
DAMAGED = 20
LONG = 10_000


@pytest.fixture(scope="module")
def measured() -> Iterator[Runner]:
    with runner() as found:
        yield found


def failure_of(done: Measured, *, may_succeed: bool = False) -> str:
    """What is wrong with the answer to a hostile file; "" for a good one."""
    if done.peak_mib > PEAK_MIB_MAX or done.seconds > SECONDS_MAX:
        return f"{done.seconds:.1f} s, {done.peak_mib:.0f} MiB"
    if may_succeed and done.code == 0 and is_clean(done.stdout) and not done.stderr:
        return ""
    is_refused = done.code in (2, 3) and done.stderr.count("\n") == 1 and not done.stdout and is_clean(done.stderr)
    return "" if is_refused else f"exit code {done.code}: {done.stdout[-300:]} {done.stderr[-300:]}"


def without_title(done: Measured, command: tuple[str, ...]) -> Measured:
    """`demo` prints the name of the file before it reads it."""
    return done._replace(stdout=done.stdout.partition("\n")[2]) if command[0] == "demo" else done


class TestHistories:
    def test_each_is_refused_in_one_line(self, measured: Runner, tmp_path: Path) -> None:
        failures = {}
        cases = [*hand_made_histories()]
        cases += [(f"damaged by seed {seed}", damaged(_live_history, seed)) for seed in range(DAMAGED)]
        for number, (name, make) in enumerate(cases):
            path = tmp_path / str(number) / "history.sqlite"
            path.parent.mkdir()
            make(path)
            done = measured.run(*COMMAND, "explain", "--per-process", "--history.path", str(path))
            failures[name] = failure_of(done, may_succeed=name.startswith("damaged"))

        assert {name: failure for name, failure in failures.items() if failure} == {}
        assert len(failures) >= 100


class TestRecordings:
    @pytest.mark.parametrize("command", [("explain", "--recording"), ("demo", "--replay")])
    def test_each_is_refused_in_one_line(self, measured: Runner, tmp_path: Path, command: tuple[str, ...]) -> None:
        """A row that no accounting looks at, and a flipped bit in a figure, may go unnoticed."""
        failures = {}
        cases = [(name, content, "of o" in name) for name, content in hand_made_recordings()]
        cases += [(f"damaged by seed {seed}", damaged_recording(seed), True) for seed in range(DAMAGED)]
        for name, content, may_succeed in cases[:: 1 if command[0] == "explain" else 4]:
            path = tmp_path / "one.capsule"
            path.write_bytes(content)
            done = without_title(measured.run(*COMMAND, *command, str(path)), command)
            failures[name] = failure_of(done, may_succeed=may_succeed)

        assert {name: failure for name, failure in failures.items() if failure} == {}


class TestExpositions:
    def test_each_is_refused_in_one_line(self, measured: Runner) -> None:
        """A changed figure may go unnoticed."""
        failures = {}
        cases = [(name, body, False) for name, body in hand_made_expositions()]
        cases += [(f"damaged by seed {seed}", damaged_exposition(seed), True) for seed in range(DAMAGED)]
        for name, body, may_succeed in cases:
            with page({"/metrics": responds(body)}) as found:
                done = measured.run(*COMMAND, "top", "--once", "--interval=500ms", f"--url={found.base}")
            failures[name] = failure_of(done, may_succeed=may_succeed)

        assert {name: failure for name, failure in failures.items() if failure} == {}


class TestTexts:
    """No output has a character that a terminal acts on."""

    @pytest.mark.parametrize("form", ["text", "json"])
    def test_history(self, measured: Runner, tmp_path: Path, form: str) -> None:
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
            done = measured.run(
                *COMMAND, "explain", "--per-process", f"--format={form}", "--since=1h", "--history.path", str(path)
            )

            assert failure_of(done, may_succeed=True) == ""
            assert len(done.stdout) < 1 << 20
            assert done.code == 0 or len(text) > LONG  # a megabyte in every text is refused

    def test_encoding_without_the_characters(self, measured: Runner, tmp_path: Path) -> None:
        """An output in ASCII shows them escaped."""
        path = tmp_path / "history.sqlite"
        tmp_path.chmod(0o700)
        _live_history(path)
        with closing(connect(path, isolation_level=None)) as connection:
            connection.execute("update events set document = replace(document, 'stress-ng', 'caf\u00e9\\u001b')")
        done = measured.run(
            "env", "PYTHONIOENCODING=ascii", *COMMAND, "explain", "--since=1h", "--history.path", str(path)
        )

        assert (done.code, done.stderr) == (0, "")
        assert "caf\\xe9\\ufffd" in done.stdout

    def test_name_of_a_file(self, measured: Runner, tmp_path: Path) -> None:
        """It is printed, too."""
        path = tmp_path / "\x1b[31m\u202e.capsule"
        path.write_bytes(recording_with())
        done = measured.run(*COMMAND, "demo", "--replay", str(path))

        assert done.code == 0
        assert is_clean(done.stdout)

    @pytest.mark.parametrize("command", [("explain", "--recording"), ("demo", "--replay")])
    def test_recording(self, measured: Runner, tmp_path: Path, command: tuple[str, ...]) -> None:
        for text in HOSTILE_TEXTS:
            path = tmp_path / "one.capsule"
            identity = dict.fromkeys(("node", "rank", "container", "namespace", "pod"), text)
            process = {"pid": 1, "identity": identity, "cgroup": text, "cpus": text}
            path.write_bytes(
                recording_with(version=text, node=text, processes={str(number): process for number in range(1, 9)})
            )
            done = without_title(measured.run(*COMMAND, *command, str(path)), command)

            assert failure_of(done, may_succeed=True) == ""
            assert len(done.stdout) < 1 << 20
            assert done.code == 0 or len(text) > LONG  # a megabyte in every text is refused

    @pytest.mark.parametrize("form", ["text", "json"])
    def test_exposition(self, measured: Runner, form: str) -> None:
        """Also bytes that are no text."""
        for text in (b"\xff\xfe\x1b", *(text.encode("utf-8", "replace") for text in HOSTILE_TEXTS)):
            body = raw_labels(text[:1000])
            with page({"/metrics": responds(body)}) as found:
                done = measured.run(
                    *COMMAND, "top", "--once", "--interval=500ms", f"--format={form}", f"--url={found.base}"
                )

            assert (done.code, done.stderr) == (0, "")
            assert is_clean(done.stdout)
            assert len(done.stdout) < 1 << 20

    def test_prices(self, measured: Runner, tmp_path: Path) -> None:
        """They become rules: names are refused rather than changed."""
        for text in (*HOSTILE_TEXTS, 'A"} or vector(1)'):
            path = tmp_path / "rates.toml"
            key = json.dumps(f"NVIDIA {text}\n".encode("utf-8", "replace").decode())
            path.write_text(f"[usd_per_hour]\n{key} = 1\n")
            done = measured.run(*COMMAND, "rates", "--rates", str(path))

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
