"""probes.unnamed: when the files of a process are searched, and the line about one without a runtime."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from exporter.errors import NoAnswer, ProcessGone
from exporter.host.libraries import LibraryKind, MappedLibrary
from exporter.host.mappings import Mapping
from exporter.host.reader import TenantReader
from exporter.host.unnamed_libraries import Examined
from exporter.probes.unnamed import AFTER_NO_ANSWER_SECONDS, AGAIN_SECONDS, UnnamedSearch
from tests.unit.host.process_tree import process


def library(kind: LibraryKind) -> MappedLibrary:
    """A mapped library."""
    return MappedLibrary(kind, Mapping(0, 1, b"/opt/library", 1, 2, is_deleted=False))


DRIVER, RUNTIME = library(LibraryKind.DRIVER), library(LibraryKind.RUNTIME)


class FakeReader:
    """Answers of a reader, one after another; the last one stays."""

    def __init__(self, *answers: Examined | Exception) -> None:
        self.tgid = 100
        self.asked = 0
        self._answers = list(answers)

    def unnamed(self, tgid: int) -> Examined:
        """See TenantReader."""
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Bench:
    """Process 7 runs /opt/train."""

    def __init__(self, proc: Path, *answers: Examined | Exception) -> None:
        processes = process(proc, 7)
        (proc / "7/exe").symlink_to("/opt/train")
        self.now = 0.0
        self.reader = FakeReader(*answers)
        self.unanswered: list[NoAnswer] = []
        self.left_out: list[str] = []
        self.search = UnnamedSearch(processes, self.unanswered.append, self.left_out.append, lambda: self.now)

    def steps(self, mapped: Sequence[MappedLibrary] = (DRIVER,)) -> list[list[MappedLibrary]]:
        """What is found in each step."""
        return list(self.search.steps(7, mapped, cast(TenantReader, self.reader)))


class TestSteps:
    """Searches of one process."""

    def test_search_goes_on_until_all_files_are_examined(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, Examined([], is_complete=False), Examined([RUNTIME]))

        assert bench.steps() == [[], [RUNTIME]]

    def test_process_without_the_driver_is_not_searched(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, Examined([]))

        assert (bench.steps([RUNTIME]), bench.reader.asked) == ([], 0)

    def test_process_is_searched_again_after_a_while(self, tmp_path: Path) -> None:
        """It may have loaded more."""
        bench = Bench(tmp_path, Examined([]))
        bench.steps()
        bench.steps()
        asked_at_once = bench.reader.asked
        bench.now = AGAIN_SECONDS
        bench.steps()

        assert (asked_at_once, bench.reader.asked) == (1, 2)

    def test_new_reader_searches_at_once(self, tmp_path: Path) -> None:
        """It does not remember what the one before has found."""
        bench = Bench(tmp_path, Examined([]))
        bench.steps()
        bench.reader.tgid = 101
        bench.steps()

        assert bench.reader.asked == 2

    def test_file_that_does_not_answer_is_counted_and_left_alone_for_long(self, tmp_path: Path) -> None:
        """Also by another reader, which would hang as well."""
        bench = Bench(tmp_path, NoAnswer("hangs"))
        bench.steps()
        bench.reader.tgid, bench.now = 101, AFTER_NO_ANSWER_SECONDS - 1
        bench.steps()

        assert (len(bench.unanswered), bench.reader.asked) == (1, 1)

    def test_files_that_are_left_out_are_counted_once_for_each_process(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, Examined([], left_out=76))
        bench.steps()
        bench.now = AGAIN_SECONDS
        bench.steps()

        assert bench.left_out == ["76 files of process 7 are not examined: too many are mapped"]
        assert bench.search.partly_examined() == {7}

    def test_process_whose_files_are_all_examined_now_is_no_longer_partly_examined(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, Examined([], left_out=76), Examined([]))
        bench.steps()
        bench.now = AGAIN_SECONDS
        bench.steps()

        assert bench.search.partly_examined() == set()

    def test_process_that_has_ended_is_no_failure(self, tmp_path: Path) -> None:
        bench = Bench(tmp_path, ProcessGone("process 7 ended"))

        assert (bench.steps(), bench.unanswered) == ([], [])


class TestWithoutRuntime:
    """A process that uses the driver."""

    @pytest.mark.parametrize(
        ("mapped", "found", "lines"),
        [([DRIVER], [], 1), ([DRIVER, RUNTIME], [], 0), ([DRIVER], [RUNTIME], 0)],
        ids=["none", "by name", "under another name"],
    )
    def test_missing_runtime_is_reported(
        self,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        mapped: list[MappedLibrary],
        found: list[MappedLibrary],
        lines: int,
    ) -> None:
        """Once for each program."""
        caplog.set_level(logging.INFO)
        bench = Bench(tmp_path, Examined(found))
        bench.steps(mapped)
        bench.now = AGAIN_SECONDS
        bench.steps(mapped)

        assert caplog.text.count("process 7 (/opt/train) uses the CUDA driver, and no CUDA runtime was found") == lines
