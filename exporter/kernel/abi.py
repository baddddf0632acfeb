"""What kernel programs and user space agree on, in Python: the twin of bpf/abi.h.

Rows are unpacked with the `struct.Struct` of the same name; tests/contract/test_abi.py compares every number with the header.
"""

from __future__ import annotations

import enum
import struct

HIST_OCTAVES = 42
HIST_SLOTS = 8 * HIST_OCTAVES + 2  # + slot 0 for (0, 1] unit + one overflow

OPERATION_KEY = struct.Struct("=IHH")  # process, operation, communicator
OPERATION_SUMS = struct.Struct("=QQQ")  # the head of an operation row: untimed, total_ns, bytes
EXEMPLAR = struct.Struct("=IIQQII")  # opening, tid, duration_ns, ended_ns, tgid, closing; what follows the sums
OPERATION_SLOTS = struct.Struct(f"={HIST_SLOTS}Q")  # what follows the exemplar
ERROR_KEY = struct.Struct("=IHHiI")  # process, operation, padding, code, padding
ALLOCATION_KEY = struct.Struct("=IIQ")  # process, is_handle, address
PROCESS_NUMBER = struct.Struct("=IIQ")  # number, padding, start_ns
PROCESS_ROW = struct.Struct("=IIQQ6QQQQQ16s")
COMMUNICATOR_KEY = struct.Struct("=IIQ")  # process, padding, address
COMMUNICATOR_ROW = struct.Struct("=QQiIII")  # hash, created_ns, rank, ranks, ordinal, splits
EVENT = struct.Struct("=II")  # kind, process
SETTINGS = struct.Struct("=II")  # pid_namespace, padding
COUNT = struct.Struct("=Q")
NUMBER = struct.Struct("=I")

RANK_UNKNOWN = -1
COMMUNICATOR_ORDINALS = 16
COMMUNICATOR_OTHER = COMMUNICATOR_ORDINALS + 1


class Api(enum.IntEnum):
    """`enum call_api`: the layer a function belongs to."""

    RUNTIME = 0
    DRIVER = 1
    NCCL = 2


class Shape(enum.IntEnum):
    """`enum call_shape`: how a function's arguments are read."""

    PLAIN = 0
    ALLOCATE = 1
    FREE = 2
    COPY = 3
    COPY_2D = 4
    COLLECTIVE = 5
    INIT_RANK = 6
    INIT_SCALABLE = 7
    INIT_ALL = 8
    SPLIT = 9
    SHRINK = 10
    COMM_COUNT = 11
    COMM_RANK = 12
    COMM_END = 13


class Cookie(enum.IntEnum):
    """`enum cookie_field`: first bit of each field of the attach cookie."""

    OPERATION = 0
    SHAPE = 16
    API = 24
    DIRECTION = 28
    A = 32
    B = 36
    C = 40
    D = 44
    HANDLE = 48


class Copy(enum.IntEnum):
    """`enum copy_direction`: cudaMemcpyKind, and one more for copies between devices."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    PEER = 5


class EventKind(enum.IntEnum):
    """`enum event_kind`."""

    PROCESS_TRACKED = 1
    PROCESS_ENDED = 2


class LossProgram(enum.IntEnum):
    """`enum loss_program`: who lost something."""

    CUDA = 0
    NCCL = 1
    PROCESS = 2


class LossReason(enum.IntEnum):
    """`enum loss_reason`: why."""

    THREAD_STORAGE = 0
    PROCESSES_FULL = 1
    OPERATIONS_FULL = 2
    ERRORS_FULL = 3
    ALLOCATIONS_FULL = 4
    COMMUNICATORS_FULL = 5
    EVENTS_FULL = 6
    NESTING = 7
    READ_FAULT = 8
    ABANDONED = 9
