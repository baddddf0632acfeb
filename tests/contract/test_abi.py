"""bpf/abi.h and exporter/kernel/abi.py say the same: constants, enums, and every row field by field."""

from __future__ import annotations

import enum
import re
import struct
from pathlib import Path

import pytest

from exporter import totals, units
from exporter.kernel import (
    abi,
    cadence_rows,
    disk_rows,
    end_rows,
    events,
    gpu_rows,
    operation_rows,
    output_rows,
    process_rows,
    progress_rows,
    retransmit_rows,
    stacks,
    thread_rows,
)

HEADER = re.sub(r"/\*.*?\*/", "", (Path(__file__).parents[2] / "bpf" / "abi.h").read_text(encoding="utf-8"), flags=re.S)

CONSTANTS = (
    "HIST_OCTAVES",
    "HIST_SLOTS",
    "RANK_UNKNOWN",
    "COMMUNICATOR_ORDINALS",
    "COMMUNICATOR_OTHER",
    "TAIL_FIRST_OCTAVE",
    "TAIL_OCTAVES",
    "FEEDING_PLACES",
    "OPERATION_NONE",
    "BEATS",
    "OUTPUTS",
    "ATTACHMENTS",
    "STACK_FRAMES",
    "STACK_RETURNS",
    "STACK_WORDS",
    "STACK_WINDOWS",
    "STACK_ALL_WORDS",
    "OPERATION_NCCL_WAIT",
    "GPU_MAJORS",
    "GRID_CLASSES",
    "BLOCK_CLASSES",
    "GEOMETRIES",
    "GROUP_NAMES",
    "GROUP_NAME_BYTES",
    "GROUP_NAMES_BYTES",
)
KERNEL_ONLY = ("NCCL_UNIQUE_ID_BYTES", "EXEMPLAR_WINDOW", "COUNTED_TOGETHER")

ENUMS: dict[str, tuple[type[enum.IntEnum], str, str | None]] = {
    # C name: the twin, prefix of the C names, C name that only counts the others
    "call_api": (abi.Api, "API_", None),
    "call_role": (abi.Role, "ROLE_", None),
    "call_shape": (abi.Shape, "SHAPE_", None),
    "cookie_field": (abi.Cookie, "COOKIE_", None),
    "copy_direction": (abi.Copy, "COPY_", "COPY_DIRECTIONS"),
    "thread_state": (abi.ThreadState, "STATE_", "THREAD_STATES"),
    "interval_kind": (abi.IntervalKind, "INTERVAL_", "INTERVAL_KINDS"),
    "culprit_kind": (abi.Culprit, "CULPRIT_", None),
    "victim_kind": (abi.Victim, "VICTIM_", None),
    "chain_waker": (abi.Waker, "WAKER_", None),
    "frontier_kind": (abi.Frontier, "FRONTIER_", None),
    "allocation_kind": (abi.AllocationKind, "ALLOCATION_", None),
    "host_memory": (abi.HostMemory, "MEMORY_", None),
    "disk_direction": (abi.DiskDirection, "DISK_", None),
    "event_kind": (abi.EventKind, "EVENT_", None),
    "ip_family": (abi.IpFamily, "FAMILY_", None),
    "loss_program": (abi.LossProgram, "LOSS_IN_", "LOSS_PROGRAMS"),
    "loss_reason": (abi.LossReason, "LOSS_", "LOSS_REASONS"),
}

