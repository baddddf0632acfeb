"""What kernel programs and user space share: enums, limits, and the layout of keys and rows.

Written by bpf/layouts.py from bpf/abi/*.h, which explain every member: do not edit, run `make -C bpf`.
"""

from __future__ import annotations

import enum

from exporter.kernel.layout import Layout

COUNT = Layout(count="Q")
NUMBER = Layout(number="I")

BEATS = 128
COPY_DIRECTIONS = 6
RANK_UNKNOWN = -1
COMMUNICATOR_ORDINALS = 16
COMMUNICATOR_OTHER = 17
DROP_PROGRAMS = 7
DROP_REASONS = 37
ATTACHMENTS = 256
FEEDING_PLACES = 4096
GRID_CLASSES = 6
BLOCK_CLASSES = 6
GEOMETRIES = 36
HIST_OCTAVES = 42
HIST_SLOTS = 338
GROUP_NAMES = 5
GROUP_NAME_BYTES = 96
GROUP_NAMES_BYTES = 480
OPERATION_NONE = 65535
OPERATION_NCCL_WAIT = 65534
OUTPUTS = 128
PYTHON_FRAMES = 64
PYTHON_INTERPRETERS = 4
PYTHON_IDENTITY_BYTES = 96
PYTHON_FRAME_BYTES = 112
PYTHON_READ_BYTES = 4096
PYTHON_ABSENT = 65535
CALL_SITE_FRAMES = 32
RECORDED_SPAN_BITS = 30
GPU_MAJORS = 4
HASH_KEY_WORDS = 2
SHARE_TABLES = 24
SHARE_OF_GROUPS = 21
SHARE_NEWCOMERS = 256
SHARE_OWNERS = 1024
SHARE_LEVELS = 8
STACK_FRAMES = 64
STACK_RETURNS = 8
STACK_WORDS = 1024
STACK_WINDOWS = 3
STACK_ALL_WORDS = 3072
THREAD_STATES = 17

