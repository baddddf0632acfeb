"""Major page faults: all time from the fault to the page counts, asleep or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from tests.faults.injectors import disk
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import tracer

PAGES_BYTES = 64 << 20


@pytest.fixture
def pages() -> Iterator[Path]:
    """A file on the disk."""
    with disk.file_of(PAGES_BYTES) as path:
        yield path


def read_once(program: Path, pages: Path) -> Account:
    """The program maps the file, and reads a page in sixteen in one call."""
    with tracer() as found:
        accounts.probe(found, program)
        return accounts.run(found, program, "call", "pages", "1", environment={"WAITS_FILE": str(pages)})


class TestFault:
    """1,024 pages of a mapped file, each in a fault of its own."""

    def test_major_faults_have_fault_time(self, waits_program: Path, pages: Path) -> None:
        """The request for the page and the sleep, or no sleep if a virtual disk answers at once."""
        disk.forget_pages(pages)
        account = read_once(waits_program, pages)
        states_ns = account.call_ns("cudaEventRecord")

        assert states_ns[ThreadState.FAULT] > 0
        assert account.truth["inside_ns"] <= sum(states_ns.values()) <= account.truth["wall_ns"]

    @pytest.mark.acceptance
    def test_all_time_of_a_major_fault_is_fault_time(self, waits_program: Path, pages: Path) -> None:
        """Little else is left."""
        disk.forget_pages(pages)
        states_ns = read_once(waits_program, pages).call_ns("cudaEventRecord")

        assert states_ns[ThreadState.FAULT] > 1024 * 10_000
        assert states_ns.get(ThreadState.ON_CPU, 0) < states_ns[ThreadState.FAULT] / 4

    def test_pages_in_the_page_cache_cause_no_fault_time(self, waits_program: Path, pages: Path) -> None:
        """Many minor faults, none of which sleeps."""
        with disk.held_pages(pages):
            account = read_once(waits_program, pages)

        assert account.call_ns("cudaEventRecord").get(ThreadState.FAULT, 0) == 0
