"""What the exporter needs from its surroundings and does not get: a reader of its log, and file descriptors."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import held_calls
from tests.support.exporter_process import COMMAND, STARTS, Exporter, running
from tests.support.held_calls import fresh_rank
from tests.support.requirements import need_command, need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
FAILURES = "gpustall_exporter_attach_failures_total"
TICKS = "gpustall_exporter_ticks_total"
DROPPED = "gpustall_exporter_log_dropped_total"


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    need_tracing()


def fill(pipe: int) -> None:
    """Until there is no room. The pipe is opened once more: O_NONBLOCK belongs to what the exporter has."""
    fd = os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(fd, b"x" * 4096)
    os.close(fd)


@contextmanager
def unread() -> Iterator[tuple[Exporter, int]]:
    """An exporter whose log is a full pipe since it serves, and the reading end. It logs every tick."""
    if counted := os.environ.get(STARTS):
        with Path(counted).open("a") as starts:
            starts.write(os.environ.get("PYTEST_CURRENT_TEST", "") + "\n")
    own = ("--web.listen-address=127.0.0.1:0", "--history.path=none", "--recording.directory=none")
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [*COMMAND, "run", *own, "--recording.socket=none", "--log.level=debug", "--tick.interval=10ms"],
        stdin=subprocess.DEVNULL,
        stderr=writer,
        start_new_session=True,
    )
    try:
        text = b""
        while not (found := re.search(rb"serving (http://\S+/metrics)", text)):
            piece = os.read(reader, 1 << 16)
            assert piece, text
            text += piece
        fill(writer)
        yield Exporter(process, found[1].decode(), Path(os.devnull), Path(os.devnull)), reader
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)


class TestUnreadLog:
    """A full pipe that is not read."""

    def test_ticks_go_on_lines_are_counted_and_it_stops(self) -> None:
        """With the exit code of a stop. More lines come than can wait."""
        with unread() as (exporter, _):
            eventually(lambda: exporter.scrape().total(DROPPED) > 0, "lines are dropped")
            ticks = exporter.scrape().total(TICKS)
            eventually(lambda: exporter.scrape().total(TICKS) > ticks + 4, "it ticks")

            assert exporter.get("/readyz").status == 200
            assert exporter.stop() == 0


class TestFewDescriptors:
    def test_as_many_libraries_as_fit_are_probed_and_the_others_are_named(self) -> None:
        """Single probes take one each, and the three libraries 272: 114, 108 and 50. The exporter has some 500 open without."""
        need_command("prlimit", "util-linux")
        few = ("prlimit", "--nofile=1020:1020")
        with (
            held_calls.held_calls("cudaMalloc:23", rank=fresh_rank()),
            running("--probes.attach=single", under=few) as exporter,
        ):
            attached = exporter.logs.count('msg="attached to ')
            named = len(
                re.findall(r"cannot probe /\S+: it takes \d+ file descriptors, one for each probe", exporter.logs)
            )
            eventually(
                lambda: exporter.scrape().by("reason", FAILURES).get("descriptors", 0) >= named, "they are counted"
            )

        assert named > 0
        assert attached + named == len(STANDIN_LIBRARIES)
        assert attached > 0