ALLOCATION_KEY = Layout(
    process="I",
    is_handle="I",
    address="Q",
)
ALLOCATION = Layout(
    bytes="Q",
    kind="I",
    padding="I",
)
PINNED_KEY = Layout(
    prefix_bits="I",
    process="I",
    address="Q",
)
AWAITED_BY = Layout(
    tgid="I",
    kind="I",
    comm="16s",
)
AWAITED_KEY = Layout(
    process="I",
    state="I",
    by="II16s",
)
BLAME_KEY = Layout(
    process="I",
    victim="H",
    culprit="H",
    tgid="I",
    ancestor_tgid="I",
    cgroup_id="Q",
    comm="16s",
    ancestor_comm="16s",
)
BEAT = Layout(
    at_ns="Q",
    signature="Q",
)
CADENCE_ROW = Layout(
    beats="Q",
    last="256Q",
)
COMMUNICATOR_KEY = Layout(
    process="I",
    padding="I",
    address="Q",
)
COMMUNICATOR_ROW = Layout(
    hash="Q",
    created_ns="Q",
    rank="i",
    ranks="I",
    ordinal="I",
    splits="I",
)
COPY_KEY = Layout(
    process="I",
    direction="B",
    memory="B",
    is_blocking="B",
    padding="B",
)
COPY_ROW = Layout(
    copies="Q",
    bytes="Q",
    total_ns="Q",
)
DISK_KEY = Layout(
    cgroup_id="Q",
    device="I",
    direction="I",
)
DISK_ROW = Layout(
    owner="I",
    padding="I",
    requests="Q",
    errors="Q",
    bytes="Q",
    queue_ns="Q",
    device_ns="Q",
    queue_slots="338Q",
    device_slots="338Q",
)
DISK_USER = Layout(
    group="I",
    tgid="I",
    cgroup_id="Q",
    comm="16s",
)
DISK_USER_KEY = Layout(
    device="I",
    padding="I",
    user="IIQ16s",
)
DISK_USE = Layout(
    requests="Q",
    device_ns="Q",
)
DISK_WAIT_KEY = Layout(
    process="I",
    device="I",
)
DISK_WAIT = Layout(
    waits="Q",
    wait_ns="Q",
)
EVENT = Layout(
    kind="I",
    process="I",
    attachment="I",
    first="I",
)
ATTACHMENT_ROW = Layout(
    echoes="Q",
    is_live="Q",
)
LAST_ERROR = Layout(
    at_ns="Q",
    code="i",
    operation="I",
)
EXIT_KEY = Layout(
    process="I",
    status="I",
    is_worker="H",
    is_victim="H",
)
EXIT_ROW = Layout(
    exits="Q",
    at_ns="Q",
)
FORK_KEY = Layout(
    process="I",
    is_thread="I",
)
EXPOSURE_KEY = Layout(
    process="I",
    operation="H",
    work="H",
)
EXPOSURE = Layout(
    exact_ns="Q",
    exact_throttled_ns="Q",
    calls="Q",
    total_ns="Q",
    late_ns="Q",
    max_ns="Q",
    max_throttled_ns="Q",
    stopped_ns="Q",
    clean_calls="Q",
    clean_ns="Q",
)
FEEDING_ROW = Layout(
    process="I",
    feeding="i",
    stalled_since_ns="Q",
    is_dry="I",
    has_collectives="I",
    dry_ns="17Q",
    late_ns="17Q",
    cycle_late_ns="Q",
    cycle_kernels="Q",
    waits="Q",
    timed_calls="Q",
    counted_calls="Q",
    left_out_launches="Q",
    kernels="Q",
    open_captures="I",
    event_waits="I",
)
LAUNCH_SAMPLING = Layout(
    process="I",
    mask="I",
)
GEOMETRY_ROW = Layout(
    process="I",
    padding="I",
    launches="36Q",
)
GRAPH_KEY = Layout(
    process="I",
    is_executable="I",
    address="Q",
)
GRAPH = Layout(
    kernels="Q",
    launches="Q",
)
GRAPH_ROW = Layout(
    captures="Q",
    captured="Q",
    failed="Q",
    capture_ns="Q",
    began_ns="Q",
    instantiated="Q",
    instantiate_ns="Q",
    first_launches="Q",
    dropped="Q",
    launches="Q",
    kernels="Q",
)
INTERVAL_KEY = Layout(
    process="I",
    kind="I",
)
INTERVAL_ROW = Layout(
    states_ns="17Q",
    voluntary="Q",
    involuntary="Q",
)
MAPPING_ROW = Layout(
    start="Q",
    end="Q",
    address="Q",
    inode="Q",
    size_bytes="Q",
    changed_ns="Q",
    generation="I",
    device="I",
    is_own="H",
    is_in_user_namespace="H",
    file_system="I",
)
MEMORY_ROW = Layout(
    owner="I",
    padding="I",
    reclaim_ns="Q",
    reclaimed_pages="Q",
    oom_kills="Q",
    names="480s",
    slots="338Q",
)
RETRANSMIT_KEY = Layout(
    cgroup_id="Q",
    family="I",
    padding="I",
)
RETRANSMIT_ROW = Layout(
    owner="I",
    padding="I",
    segments="Q",
    handshakes="Q",
)
OPERATION_KEY = Layout(
    process="I",
    operation="H",
    communicator="H",
)
EXEMPLAR = Layout(
    opening="I",
    tid="I",
    duration_ns="Q",
    ended_ns="Q",
    tgid="I",
    closing="I",
)
OPERATION_ROW = Layout(
    untimed="Q",
    total_ns="Q",
    bytes="Q",
    states_ns="17Q",
    slowest="IIQQII",
    slow_ns="Q",
    slots="338Q",
)
ERROR_KEY = Layout(
    process="I",
    operation="H",
    padding="H",
    code="i",
    padding_2="I",
)
OUTPUT = Layout(
    at_ns="Q",
    paused_ns="Q",
)
OUTPUT_ROW = Layout(
    outputs="Q",
    copied="Q",
    work_ns="Q",
    quiet_ns="Q",
    paused_ns="Q",
    last="256Q",
)
PROCESS_NUMBER = Layout(
    number="I",
    padding="I",
    start_ns="Q",
)
PROCESS_ROW = Layout(
    tgid="I",
    communicators="I",
    start_ns="Q",
    cgroup_id="Q",
    copied_bytes="6Q",
    allocated_bytes="Q",
    freed_bytes="Q",
    unknown_frees="Q",
    live_allocations="Q",
    peak_bytes="Q",
    managed_bytes="Q",
    pinned_bytes="Q",
    pinned_blocks="Q",
    refused_bytes="Q",
    unblamed_ns="Q",
    comm="16s",
)
PROGRESS_KEY = Layout(
    process="I",
    communicator="I",
)
PROGRESS_ROW = Layout(
    enqueued="Q",
    completed="Q",
    enqueued_ns="Q",
    completed_ns="Q",
    collectives="Q",
    lag_ns="Q",
    late_arrivals="Q",
)
FRONTIER_KEY = Layout(
    process="I",
    kind="I",
    address="Q",
)
PYTHON_LAYOUT = Layout(
    runtime="Q",
    start_ticks="Q",
    code_mask="Q",
    interpreters_head="H",
    interpreter_next="H",
    interpreter_threads_head="H",
    thread_next="H",
    thread_native_id="H",
    thread_id="H",
    thread_frame="H",
    cframe_frame="H",
    frame_code="H",
    frame_previous="H",
    frame_instruction="H",
    frame_instruction_bytes="H",
    frame_owner="H",
    skip_owner_from="H",
    frame_bytes="H",
    frame_is_entry="H",
    thread_cframe="H",
    identity_at="H",
    identity_bytes="H",
    padding="1H",
)
PYTHON_KEY = Layout(
    tgid="I",
    place="I",
)
PYTHON_FRAME = Layout(
    code="Q",
    instruction="Q",
    identity="Q",
)
PYTHON_ROW = Layout(
    tid="I",
    tgid="I",
    place="I",
    status="I",
    read_ns="Q",
    opened_ns="Q",
    woken_ns="Q",
    waiting_ns="Q",
    state="Q",
    switches="Q",
    waker_tid="I",
    frame_count="I",
    frames="192Q",
    entries="64Q",
)
CALL_SITE_KEY = Layout(
    process="I",
    operation="H",
    padding="H",
    stack="Q",
)
CALL_SITE_ROW = Layout(
    calls="Q",
    total_ns="Q",
    slowest_ns="Q",
    slow_ns="Q",
    tid="I",
    tgid="I",
    place="I",
    status="I",
    frame_count="I",
    padding="I",
    frames="96Q",
)
PYTHON_REQUEST = Layout(
    address="Q",
    bytes="I",
    padding="I",
)
RECORDED_CALL = Layout(
    kind="I",
    process="I",
    tid="I",
    code="i",
    operation="H",
    communicator="H",
    depth="I",
    began_ns="Q",
    ended_ns="Q",
    amount="Q",
    detail="Q",
    sequence="Q",
)
RECORDED_CHANGE = Layout(
    kind="I",
    process="I",
    tid="I",
    state="I",
    at_ns="Q",
    throttled_ns="Q",
    other_tid="I",
    other_tgid="I",
    other_comm="16s",
)
RECORDED_SETTING = Layout(
    began_ns="Q",
    most_in_span="Q",
    is_filtered="Q",
)
RECORDED_ROW = Layout(
    calls="Q",
    changes="Q",
    full="Q",
    left_out="Q",
    span="Q",
    in_span="Q",
)
SETTINGS = Layout(
    pid_namespace="I",
    are_launches_probed="I",
    idle_ns="Q",
    preempt_count_offset="q",
    is_cpu_cgroup_v1="I",
    gpu_majors="4I",
    is_confined="I",
    loaded_ns="Q",
    exporter_tgid="I",
    padding="I",
    hash_key="2Q",
)
PROCESS_SHARE = Layout(
    owner="I",
    uid="I",
    group="Q",
    user_key="Q",
    used="21i",
    padding="I",
)
OWNER_ROW = Layout(
    used="24q",
    refused="24Q",
    user="I",
    padding="I",
)
SHARE_TOTALS = Layout(
    used="24q",
    capacity="24q",
)
STACK_FRAME = Layout(
    slot="Q",
    address="Q",
)
STACK_ROW = Layout(
    tid="I",
    tgid="I",
    operation="I",
    is_running="H",
    is_stopped="H",
    read_ns="Q",
    opened_ns="Q",
    call_slot="Q",
    instruction="Q",
    stack_pointer="Q",
    frame_pointer="Q",
    frame_count="I",
    caller_count="I",
    window_slots="3Q",
    frames="128Q",
    callers="128Q",
    returns="16Q",
    comm="16s",
    words="3072Q",
)
THREAD_ROW = Layout(
    process="I",
    tid="I",
    tgid="I",
    victim="I",
    state="I",
    operation="I",
    read_ns="Q",
    opened_ns="Q",
    calls="Q",
    voluntary="Q",
    involuntary="Q",
    wakes="Q",
    run_delay_ns="Q",
    open_ns="17Q",
    gaps_ns="17Q",
    idle_ns="17Q",
    booked_ns="17Q",
    comm="16s",
    reader="II16s",
)
WAKEUP_KEY = Layout(
    process="I",
    victim="H",
    state="H",
    waker="H",
    padding="H",
)
WAKEUP_ROW = Layout(
    windows="Q",
    resolved_ns="Q",
    abstained_ns="Q",
    states_ns="17Q",
)


