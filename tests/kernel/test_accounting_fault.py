"""A page that has to come from the disk: what the thread does to get it is as much of the fault as the sleep."""

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
    """1,024 pages of a mapped file, each asked for by itself."""

    def test_all_of_a_fault_is_of_the_fault(self, waits_program: Path, pages: Path) -> None:
        """Asking for a page, the sleep, and no sleep at all where a virtual disk answers at once: hardly anything is left."""
        disk.forget_pages(pages)
        states_ns = read_once(waits_program, pages).call_ns("cudaEventRecord")

        assert states_ns[ThreadState.FAULT] > 1024 * 10_000
        assert states_ns.get(ThreadState.ON_CPU, 0) < states_ns[ThreadState.FAULT] / 4

    def test_pages_that_are_there_are_no_fault(self, waits_program: Path, pages: Path) -> None:
        """They come from the page cache, where they are held: many faults, and no sleep in any of them."""
        with disk.held_pages(pages):
            account = read_once(waits_program, pages)

        assert account.call_ns("cudaEventRecord").get(ThreadState.FAULT, 0) == 0
