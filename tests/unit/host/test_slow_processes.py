"""host.slow_processes: a process that does not answer is left to the patient reader, and its owner after three of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from exporter.host.slow_processes import SlowProcesses
from tests.support.held import sizes


@pytest.fixture
def slow() -> SlowProcesses:
    return SlowProcesses()


@pytest.fixture
def reader() -> Iterator[subprocess.Popen[bytes]]:
    """One that hangs until it is killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


class TestSlow:
    def test_only_the_process_is_slow_at_first(self, slow: SlowProcesses) -> None:
        slow.add("job", 7, now=0.0)

        assert [slow.is_slow("job", tgid, now=1.0) for tgid in (7, 8)] == [True, False]

    def test_all_of_an_owner_are_slow_after_three(self, slow: SlowProcesses) -> None:
        for tgid in (7, 8, 9):
            slow.add("job", tgid, now=0.0)

        assert slow.is_slow("job", 10, now=1.0)
        assert not slow.is_slow("other", 10, now=1.0)

    def test_it_is_tried_again_after_ten_minutes(self, slow: SlowProcesses) -> None:
        slow.add("job", 7, now=0.0)

        assert (slow.is_slow("job", 7, now=599.0), slow.is_slow("job", 7, now=600.0)) == (True, False)

    def test_owners_that_are_gone_are_forgotten(self, slow: SlowProcesses) -> None:
        """Ten thousand containers in a day, each with a process that does not answer."""
        for number in range(10_000):
            slow.add(f"container {number}", number, now=8.64 * number)

        assert sizes(slow)["SlowProcesses._slow_until"] == 70  # 600 s / 8.64 s


class TestHanging:
    def test_process_is_left_alone_while_a_reader_hangs_in_it(
        self, slow: SlowProcesses, reader: subprocess.Popen[bytes]
    ) -> None:
        slow.add_hanging("job", 7, reader)
        while_hanging = [slow.is_hanging("job", tgid) for tgid in (7, 8)]
        reader.kill()
        reader.wait()

        assert (while_hanging, slow.is_hanging("job", 7)) == ([True, False], False)

    def test_owner_whose_readers_have_ended_is_forgotten(
        self, slow: SlowProcesses, reader: subprocess.Popen[bytes]
    ) -> None:
        slow.add_hanging("job", 7, reader)
        reader.kill()
        reader.wait()
        slow.add_hanging("other", 8, None)

        assert sizes(slow)["SlowProcesses._hanging"] == 0

    def test_owner_is_left_alone_after_three(self, slow: SlowProcesses, reader: subprocess.Popen[bytes]) -> None:
        for tgid in (7, 8, 9):
            slow.add_hanging("job", tgid, reader)

        assert slow.is_hanging("job", 10)
        assert not slow.is_hanging("other", 10)