class AllocationKind(enum.IntEnum):
    DEVICE = 0
    MANAGED = 1
    PINNED = 2


class Awaited(enum.IntEnum):
    UNKNOWN = 0
    THREAD = 1
    WORKER = 2
    PROCESS = 3
    OUTSIDE = 4


class Culprit(enum.IntEnum):
    TASK = 0
    OWN = 1
    IDLE = 2
    IRQ = 3
    UNKNOWN = 4
    OUTSIDE = 5
    HYPERVISOR = 6
    EXPORTER = 7


class Victim(enum.IntEnum):
    STEP = 0
    OTHER = 1
    WORKER = 2


class Api(enum.IntEnum):
    RUNTIME = 0
    DRIVER = 1
    NCCL = 2


class Shape(enum.IntEnum):
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
    OTHER = 0
    LAUNCH = 1
    SYNC = 2
    COPY = 3
    QUERY = 4
    EVENT_SYNC = 5
    STAGED_COPY = 6


class Copy(enum.IntEnum):
    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    PEER = 5


class HostMemory(enum.IntEnum):
    PAGEABLE = 0
    PINNED = 1
    UNKNOWN = 2


class DiskDirection(enum.IntEnum):
    READ = 0
    WRITE = 1
    FLUSH = 2
    DISCARD = 3
    OTHER = 4


