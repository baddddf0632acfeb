"""What kernel programs and user space agree on, in Python: the twin of bpf/abi.h.

Rows are unpacked with the `struct.Struct` of the same name; tests/contract/test_abi.py compares every number with the header.
"""

from __future__ import annotations

import enum
import struct

HIST_OCTAVES = 42
HIST_SLOTS = 8 * HIST_OCTAVES + 2  # + slot 0 for (0, 1] unit + one overflow

THREAD_STATES = 16
TAIL_FIRST_OCTAVE = 17  # 2**17 ns = 131 us
TAIL_OCTAVES = 16
FEEDING_PLACES = 4096
OPERATION_NONE = 0xFFFF
OPERATION_NCCL_WAIT = 0xFFFE
GPU_MAJORS = 4
GRID_CLASSES = 6
BLOCK_CLASSES = 6
GEOMETRIES = GRID_CLASSES * BLOCK_CLASSES
BEATS = 128
OUTPUTS = 128
ATTACHMENTS = 256
STACK_FRAMES = 64
STACK_RETURNS = 8
STACK_WORDS = 1024
STACK_WINDOWS = 3
STACK_ALL_WORDS = STACK_WINDOWS * STACK_WORDS
GROUP_NAMES = 5
GROUP_NAME_BYTES = 96
GROUP_NAMES_BYTES = GROUP_NAMES * GROUP_NAME_BYTES

