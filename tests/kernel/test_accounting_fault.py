"""A page that has to come from the disk: what the thread does to get it is as much of the fault as the sleep that follows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import IntervalKind, ThreadState
from tests.faults.injectors import disk
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import tracer

PAGES_BYTES = 64 << 20
ATTEMPTS = 12


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


def slept_for_most(program: Path, pages: Path) -> Account:
    """One in which most of the pages were slept for."""
    for _ in range(ATTEMPTS):
        disk.forget_pages(pages)
        account = read_once(program, pages)
        if account.truth["voluntary"] > 700:
            return account
    pytest.skip(f"this disk brings its pages without a sleep, {ATTEMPTS} times")


class TestFault:
    """1,024 pages of a mapped file, each asked for by itself."""

    def test_asking_for_a_page_is_part_of_its_fault(self, waits_program: Path, pages: Path) -> None:
        """By the kernel's own sum the thread ran longer than it was running: in each fault that it slept in, for 20 us and more.

        Of a virtual disk pages often come while they are asked for: then nothing sleeps, and it is tried again.
        """
        account = slept_for_most(waits_program, pages)
        running = account.call_ns("cudaEventRecord"), account.interval_ns(*IntervalKind)
        running_ns = sum(part.get(ThreadState.ON_CPU, 0) + part.get(ThreadState.RECLAIM, 0) for part in running)

        assert account.truth["cpu_ns"] - running_ns > account.truth["voluntary"] * 20_000

    def test_pages_that_are_there_are_no_fault(self, waits_program: Path, pages: Path) -> None:
        """They come from the page cache, where they are held: many faults, and no sleep in any of them."""
        with disk.held_pages(pages):
            account = read_once(waits_program, pages)

        assert account.call_ns("cudaEventRecord").get(ThreadState.FAULT, 0) == 0