STRUCTS: dict[str, tuple[tuple[struct.Struct, ...], type | None, tuple[str, ...]]] = {
    # C name: the formats of its twin one behind the other, the NamedTuple of its rows, members that it leaves out
    "operation_key": ((abi.OPERATION_KEY,), operation_rows.OperationKey, ()),
    "exemplar": ((abi.EXEMPLAR,), totals.Call, ("opening", "closing")),
    "exposure": ((abi.EXPOSURE,), thread_rows.Exposure, ()),
    "operation_row": (
        (abi.OPERATION_SUMS, abi.STATES, abi.EXEMPLAR, abi.OPERATION_SLOTS),
        None,
        (),
    ),
    "interval_key": ((abi.INTERVAL_KEY,), thread_rows.IntervalKey, ()),
    "interval_row": ((abi.INTERVAL_ROW,), thread_rows.IntervalRow, ()),
    "tail_key": ((abi.TAIL_KEY,), thread_rows.TailKey, ()),
    "tail_row": ((abi.TAIL_ROW,), thread_rows.TailRow, ()),
    "blame_key": ((abi.BLAME_KEY,), thread_rows.BlameKey, ("padding",)),
    "feeding_row": ((abi.FEEDING_ROW,), thread_rows.FeedingRow, ("has_collectives", "padding")),
    "chain_key": ((abi.CHAIN_KEY,), thread_rows.ChainKey, ("padding",)),
    "chain_row": ((abi.CHAIN_ROW,), thread_rows.ChainRow, ()),
    "beat": ((abi.BEAT,), cadence_rows.Beat, ()),
    "cadence_row": ((abi.CADENCE_ROW,), None, ()),
    "output": ((abi.OUTPUT,), output_rows.Output, ()),
    "output_row": ((abi.OUTPUT_ROW,), None, ()),
    "thread_row": ((abi.THREAD_ROW,), thread_rows.ThreadRow, ()),
    "error_key": ((abi.ERROR_KEY,), operation_rows.ErrorKey, ("padding", "padding_2")),
    "allocation_key": ((abi.ALLOCATION_KEY,), None, ()),
    "allocation": ((abi.ALLOCATION,), None, ()),
    "pinned_key": ((abi.PINNED_KEY,), None, ()),
    "copy_key": ((abi.COPY_KEY,), gpu_rows.CopyKey, ("padding",)),
    "copy_row": ((abi.COPY_ROW,), gpu_rows.CopyRow, ()),
    "geometry_row": ((abi.GEOMETRY_ROW,), None, ()),
    "graph_key": ((abi.GRAPH_KEY,), None, ()),
    "graph": ((abi.GRAPH,), None, ()),
    "graph_row": ((abi.GRAPH_ROW,), gpu_rows.GraphRow, ()),
    "process_number": ((abi.PROCESS_NUMBER,), None, ()),
    "process_row": ((abi.PROCESS_ROW,), process_rows.ProcessRow, ("communicators",)),
    "communicator_key": ((abi.COMMUNICATOR_KEY,), None, ()),
    "communicator_row": ((abi.COMMUNICATOR_ROW,), process_rows.CommunicatorRow, ("splits",)),
    "progress_key": ((abi.PROGRESS_KEY,), progress_rows.ProgressKey, ()),
    "progress_row": ((abi.PROGRESS_ROW,), progress_rows.ProgressRow, ()),
    "frontier_key": ((abi.FRONTIER_KEY,), None, ()),
    "event": ((abi.EVENT,), events.KernelEvent, ()),
    "attachment_row": ((abi.ATTACHMENT_ROW,), None, ()),
    "memory_row": ((abi.MEMORY_SUMS, abi.OPERATION_SLOTS), None, ()),
    "retransmit_key": ((abi.RETRANSMIT_KEY,), retransmit_rows.RetransmitKey, ("padding",)),
    "retransmit_row": ((abi.RETRANSMIT_ROW,), retransmit_rows.RetransmitRow, ()),
    "mapping_row": ((abi.MAPPING_ROW,), None, ()),
    "last_error": ((abi.LAST_ERROR,), end_rows.LastError, ()),
    "exit_key": ((abi.EXIT_KEY,), end_rows.ExitKey, ()),
    "exit_row": ((abi.EXIT_ROW,), end_rows.ExitRow, ()),
    "fork_key": ((abi.FORK_KEY,), end_rows.ForkKey, ()),
    "disk_key": ((abi.DISK_KEY,), disk_rows.DiskKey, ()),
    "disk_row": ((abi.DISK_SUMS, abi.DISK_SLOTS), None, ()),
    "disk_user": ((abi.DISK_USER,), disk_rows.DiskUser, ()),
    "disk_user_key": ((abi.DISK_USER_KEY,), None, ()),
    "disk_use": ((abi.DISK_USE,), disk_rows.DiskUse, ()),
    "disk_wait_key": ((abi.DISK_WAIT_KEY,), disk_rows.DiskWaitKey, ()),
    "disk_wait": ((abi.DISK_WAIT,), disk_rows.DiskWait, ()),
    "launch_sampling": ((abi.LAUNCH_SAMPLING,), None, ()),
    "settings": ((abi.SETTINGS,), None, ()),
    "stack_frame": ((abi.STACK_FRAME,), stacks.Frame, ()),
    "stack_row": (
        (abi.STACK_HEAD, *(abi.STACK_FRAME,) * (2 * abi.STACK_FRAMES + abi.STACK_RETURNS), abi.STACK_TAIL),
        None,
        (),
    ),
}
CODES = {"__u64": "Q", "__s64": "q", "__u32": "I", "__u16": "H", "__s32": "i", "__u8": "B"}


def constants() -> dict[str, int]:
    """Every #define that is a number."""
    known: dict[str, int] = {}
    for name, value in re.findall(r"^#define (\w+)[ \t]+([^\n]+)$", HEADER, flags=re.M):
        words = [str(known.get(word, word)) for word in re.findall(r"\w+|\S", value)]
        if all(re.fullmatch(r"0x[0-9a-f]+|\d+|[-+*()]", word) for word in words):
            known[name] = int(eval(" ".join(words)))  # noqa: S307 - digits, parentheses and + - * only
    return known


def enum_values(name: str) -> dict[str, int]:
    """Members of an enum, by their C names."""
    (body,) = re.findall(rf"enum {name} \{{(.*?)\}};", HEADER, flags=re.S)
    return {member: int(value) for member, value in re.findall(r"(\w+) = (\d+),", body)}