class DropProgram(enum.IntEnum):
    CUDA = 0
    NCCL = 1
    PROCESS = 2
    SCHED = 3
    BLOCK = 4
    MEMORY = 5
    NETWORK = 6


class DropReason(enum.IntEnum):
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
    BLAME_FULL = 11
    GROUPS_FULL = 12
    WAKEUPS_FULL = 13
    HEALED = 14
    FRONTIERS_FULL = 15
    FRONTIER_PAIRS = 16
    PROGRESS_FULL = 17
    ARRIVALS_FULL = 18
    CADENCE_FULL = 19
    EXPOSURES_FULL = 20
    DISKS_FULL = 21
    DISK_WAITS_FULL = 22
    FORKS_FULL = 23
    MEMORY_GROUPS_FULL = 24
    RECLAIMS_FULL = 25
    ALLOCATORS_FULL = 26
    RETRANSMITS_FULL = 27
    PINNED_FULL = 28
    COPIES_FULL = 29
    GRAPHS_FULL = 30
    OUTPUTS_FULL = 31
    EXITS_FULL = 32
    AWAITED_FULL = 33
    IMPLAUSIBLE_SIZE = 34
    CALL_SITES_FULL = 35
    CAPTURES_FULL = 36


class EventKind(enum.IntEnum):
    PROCESS_TRACKED = 1
    PROCESS_ENDED = 2
    ATTACHMENT_SURPLUS = 3


class IntervalKind(enum.IntEnum):
    GAP = 0
    OTHER_GAP = 1
    IDLE = 2
    ABANDONED = 3
    WORKER = 4


class IpFamily(enum.IntEnum):
    IPV4 = 0
    IPV6 = 1


class FrontierKind(enum.IntEnum):
    STREAM = 0
    EVENT = 1


class PythonStatus(enum.IntEnum):
    WALKED = 0
    TRUNCATED = 1
    RUNNING = 2
    UNREADABLE = 3
    NO_FRAMES = 4


class RecordedKind(enum.IntEnum):
    CALL = 1
    CAME = 2
    LEFT = 3
    WOKEN = 4
    ENDED = 5


class ShareTable(enum.IntEnum):
    PROCESSES = 0
    OPERATIONS = 1
    ERRORS = 2
    ALLOCATIONS = 3
    COMMUNICATORS = 4
    PROGRESS = 5
    FRONTIERS = 6
    GRAPHS = 7
    PINNED = 8
    COPIES = 9
    EXPOSURES = 10
    INTERVALS = 11
    BLAME = 12
    WAKEUPS = 13
    DISK_WAITS = 14
    FORKS = 15
    CALL_SITES = 16
    ARRIVALS = 17
    CAPTURING = 18
    EXITS = 19
    FEEDING = 20
    MEMORY_GROUPS = 21
    DISKS = 22
    RETRANSMITS = 23


class ShareRequest(enum.IntEnum):
    OWNER = 0
    RELEASE = 1
    END = 2
    CLEAR = 3
    GROUP = 4


class ThreadState(enum.IntEnum):
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
    OUTPUT = 16


class Waker(enum.IntEnum):
    STEP = 0
    THREAD = 1
    PROCESS = 2
    OTHER = 3
    HOLDER = 4
    LOADER = 5
