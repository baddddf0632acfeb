"""kernel.end_rows: forks, last errors and ends of processes, byte by byte."""

from __future__ import annotations

import struct

import pytest

from exporter.kernel.end_rows import (
    ExitKey,
    ExitRow,
    ForkKey,
    LastError,
    read_exits,
    read_forks,
    read_last_errors,
)
from tests.support.tables import FakeMap


def table(key: bytes, value: bytes) -> FakeMap:
    found = FakeMap()
    found.rows[key] = value
    return found


class TestExitKey:
    """status as wait(2) returns it: exit code in bits 8 to 15, signal in bits 0 to 6, core dump in bit 7."""

    @pytest.mark.parametrize(
        ("status", "code", "signal"), [(0, 0, 0), (0x0300, 3, 0), (9, 0, 9), (0x8B, 0, 11)], ids=hex
    )
    def test_process_has_exited_or_was_killed(self, status: int, code: int, signal: int) -> None:
        key = ExitKey(1, status, 0, 0)

        assert (key.code, key.signal) == (code, signal)


class TestRows:
    def test_exits(self) -> None:
        """Process, status, worker, victim; then a count and the time of the last one."""
        exits = table(struct.pack("<IIHH", 7, 9, 1, 0), struct.pack("<QQ", 3, 1000))

        assert read_exits(exits) == {ExitKey(7, 9, 1, 0): ExitRow(3, 1000)}

    def test_forks(self) -> None:
        forks = table(struct.pack("<II", 7, 1), struct.pack("<Q", 64))

        assert read_forks(forks) == {ForkKey(7, 1): 64}

    def test_last_errors(self) -> None:
        errors = table(struct.pack("<I", 7), struct.pack("<QiI", 1000, 2, 12))

        assert read_last_errors(errors) == {7: LastError(1000, 2, 12)}

    def test_map_that_is_not_loaded_has_no_rows(self) -> None:
        assert (read_exits(None), read_forks(None), read_last_errors(None)) == ({}, {}, {})