STATES = struct.Struct(f"={THREAD_STATES}Q")  # nanoseconds by ThreadState
OPERATION_KEY = struct.Struct("=IHH")  # process, operation, communicator
OPERATION_SUMS = struct.Struct("=QQQ")  # the head of an operation row: untimed, total_ns, bytes; STATES follow
EXEMPLAR = struct.Struct("=IIQQII")  # opening, tid, duration_ns, ended_ns, tgid, closing; what follows the states
OPERATION_SLOTS = struct.Struct(f"={HIST_SLOTS}Q")  # what follows the exemplar
EXPOSURE = struct.Struct(
    "=QQQQQQQQ"
)  # exact_ns, max_ns, calls, total_ns, clean_calls, clean_ns, runnable_ns, throttled_ns
INTERVAL_KEY = struct.Struct("=II")  # process, kind
INTERVAL_ROW = struct.Struct(f"={THREAD_STATES}QQQ")  # states_ns, voluntary, involuntary
TAIL_KEY = struct.Struct("=IHH")  # process, operation, octave
TAIL_ROW = struct.Struct(f"=Q{THREAD_STATES}Q")  # calls, states_ns
BLAME_KEY = struct.Struct("=IHHIIQ16s")  # process, victim, culprit, tgid, padding, cgroup_id, comm
FEEDING_ROW = struct.Struct(f"=IiQII{THREAD_STATES}Q{THREAD_STATES}Q11QII")
BEAT = struct.Struct("=QQ")  # at_ns, signature
CADENCE_ROW = struct.Struct(f"=Q{2 * BEATS}Q")  # beats, then the ring of them
OUTPUT = struct.Struct("=QQ")  # at_ns, paused_ns
OUTPUT_ROW = struct.Struct(f"=QQQQQ{2 * OUTPUTS}Q")  # outputs, copied, work_ns, quiet_ns, paused_ns, the ring
CHAIN_KEY = struct.Struct("=IHHHH")  # process, victim, state, waker, padding
CHAIN_ROW = struct.Struct(f"=QQQ{THREAD_STATES}Q")  # windows, resolved_ns, abstained_ns, states_ns
THREAD_ROW = struct.Struct(f"=IIIIIIQQQQQQQ{4 * THREAD_STATES}Q16s")
ERROR_KEY = struct.Struct("=IHHiI")  # process, operation, padding, code, padding
ALLOCATION_KEY = struct.Struct("=IIQ")  # process, is_handle, address
ALLOCATION = struct.Struct("=QII")  # bytes, kind, padding
PINNED_KEY = struct.Struct("=IIQ")  # prefix_bits; process and address, both big-endian
COPY_KEY = struct.Struct("=IBBBB")  # process, direction, memory, is_blocking, padding
COPY_ROW = struct.Struct("=QQQ")  # copies, bytes, total_ns
GEOMETRY_ROW = struct.Struct(f"=II{GEOMETRIES}Q")  # process, padding, launches
GRAPH_KEY = struct.Struct("=IIQ")  # process, is_executable, address
GRAPH = struct.Struct("=QQ")  # kernels, launches
GRAPH_ROW = struct.Struct("=11Q")
PROCESS_NUMBER = struct.Struct("=IIQ")  # number, padding, start_ns
PROCESS_ROW = struct.Struct("=IIQQ6Q10Q16s")
COMMUNICATOR_KEY = struct.Struct("=IIQ")  # process, padding, address
COMMUNICATOR_ROW = struct.Struct("=QQiIII")  # hash, created_ns, rank, ranks, ordinal, splits
PROGRESS_KEY = struct.Struct("=II")  # process, communicator
PROGRESS_ROW = struct.Struct("=QQQQQQQ")
FRONTIER_KEY = struct.Struct("=IIQ")  # process, kind, address
EVENT = struct.Struct("=IIII")  # kind, process, attachment, first
ATTACHMENT_ROW = struct.Struct("=QQ")  # echoes, is_live
RETRANSMIT_KEY = struct.Struct("=QII")  # cgroup_id, family, padding
RETRANSMIT_ROW = struct.Struct("=QQ")  # segments, handshakes
MAPPING_ROW = struct.Struct("=QQQQIIII")  # start, end, address, inode, generation, device, is_own, padding
STACK_FRAME = struct.Struct("=QQ")  # slot, address
STACK_HEAD = struct.Struct(f"=IIIIQQQQQQII{STACK_WINDOWS}Q")  # of a stack row; frames, callers and returns follow
STACK_TAIL = struct.Struct(f"=16s{STACK_ALL_WORDS}Q")  # comm, words
LAST_ERROR = struct.Struct("=QiI")  # at_ns, code, operation
EXIT_KEY = struct.Struct("=IIHH")  # process, status, is_worker, is_victim
EXIT_ROW = struct.Struct("=QQ")  # exits, at_ns
FORK_KEY = struct.Struct("=II")  # process, is_thread
DISK_KEY = struct.Struct("=QII")  # cgroup_id, device, direction
DISK_SUMS = struct.Struct("=QQQQQ")  # of a disk row: requests, errors, bytes, queue_ns, device_ns; DISK_SLOTS follow
DISK_SLOTS = struct.Struct(f"={2 * HIST_SLOTS}Q")  # queue_slots, device_slots
DISK_USER = struct.Struct("=II16s")  # group, tgid, comm
DISK_USER_KEY = struct.Struct("=III16s")  # device, then a DISK_USER
DISK_USE = struct.Struct("=QQ")  # requests, device_ns
DISK_WAIT_KEY = struct.Struct("=II")  # process, device
DISK_WAIT = struct.Struct("=QQ")  # waits, wait_ns
# reclaim_ns, reclaimed_pages, oom_kills, names; OPERATION_SLOTS follow
MEMORY_SUMS = struct.Struct(f"=QQQ{GROUP_NAMES_BYTES}s")
LAUNCH_SAMPLING = struct.Struct("=II")  # process, mask
SETTINGS = struct.Struct(f"=IIQqI{GPU_MAJORS}IIQ")
"""pid_namespace, has_no_launches, idle_ns, preempt_count_offset, is_cpu_cgroup_v1, gpu_majors, is_confined,
loaded_ns."""
COUNT = struct.Struct("=Q")
NUMBER = struct.Struct("=I")

PID_NAMESPACE_OF_MACHINE = 0xEFFFFFFC  # PROC_PID_INIT_INO, include/linux/proc_ns.h
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
    COMM_DESTROY = 13
    COMM_ABORT = 14
    SEND_RECEIVE = 15
    EVENT_RECORD = 16
    STREAM_WAIT = 17
    STREAM_DONE = 18
    EVENT_DONE = 19
    DEVICE_DONE = 20
    STREAM_DESTROY = 21
    EVENT_DESTROY = 22
    CAPTURE_BEGIN = 23
    CAPTURE_END = 24
    PIN = 25
    PIN_AT = 26
    UNPIN = 27
    LAUNCH = 28
    LAUNCH_SPREAD = 29
    LAUNCH_CONFIG = 30
    GRAPH_INSTANTIATE = 31
    GRAPH_LAUNCH = 32
    GRAPH_DESTROY = 33
    EXEC_DESTROY = 34


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
    MANAGED = 49
    ROLE = 52
    ATTACHMENT = 56


