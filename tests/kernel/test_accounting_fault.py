"""A page that has to come from the disk: what the thread does to get it is as much of the fault as the sleep that follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from exporter.kernel.loader import SUBJECTS
from tests.faults.injectors import disk
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import tracer

PAGES_BYTES = 64 << 20
WITHOUT = tuple(subject for subject in SUBJECTS if subject != "fault")


@pytest.fixture
def pages() -> Iterator[Path]:
    """A file on the disk."""
    with disk.file_of(PAGES_BYTES) as path:
        yield path


def read_once(program: Path, pages: Path, subjects: tuple[str, ...]) -> Account:
    """The program maps the file, of which nothing is in the page cache, and reads it from end to end in one call."""
    disk.forget_pages(pages)
    with tracer(subjects=subjects) as found:
        accounts.probe(found, program)
        return accounts.run(found, program, "call", "maps", "1", environment={"WAITS_FILE": str(pages)})


class TestFault:
    """64 MiB of a mapped file, read once."""

    def test_asking_for_a_page_is_part_of_its_fault(self, waits_program: Path, pages: Path) -> None:
        """Without the program that sees faults begin, the thread would run while it asks: the same call, more of it running."""
        seen = read_once(waits_program, pages, SUBJECTS).call_ns("cudaEventRecord")
        unseen = read_once(waits_program, pages, WITHOUT).call_ns("cudaEventRecord")

        assert _fault_share(seen) > _fault_share(unseen) + 0.05
        assert seen[ThreadState.ON_CPU] > 0

    def test_pages_that_are_there_are_no_fault(self, waits_program: Path, pages: Path) -> None:
        """The second time they come from the page cache: many faults, and no sleep in any of them."""
        read_once(waits_program, pages, SUBJECTS)
        with tracer() as found:
            accounts.probe(found, waits_program)
            account = accounts.run(found, waits_program, "call", "maps", "1", environment={"WAITS_FILE": str(pages)})

        assert account.call_ns("cudaEventRecord").get(ThreadState.FAULT, 0) == 0


def _fault_share(states_ns: dict[ThreadState, int]) -> float:
    """Of what the thread did that was not waiting for a CPU."""
    fault_ns = states_ns[ThreadState.FAULT]
    return fault_ns / (fault_ns + states_ns[ThreadState.ON_CPU])
