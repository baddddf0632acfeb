"""exporter/kernel/abi.py has the layout that bpf/abi/*.h has for the compiler, and the rows of Python have its members."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter import totals, units
from exporter.errors import NotPossibleHere
from exporter.kernel import (
    abi,
    awaited_rows,
    cadence_rows,
    disk_rows,
    end_rows,
    events,
    gpu_rows,
    operation_rows,
    output_rows,
    process_rows,
    progress_rows,
    recorded_events,
    retransmit_rows,
    stacks,
    thread_rows,
)
from exporter.kernel.layout import Layout
from exporter.kernel.libbpf import Libbpf
from exporter.kernel.loader import OBJECTS_DIR, check_layouts

ROOT = Path(__file__).parents[2]
COMPILER = ("clang", "-target", "bpf", "-g", "-O2", f"-I/usr/include/{os.uname().machine}-linux-gnu")
OTHER = """
#include <linux/types.h>
struct disk_wait {
	__u64 wait_ns;
	__u64 waits;
};
struct {
	int (*type)[1];
	int (*max_entries)[1];
	__u32 *key;
	struct disk_wait *value;
} disk_waits __attribute__((section(".maps"), used));
"""
OBJECTS = sorted(path.name for path in OBJECTS_DIR.glob("*.bpf.o"))

ROWS: dict[str, tuple[type, tuple[str, ...]]] = {
    # layout: NamedTuple of its rows, members that it leaves out
    "OPERATION_KEY": (operation_rows.OperationKey, ()),
    "EXEMPLAR": (totals.Call, ("opening", "closing")),
    "ERROR_KEY": (operation_rows.ErrorKey, ("padding", "padding_2")),
    "EXPOSURE": (thread_rows.Exposure, ()),
    "INTERVAL_KEY": (thread_rows.IntervalKey, ()),
    "INTERVAL_ROW": (thread_rows.IntervalRow, ()),
    "BLAME_KEY": (thread_rows.BlameKey, ()),
    "FEEDING_ROW": (thread_rows.FeedingRow, ("has_collectives", "event_waits")),
    "WAKEUP_KEY": (thread_rows.WakeupKey, ("padding",)),
    "WAKEUP_ROW": (thread_rows.WakeupRow, ()),
    "THREAD_ROW": (thread_rows.ThreadRow, ()),
    "AWAITED_BY": (awaited_rows.AwaitedBy, ()),
    "AWAITED_KEY": (awaited_rows.AwaitedKey, ()),
    "BEAT": (cadence_rows.BeatRow, ()),
    "CADENCE_ROW": (cadence_rows.CadenceRow, ()),
    "OUTPUT": (output_rows.Output, ()),
    "OUTPUT_ROW": (output_rows.OutputRow, ()),
    "COPY_KEY": (gpu_rows.CopyKey, ("padding",)),
    "COPY_ROW": (gpu_rows.CopyRow, ()),
    "GRAPH_ROW": (gpu_rows.GraphRow, ()),
    "PROCESS_ROW": (process_rows.ProcessRow, ("communicators",)),
    "COMMUNICATOR_ROW": (process_rows.CommunicatorRow, ("splits",)),
    "PROGRESS_KEY": (progress_rows.ProgressKey, ()),
    "PROGRESS_ROW": (progress_rows.ProgressRow, ()),
    "EVENT": (events.KernelEvent, ()),
    "RETRANSMIT_KEY": (retransmit_rows.RetransmitKey, ("padding",)),
    "RETRANSMIT_ROW": (retransmit_rows.RetransmitRow, ("owner", "padding")),
    "LAST_ERROR": (end_rows.LastError, ()),
    "EXIT_KEY": (end_rows.ExitKey, ()),
    "EXIT_ROW": (end_rows.ExitRow, ()),
    "FORK_KEY": (end_rows.ForkKey, ()),
    "DISK_KEY": (disk_rows.DiskKey, ()),
    "DISK_ROW": (disk_rows.DiskRow, ("owner", "padding")),
    "DISK_USER": (disk_rows.DiskUser, ()),
    "DISK_USER_KEY": (disk_rows.DiskUserKey, ("padding",)),
    "DISK_USE": (disk_rows.DiskUse, ()),
    "DISK_WAIT_KEY": (disk_rows.DiskWaitKey, ()),
    "DISK_WAIT": (disk_rows.DiskWait, ()),
    "STACK_FRAME": (stacks.Frame, ()),
    "RECORDED_CALL": (recorded_events.RecordedCall, ("kind",)),
    "RECORDED_CHANGE": (recorded_events.RecordedChange, ()),
}


class TestAbi:
    """exporter/kernel/abi.py."""

    def test_file_is_what_the_headers_make(self) -> None:
        """Else: `make -C bpf`, and commit the file."""
        made = subprocess.run(
            [sys.executable, ROOT / "bpf" / "layouts.py", *COMPILER], check=True, capture_output=True, text=True
        )

        assert (ROOT / "exporter" / "kernel" / "abi.py").read_text(encoding="ascii") == made.stdout

    def test_padding_of_the_compiler_is_an_error(self, tmp_path: Path) -> None:
        """It has no name, so user space could not skip it."""
        (tmp_path / "layouts.py").write_bytes((ROOT / "bpf" / "layouts.py").read_bytes())
        (tmp_path / "abi").mkdir()
        (tmp_path / "abi" / "odd.h").write_text("struct odd {\n\tunsigned int a;\n\tunsigned long b;\n};\n")
        made = subprocess.run(
            [sys.executable, tmp_path / "layouts.py", *COMPILER],
            check=False,
            capture_output=True,
            text=True,
        )

        assert (made.returncode, made.stdout) == (1, "")
        assert "struct odd: padding of the compiler in front of b" in made.stderr

    def test_histogram_has_the_slots_of_units(self) -> None:
        """units.py imports nothing of the kernel's."""
        assert abi.HIST_SLOTS == units.SLOTS == 338

    def test_states_are_as_many_as_a_row_has(self) -> None:
        """The arrays of a row are indexed by ThreadState."""
        assert abi.THREAD_STATES == len(abi.ThreadState) == 17

    @pytest.mark.parametrize("name", ROWS)
    def test_row_has_the_members_in_their_order(self, name: str) -> None:
        """Without padding and without members that only the programs need."""
        row, left_out = ROWS[name]
        layout: Layout = getattr(abi, name)

        assert list(row._fields) == [member for member in layout.members if member not in left_out]  # type: ignore[attr-defined]


class TestObjects:
    """The compiled objects."""

    @pytest.mark.parametrize("name", OBJECTS)
    def test_object_lays_rows_out_as_abi_does(self, name: str) -> None:
        """Every struct that is a key or value of one of its maps, by the BTF of the object."""
        libbpf = Libbpf()
        handle = libbpf.open_object(OBJECTS_DIR / name)
        try:
            check_layouts(libbpf, handle, name)
        finally:
            libbpf.close_object(handle)

    def test_object_of_other_sources_is_refused(self, tmp_path: Path) -> None:
        """The members of a row have changed places since it was built."""
        built = tmp_path / "other.bpf.o"
        subprocess.run([*COMPILER, "-x", "c", "-c", "-", "-o", built], input=OTHER, check=True, text=True)
        libbpf = Libbpf()
        handle = libbpf.open_object(built)
        try:
            with pytest.raises(NotPossibleHere) as refused:
                check_layouts(libbpf, handle, built.name)
        finally:
            libbpf.close_object(handle)

        assert refused.value.one_line() == "other.bpf.o and this exporter differ in struct disk_wait; run `make build`"