def members(name: str) -> list[tuple[str, str]]:
    """[("process", "I"), ...]: the members of a struct with their format codes."""
    (body,) = re.findall(rf"struct {name} \{{(.*?)\}};", HEADER, flags=re.S)
    counts = {count: enum_values(enum_name)[count] for enum_name, (_, _, count) in ENUMS.items() if count}
    sizes = {**constants(), **counts}
    found = []
    for c_type, member, count in re.findall(r"(\w+) (\w+)(?:\[(\w+)\])?;", body):
        length = str(sizes.get(count, count))
        if c_type in STRUCTS:
            found += [(f"{member}.{inner}", code) for inner, code in members(c_type)] * int(length or 1)
            continue
        found.append((member, f"{length}s" if c_type == "char" else CODES[c_type] * int(length or 1)))
    return found


class TestConstants:
    """#define."""

    def test_histogram_is_of_one_size_in_three_places(self) -> None:
        """Kernel programs, abi, units."""
        assert constants()["HIST_OCTAVES"] == abi.HIST_OCTAVES == 42
        assert constants()["HIST_SLOTS"] == abi.HIST_SLOTS == units.SLOTS == 338

    @pytest.mark.parametrize("name", CONSTANTS)
    def test_constant_is_equal(self, name: str) -> None:
        """Same name, same number."""
        assert constants()[name] == getattr(abi, name)

    def test_no_constant_is_forgotten(self) -> None:
        """A new one needs its line here."""
        assert constants().keys() == {*CONSTANTS, *KERNEL_ONLY}

    def test_states_are_as_many_as_a_row_has(self) -> None:
        """The enum's count, the formats, the enum's members."""
        assert enum_values("thread_state")["THREAD_STATES"] == abi.THREAD_STATES == len(abi.ThreadState) == 16


class TestEnums:
    """enum."""

    @pytest.mark.parametrize("name", ENUMS)
    def test_members_have_the_same_names_and_values(self, name: str) -> None:
        """Both ways: none is missing on either side."""
        twin, prefix, count = ENUMS[name]
        values = {member: value for member, value in enum_values(name).items() if member != count}

        assert {prefix + member.name: member.value for member in twin} == values

    @pytest.mark.parametrize("name", [name for name, (_, _, count) in ENUMS.items() if count])
    def test_count_is_the_number_of_the_others(self, name: str) -> None:
        """It dimensions an array."""
        twin, _, count = ENUMS[name]
        assert count is not None

        assert enum_values(name)[count] == len(twin)

    def test_no_enum_is_forgotten(self) -> None:
        """A new one needs its line here."""
        assert set(re.findall(r"^enum (\w+) \{", HEADER, flags=re.M)) == set(ENUMS)


class TestStructs:
    """struct."""

    @pytest.mark.parametrize("name", STRUCTS)
    def test_members_have_the_format_s_codes_in_its_order(self, name: str) -> None:
        """Field by field."""
        formats, _, _ = STRUCTS[name]
        spelled = "".join(
            "".join(
                code if code.endswith("s") else code[-1] * int(code[:-1] or 1)
                for code in re.findall(r"\d*[a-zA-Z]", one.format)
            )
            for one in formats
        )

        assert "".join(code for _, code in members(name)) == spelled

    @pytest.mark.parametrize("name", STRUCTS)
    def test_size_is_the_asserted_one(self, name: str) -> None:
        """The format pads nothing, and neither does the compiler."""
        (asserted,) = re.findall(rf"ABI_SIZE\(struct {name}, (\d+)\)", HEADER)
        formats, _, _ = STRUCTS[name]

        assert sum(one.size for one in formats) == int(asserted)
        assert all(one.format.startswith("=") for one in formats)

    @pytest.mark.parametrize("name", STRUCTS)
    def test_every_member_is_aligned_to_its_size(self, name: str) -> None:
        """So that C puts no padding of its own in between."""
        offset = 0
        for member, code in members(name):
            size = 1 if code.endswith("s") else struct.calcsize("=" + code[0])
            assert offset % size == 0, member
            offset += struct.calcsize("=" + code)

    @pytest.mark.parametrize("name", [name for name, (_, row, _) in STRUCTS.items() if row])
    def test_row_has_the_members_in_their_order(self, name: str) -> None:
        """Without padding and what only the kernel needs."""
        _, row, left_out = STRUCTS[name]

        assert list(row._fields) == [member for member, _ in members(name) if member not in left_out]  # type: ignore[union-attr]

    def test_operation_row_is_read_in_pieces(self) -> None:
        """The sums are its head; the states, an exemplar and the slots follow."""
        sums = ["untimed", "total_ns", "bytes", "states_ns"]
        exemplar = [f"slowest.{member}" for member, _ in members("exemplar")]

        assert [member for member, _ in members("operation_row")] == [*sums, *exemplar, "slots"]
        assert (operation_rows.STATES_AT, operation_rows.EXEMPLAR_AT, operation_rows.SLOTS_AT) == (24, 152, 184)

    def test_no_struct_is_forgotten(self) -> None:
        """Neither here nor among the asserted sizes."""
        assert set(re.findall(r"^struct (\w+) \{", HEADER, flags=re.M)) == set(STRUCTS)
        assert set(re.findall(r"^ABI_SIZE\(struct (\w+),", HEADER, flags=re.M)) == set(STRUCTS)
