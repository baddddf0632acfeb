"""memory_rows: control groups under memory pressure."""

from __future__ import annotations

from exporter.kernel import abi
from exporter.kernel.memory_rows import forget_group, read_memory
from exporter.kernel.share_rows import Shares
from tests.support.tables import FakeTables

MS = 1_000_000


def test_row_has_sums_and_a_histogram() -> None:
    """Two reclaims, of 1 ns and of more."""
    kernel = FakeTables()
    kernel.memory_group(7, path=("a",), reclaims_ns=[1, 2 * MS], reclaimed_pages=23, oom_kills=1)
    ((number, row),) = read_memory(kernel.maps["memory_groups"])

    assert number == 7
    assert (row.reclaims.sum_ns, row.reclaims.counts.total, row.reclaimed_pages, row.oom_kills) == (
        2 * MS + 1,
        2,
        23,
        1,
    )


def test_path_begins_with_the_outermost_directory() -> None:
    """The row has the innermost name first; the root is an empty name or a slash."""
    kernel = FakeTables()
    kernel.memory_group(7, path=("slurm", "job_1", "step_0"))
    kernel.memory_group(1, path=())
    kernel.memory_group(2, path=("/",))

    assert {number: row.path for number, row in read_memory(kernel.maps["memory_groups"])} == {
        7: "/slurm/job_1/step_0",
        1: "/",
        2: "/",
    }


def test_name_of_95_bytes_is_whole() -> None:
    """Together with its NUL it fills its place."""
    kernel = FakeTables()
    name = "x" * (abi.GROUP_NAME_BYTES - 1)
    kernel.memory_group(7, path=("outer", name))
    ((_, row),) = read_memory(kernel.maps["memory_groups"])

    assert row.path == f"/outer/{name}"


def test_one_group_is_deleted() -> None:
    """By its number; others stay."""
    kernel = FakeTables()
    kernel.memory_group(7)
    kernel.memory_group(8)
    forget_group(Shares(kernel.maps), 7)

    assert [number for number, _ in read_memory(kernel.maps["memory_groups"])] == [8]


def test_missing_map_has_no_rows() -> None:
    """Its programs are not loaded."""
    assert list(read_memory(None)) == []
