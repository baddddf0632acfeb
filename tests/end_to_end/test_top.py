"""`top` on a pseudo-terminal, with a real exporter and two ranks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import gpustall_standin as standin
from tests.support import held_calls
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.pseudo_terminal import Seat, seat
from tests.support.requirements import need_command, need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
NO_ACCESS_TO_ANYTHING = {"NO_PROXY": "*", "no_proxy": "*"}


class Job(NamedTuple):
    """An exporter, and the ranks of two traced processes: the first has synchronised 23 times, the second never."""

    exporter: Exporter
    busy: str
    idle: str

    def command(self, *flags: str) -> list[str]:
        """`top` of this exporter, with these two ranks only."""
        return [*COMMAND, "top", f"--url={self.exporter.url}", "--interval=500ms", *flags]


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    """One for all tests, which do not change it."""
    need_tracing()
    busy = next(rank for rank in iter(fresh_rank, None) if not rank.endswith("9"))
    idle = fresh_rank()  # differs in its last digit alone: a filter holds the two together
    with (
        running() as exporter,
        held_calls.held_calls("cudaStreamSynchronize:23:2ms", rank=busy) as first,
        held_calls.held_calls("cudaMemcpyAsync:23:4096:h2d", rank=idle) as second,
    ):
        library = standin.build_dir() / "libcudart.so.12"
        eventually(lambda: f"attached to {library}" in exporter.logs, "libcudart is probed")
        first.make()
        second.make()
        known = {str(tgid) for tgid in (*first.tgids, *second.tgids)}
        eventually(
            lambda: known <= {s.labels["pid"] for s in exporter.scrape().matching("gpustall_workload_info")},
            "both are exported",
        )
        yield Job(exporter, busy, idle)


def shows(found: Seat, job: Job) -> str:
    """The picture with both ranks."""
    return found.awaited("RANK", f"\n{job.busy} ", f"\n{job.idle} ", "q quit")


class TestKeys:
    """Pictures and keys."""

    def test_the_first_picture_is_since_the_start_and_the_next_of_the_interval(self, job: Job) -> None:
        """The calls that were made are in the first, with how long they took."""
        with seat(job.command("--interval=30s", f"--filter=rank={job.busy}")) as found:
            picture = found.awaited("since start", "cudaStreamSynchronize", f"rank {job.busy}", "P99")
            (row,) = [line for line in picture.splitlines() if line.startswith("cudaStreamSynchronize")]
        with seat(job.command()) as found:
            found.awaited("last ", "RANK", f"\n{job.busy} ", without=["since start"])

        assert [bool(re.fullmatch(r"[\d.]+(us|µs|ms|s)", text)) for text in row.split()[3:]] == [True] * 3

    def test_a_filter_is_typed_kept_and_cleared(self, job: Job) -> None:
        """Slash, letters, Enter; Escape."""
        with seat(job.command()) as found:
            shows(found, job)
            found.types(f"/rank={job.idle}")
            found.awaited(f"filter: rank={job.idle}_", f"\n{job.idle} ", without=[f"\n{job.busy} "])
            found.types("\r")
            found.awaited(f"filter rank={job.idle}", "q quit", without=[f"\n{job.busy} "])
            found.types("\x1b")
            shows(found, job)

    def test_enter_shows_one_workload_and_escape_all(self, job: Job) -> None:
        """The one that was selected, with the arrow keys of the terminal."""
        with seat(job.command("--sort=rank", f"--filter=rank={job.busy[:-1]}")) as found:
            shows(found, job)
            found.types("g\x1bOB\x1bOA\r")
            found.awaited(f"rank {job.busy} on ", "Esc back")
            found.types("\x1b")
            shows(found, job)

    def test_help_pause_and_sort_are_displayed(self, job: Job) -> None:
        """Each by its key."""
        with seat(job.command()) as found:
            shows(found, job)
            found.types("h")
            found.awaited("select a workload", "any key: back")
            found.types("xp")
            found.awaited("PAUSED", "by lost")
            found.types("ps")
            found.awaited("by step", without=["PAUSED"])

    @pytest.mark.parametrize("size", [(20, 5), (300, 80), (99, 30)])
    def test_resized_window_is_redrawn(self, job: Job, size: tuple[int, int]) -> None:
        """Tiny, huge, and a little narrower. The footer, if there is one, is drawn last."""
        footer = ("q quit",) if size[1] > 5 else ()
        with seat(job.command(f"--filter=rank={job.busy}")) as found:
            found.awaited("q quit")
            found.resizes(*size)
            picture = found.awaited("RANK", "LOST", f"\n{job.busy} ", *footer)

        assert picture.count("\n") == size[1] - 1
        assert ("q quit" in picture) == bool(footer)


class TestEnd:
    """The terminal is restored."""

    @pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", 130)])
    def test_a_key_ends_it(self, job: Job, key: str, code: int) -> None:
        """q, and Ctrl-C."""
        with seat(job.command()) as found:
            shows(found, job)
            assert found.modes_now() != found.modes
            found.types(key)

            assert found.ends() == code
            assert found.modes_now() == found.modes

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_a_signal_ends_it(self, job: Job, number: signal.Signals) -> None:
        """Exit code 128 plus its number."""
        with seat(job.command()) as found:
            shows(found, job)
            found.process.send_signal(number)

            assert found.ends() == 128 + number
            assert found.modes_now() == found.modes

    def test_a_stopped_one_leaves_the_terminal_and_comes_back(self, job: Job, tmp_path: Path) -> None:
        """Ctrl-Z, and `fg` in the shell that it runs in."""
        need_command("bash", "bash")
        script = 'set -m; stty -g > "$0/before"; "$@"; stty -g > "$0/stopped"; read; fg; stty -g > "$0/after"'
        with seat(["bash", "-c", script, str(tmp_path), *job.command()]) as found:
            shows(found, job)
            found.types("\x1a")
            eventually(lambda: (tmp_path / "stopped").exists() and (tmp_path / "stopped").read_text(), "it is stopped")
            found.forgets()
            found.types("\n")
            shows(found, job)
            found.types("h")
            found.awaited("select a workload")
            found.types("q")
            found.ends()

        before = (tmp_path / "before").read_text()
        assert ((tmp_path / "stopped").read_text(), (tmp_path / "after").read_text()) == (before, before)

    def test_an_unknown_terminal_is_refused(self, job: Job) -> None:
        """With a remedy, exit code 3."""
        with seat(job.command(), size=(160, 10), environment={"TERM": "no-such-kind"}) as found:
            assert found.ends() == 3
            found.awaited("this terminal cannot be used", "set TERM, such as")


class TestExporterGone:
    """An exporter that ends while `top` runs."""

    def test_last_figures_stay_and_are_marked_stale(self) -> None:
        """The reason is displayed above them, and keys work."""
        need_tracing()
        with running() as exporter, held_calls.held_calls("ncclAllReduce:1:4096", rank=fresh_rank()) as calls:
            for name in STANDIN_LIBRARIES.values():
                path = standin.build_dir() / name
                eventually(lambda path=path: f"attached to {path}" in exporter.logs, f"{path} is probed")
            calls.make()
            eventually(lambda: exporter.scrape().matching("gpustall_workload_info"), "a process is exported")
            with seat([*COMMAND, "top", f"--url={exporter.url}", "--interval=500ms"]) as found:
                found.awaited("RANK", "q quit")
                exporter.stop()
                found.awaited("STALE for", "connection refused", "RANK")
                found.types("q")

                assert found.ends() == 0


def printed(command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Output into a pipe."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, **NO_ACCESS_TO_ANYTHING, **environment},
        check=False,
    )


class TestPlain:
    """Not on a terminal."""

    def test_once_is_one_table_without_control_characters(self, job: Job) -> None:
        """Rates of one interval, exit code 0."""
        done = printed(job.command("--once", f"--filter=rank={job.busy}"), PYTHONIOENCODING="ascii")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("top | last ")
        assert any(line.startswith(f"{job.busy} ") for line in done.stdout.splitlines())
        assert all(character == "\n" or " " <= character <= "~" for character in done.stdout)

    def test_a_pipe_gets_a_table_an_interval_and_may_close(self, job: Job) -> None:
        """The first has the totals since the start; exit code 141 when the reader closes, as after SIGPIPE."""
        with subprocess.Popen(job.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            titles = []
            while len(titles) < 3:
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                titles += [line.split()[2]] if line.startswith("top") else []
            process.stdout.close()

            assert process.wait(PATIENCE_SECONDS) == 141
        assert titles == ["since", "last", "last"]

    def test_json_has_the_ranks(self, job: Job) -> None:
        """A document a line."""
        done = printed(job.command("--once", "--format=json"))
        ranks = {workload["identity"]["rank"] for workload in json.loads(done.stdout)["workloads"]}

        assert {job.busy, job.idle} <= ranks

    def test_a_dumb_terminal_is_one_that_prints(self, job: Job) -> None:
        """No cursor is moved."""
        with seat(job.command(), environment={"TERM": "dumb"}) as found:
            found.awaited(f"\n{job.idle} ")
            found.types("\x03")

            assert found.ends() == 130