class Role(enum.IntEnum):
    """`enum call_role`: what a call says about the thread that makes it."""

    OTHER = 0
    LAUNCH = 1
    SYNC = 2
    COPY = 3
    QUERY = 4
    EVENT_SYNC = 5


class Copy(enum.IntEnum):
    """`enum copy_direction`: cudaMemcpyKind, and one more for copies between devices."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    PEER = 5


class AllocationKind(enum.IntEnum):
    """`enum allocation_kind`: what was allocated."""

    DEVICE = 0
    MANAGED = 1
    PINNED = 2


class HostMemory(enum.IntEnum):
    """`enum host_memory`: the host's side of a copy."""

    PAGEABLE = 0
    PINNED = 1
    UNKNOWN = 2


class ThreadState(enum.IntEnum):
    """`enum thread_state`: what a thread does at a moment."""

    ON_CPU = 0
    RECLAIM = 1
    GPU_WAIT = 2
    RUNNABLE = 3
    THROTTLED = 4
    IO = 5
    MEMORY = 6
    FAULT = 7
    LOCK = 8
    PIPE = 9
    SOCKET = 10
    POLL = 11
    SLEEP = 12
    CHILD = 13
    STOPPED = 14
    OTHER = 15


class IntervalKind(enum.IntEnum):
    """`enum interval_kind`: where the time of a thread goes that is in no call."""

    GAP = 0
    OTHER_GAP = 1
    IDLE = 2
    ABANDONED = 3
    WORKER = 4


class Culprit(enum.IntEnum):
    """`enum culprit_kind`: who held the CPU while a tracked thread was ready to run."""

    TASK = 0
    OWN = 1
    IDLE = 2
    IRQ = 3
    UNKNOWN = 4
    OUTSIDE = 5
    HYPERVISOR = 6


class Waker(enum.IntEnum):
    """`enum chain_waker`: who ended a sleep."""

    STEP = 0
    THREAD = 1
    PROCESS = 2
    NOBODY = 3


class Victim(enum.IntEnum):
    """`enum victim_kind`: whose waiting it was."""

    STEP = 0
    OTHER = 1
    WORKER = 2


class Frontier(enum.IntEnum):
    """`enum frontier_kind`: what NCCL operations may be ahead of."""

    STREAM = 0
    EVENT = 1


class EventKind(enum.IntEnum):
    """`enum event_kind`."""

    PROCESS_TRACKED = 1
    PROCESS_ENDED = 2
    ATTACHMENT_SURPLUS = 3


class DiskDirection(enum.IntEnum):
    """`enum disk_direction`: what a request asks of a disk."""

    READ = 0
    WRITE = 1
    FLUSH = 2
    DISCARD = 3
    OTHER = 4


class IpFamily(enum.IntEnum):
    """`enum ip_family`: what is on the wire."""

    IPV4 = 0
    IPV6 = 1


class LossProgram(enum.IntEnum):
    """`enum loss_program`: who lost something."""

    CUDA = 0
    NCCL = 1
    PROCESS = 2
    SCHED = 3
    BLOCK = 4
    MEMORY = 5
    NETWORK = 6


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
    INTERVALS_FULL = 10
    TAIL_FULL = 11
    BLAME_FULL = 12
    GROUPS_FULL = 13
    CHAINS_FULL = 14
    HEALED = 15
    FRONTIERS_FULL = 16
    FRONTIER_PAIRS = 17
    PROGRESS_FULL = 18
    ARRIVALS_FULL = 19
    CADENCE_FULL = 20
    EXPOSURES_FULL = 21
    DISKS_FULL = 22
    DISK_WAITS_FULL = 23
    FORKS_FULL = 24
    MEMORY_GROUPS_FULL = 25
    RECLAIMS_FULL = 26
    ALLOCATORS_FULL = 27
    RETRANSMITS_FULL = 28
    PINNED_FULL = 29
    COPIES_FULL = 30
    GRAPHS_FULL = 31
    OUTPUTS_FULL = 32
