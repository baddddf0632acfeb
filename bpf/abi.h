/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the kernel programs and user space agree on: keys, rows, codes and limits.
 * Its twin is exporter/kernel/abi.py; tests/contract/test_abi.py compares the two, number by number.
 * Only fixed-width members, padding written out, every size asserted at the end.
 */
#ifndef GPUSTALL_ABI_H
#define GPUSTALL_ABI_H

#include <linux/types.h>

/* ---- histograms -------------------------------------------------------------------------------------------- */

/*
 * Exponential buckets of scale 3 over durations in units of 2^-30 s (0.93 ns): slot k holds (2^((k-1)/8), 2^(k/8)].
 * 42 octaves reach 2^12 s = 4,096 s; what is longer goes to the last slot and so into le="+Inf" alone.
 */
#define HIST_OCTAVES 42
#define HIST_SLOTS (8 * HIST_OCTAVES + 2) /* + slot 0 for (0, 1] + one overflow */

/* ---- calls ------------------------------------------------------------------------------------------------- */

enum call_api {
	API_RUNTIME = 0, /* libcudart */
	API_DRIVER = 1,	 /* libcuda: deeper than the runtime, which calls it */
	API_NCCL = 2,
};

/* How the arguments of a call are read; the positions stand in the attach cookie (enum cookie_field). */
enum call_shape {
	SHAPE_PLAIN = 0,
	SHAPE_ALLOCATE = 1,	  /* A: where the address is stored, B: bytes */
	SHAPE_FREE = 2,		  /* A: address */
	SHAPE_COPY = 3,		  /* A: bytes; B: cudaMemcpyKind, or 0 and the direction is fixed; D: source; destination: 1 */
	SHAPE_COPY_2D = 4,	  /* A: width in bytes, B: cudaMemcpyKind, C: height; D, destination: likewise */
	SHAPE_COLLECTIVE = 5,	  /* A: element count, B: ncclDataType_t, C: communicator, D: stream; all ranks call it */
	SHAPE_INIT_RANK = 6,	  /* A: newcomm, B: nranks, C: rank; before C stands the unique id, by value */
	SHAPE_INIT_SCALABLE = 7,  /* A: newcomm, B: nranks, C: rank, D: pointer to the first unique id */
	SHAPE_INIT_ALL = 8,	  /* A: communicators, B: ndev */
	SHAPE_SPLIT = 9,	  /* A: parent, B: colour, C: newcomm */
	SHAPE_SHRINK = 10,	  /* A: parent, B: excluded ranks, C: their number, D: newcomm */
	SHAPE_COMM_COUNT = 11,	  /* A: communicator, B: where the number of ranks is stored */
	SHAPE_COMM_RANK = 12,	  /* A: communicator, B: where the rank is stored */
	SHAPE_COMM_DESTROY = 13,  /* A: communicator, which has done what it was given */
	SHAPE_COMM_ABORT = 14,	  /* A: communicator */
	SHAPE_SEND_RECEIVE = 15,  /* like a collective, but between two ranks */
	SHAPE_EVENT_RECORD = 16,  /* A: event, B: stream */
	SHAPE_STREAM_WAIT = 17,	  /* A: stream, B: event that it is to wait for */
	SHAPE_STREAM_DONE = 18,	  /* A: stream; 0 is returned when all that was enqueued before the call is done */
	SHAPE_EVENT_DONE = 19,	  /* A: event; likewise */
	SHAPE_DEVICE_DONE = 20,	  /* likewise, of all streams of a device */
	SHAPE_STREAM_DESTROY = 21, /* A: stream */
	SHAPE_EVENT_DESTROY = 22, /* A: event */
	SHAPE_CAPTURE_BEGIN = 23, /* A: stream; from here on nothing of it is done, but put into a graph */
	SHAPE_CAPTURE_END = 24,	  /* A: stream, B: where the graph is stored */
	SHAPE_PIN = 25,		  /* A: where the address is stored, B: bytes: host memory that the GPU reads by itself */
	SHAPE_PIN_AT = 26,	  /* A: address, B: bytes */
	SHAPE_UNPIN = 27,	  /* A: address */
	SHAPE_LAUNCH = 28,	  /* A: grid x and y, behind it z, then the block alike; B: stream */
	SHAPE_LAUNCH_SPREAD = 29, /* A: grid x, behind it y and z, then the block alike; B: stream */
	SHAPE_LAUNCH_CONFIG = 30, /* A: pointer to a structure that begins with them, and has the stream */
	SHAPE_GRAPH_INSTANTIATE = 31, /* A: where the executable graph is stored, B: graph */
	SHAPE_GRAPH_LAUNCH = 32,  /* A: executable graph, B: stream */
	SHAPE_GRAPH_DESTROY = 33, /* A: graph */
	SHAPE_EXEC_DESTROY = 34,  /* A: executable graph */
};

/* First bit of each field of the 64-bit attach cookie. */
enum cookie_field {
	COOKIE_OPERATION = 0, /* 16 bits: row number in exporter/kernel/operations.py */
	COOKIE_SHAPE = 16,    /* 8 bits: enum call_shape */
	COOKIE_API = 24,      /* 4 bits: enum call_api */
	COOKIE_DIRECTION = 28, /* 4 bits: enum copy_direction, where it is fixed */
	COOKIE_A = 32,	      /* 4 bits each: argument position from 1, 0 = absent */
	COOKIE_B = 36,
	COOKIE_C = 40,
	COOKIE_D = 44,
	COOKIE_HANDLE = 48, /* 1 bit: the "address" is a handle (cuMemCreate), in a number space of its own */
	COOKIE_MANAGED = 49, /* 1 bit: what is allocated moves between host and GPU as it is used */
	COOKIE_ROLE = 52,   /* 4 bits: enum call_role */
	COOKIE_ATTACHMENT = 56, /* 8 bits: number of the attachment, from 1; 0: it has none */
};

/* What a call says about the thread that makes it. */
enum call_role {
	ROLE_OTHER = 0,
	ROLE_LAUNCH = 1, /* gives the GPU work */
	ROLE_SYNC = 2,	 /* returns when the GPU has done what it was given */
	ROLE_COPY = 3,	 /* a copy that may wait for the stream before it */
	ROLE_QUERY = 4,	 /* asks and does not wait */
	ROLE_EVENT_SYNC = 5, /* returns when an event has come; the GPU may have work behind it */
};

enum copy_direction { /* cudaMemcpyKind, and one more for copies between devices */
	COPY_HOST_TO_HOST = 0,
	COPY_HOST_TO_DEVICE = 1,
	COPY_DEVICE_TO_HOST = 2,
	COPY_DEVICE_TO_DEVICE = 3,
	COPY_DEFAULT = 4, /* decided by the addresses at run time */
	COPY_PEER = 5,
	COPY_DIRECTIONS = 6,
};

struct operation_key {
	__u32 process; /* number given in BPF, never a tgid */
	__u16 operation;
	__u16 communicator; /* ordinal from 1; 0: not a communicator's call */
};

/*
 * One call that stands for many: the slowest of the window of 2^EXEMPLAR_WINDOW ns (8.6 s) it ended in. Two CPUs may want
 * to write at once, and user space reads meanwhile: `closing` is odd while one writes, and a reader that finds the two
 * versions different has read something in between.
 */
#define EXEMPLAR_WINDOW 33
struct exemplar {
	__u32 opening;
	__u32 tid; /* as the exporter's pid namespace shows it; 0: not in it */
	__u64 duration_ns;
	__u64 ended_ns; /* CLOCK_MONOTONIC; 0: no call yet */
	__u32 tgid;	/* like tid */
	__u32 closing;
};

/*
 * What a thread does at a moment: one closed set. The class of a sleep is fixed when it begins.
 * Running: on the CPU, or there in direct reclaim. Waiting for a CPU: runnable, or throttled by the quota of its own group.
 */
enum thread_state {
	STATE_ON_CPU = 0,
	STATE_RECLAIM = 1,
	STATE_GPU_WAIT = 2, /* blocked on the GPU's device */
	STATE_RUNNABLE = 3,
	STATE_THROTTLED = 4,
	STATE_IO = 5,
	STATE_MEMORY = 6,
	STATE_FAULT = 7,
	STATE_LOCK = 8,
	STATE_PIPE = 9,
	STATE_SOCKET = 10,
	STATE_POLL = 11,
	STATE_SLEEP = 12,
	STATE_CHILD = 13,
	STATE_STOPPED = 14,
	STATE_OTHER = 15,
	THREAD_STATES = 16,
};

/*
 * Runnable time that delayed the return of a synchronising call. Exact: since the last wake-up, after a sleep that the GPU
 * may have ended. Otherwise (spinning, polling with time-outs) the GPU may have been done at any moment of the last wait for
 * a CPU: `max_ns` bounds it, and user space narrows the bound by what such calls take when nothing came between.
 */
struct exposure {
	__u64 exact_ns;
	__u64 max_ns;
	__u64 calls;	/* of which the bound is part */
	__u64 total_ns; /* their duration */
	__u64 clean_calls; /* synchronising calls without any wait for a CPU */
	__u64 clean_ns;
	__u64 runnable_ns; /* of all of them: what exact_ns and max_ns were made of */
	__u64 throttled_ns;
};

struct operation_row {
	__u64 untimed;	/* calls whose time was not taken: made by the driver's caller, the runtime */
	__u64 total_ns; /* of the timed ones, which the slots count */
	__u64 bytes;	/* NCCL: elements x element size, of calls that succeeded */
	__u64 states_ns[THREAD_STATES]; /* of the calls that no other traced call encloses */
	struct exemplar slowest;
	__u64 slots[HIST_SLOTS]; /* in the same row, since a second look-up costs 57 ns a call */
};

/* Where the time of a thread goes that is in no call. */
enum interval_kind {
	INTERVAL_GAP = 0,	/* between two calls of a thread that launches or synchronises: a step thread */
	INTERVAL_OTHER_GAP = 1, /* between two calls of any other thread */
	INTERVAL_IDLE = 2,	/* what a gap has beyond settings.idle_ns */
	INTERVAL_ABANDONED = 3, /* in calls that never returned */
	INTERVAL_WORKER = 4,	/* threads of the job, and processes forked from it, that have made no call */
	INTERVAL_KINDS = 5,
};

struct interval_key {
	__u32 process;
	__u32 kind;
};

/* Time of threads that have ended; that of the living is read from the threads themselves (struct thread_row). */
struct interval_row {
	__u64 states_ns[THREAD_STATES];
	__u64 voluntary; /* switches away from the CPU into a sleep */
	__u64 involuntary;
};

/* What the slowest calls waited for: calls by the power of two of their length in ns. */
#define TAIL_FIRST_OCTAVE 17 /* 131 us: shorter calls wait for nothing worth telling */
#define TAIL_OCTAVES 16	     /* the last one takes what is longer than 4.3 s */
struct tail_key {
	__u32 process;
	__u16 operation;
	__u16 octave;
};

struct tail_row {
	__u64 calls;
	__u64 states_ns[THREAD_STATES];
};

/* Who held the CPU while a tracked thread was ready to run. */
enum culprit_kind {
	CULPRIT_TASK = 0,    /* a process outside the job */
	CULPRIT_OWN = 1,     /* the process itself, or one forked from it */
	CULPRIT_IDLE = 2,    /* nobody: the time a wake-up takes */
	CULPRIT_IRQ = 3,     /* interrupts, whoever was interrupted */
	CULPRIT_UNKNOWN = 4, /* more switches than were remembered, or a missed event */
	CULPRIT_OUTSIDE = 5, /* a process that the exporter's pid namespace does not show: another pod's, or the kernel's */
	CULPRIT_HYPERVISOR = 6, /* nobody of this machine: what the virtual CPU runs on was given to another one */
};

/* Whose waiting it was. */
enum victim_kind {
	VICTIM_STEP = 0, /* a step thread: it launches or synchronises */
	VICTIM_OTHER = 1,
	VICTIM_WORKER = 2, /* a thread of the job, or of a process forked from it, that has made no call */
};

struct blame_key {
	__u32 process; /* the victim's number; of a worker, its parent's */
	__u16 victim;
	__u16 culprit;
	__u32 tgid; /* of CULPRIT_TASK, the kernel's own number; else 0 */
	__u32 padding;
	__u64 cgroup_id; /* on cgroup v1 of the cpu controller's hierarchy */
	char comm[16];	 /* of the culprit's process when it was charged first */
};

/*
 * The feeding timeline of a process: it is stalled while none of its step threads is on a CPU or waits for the GPU. A stall
 * is booked to the states of the thread that ends it, so that a lock held by another step thread is that thread's doing. The
 * GPU is dry from the return of a synchronising call to the next launch: what stalls then is lost in full; what stalls later
 * (`late`) only as far as the next wait is not shorter for it.
 * One place of an array for each process; place = process number % FEEDING_PLACES.
 */
#define FEEDING_PLACES 4096
struct feeding_row {
	__u32 process; /* whose place this is; 0: nobody's */
	__s32 feeding; /* step threads that feed the GPU now */
	__u64 stalled_since_ns; /* 0: not stalled */
	__u32 is_dry;
	__u32 has_collectives; /* bits of lib/progress.bpf.h; 0: nothing need be looked up */
	__u64 dry_ns[THREAD_STATES];
	__u64 late_ns[THREAD_STATES];
	__u64 cycle_late_ns; /* since the last synchronising call */
	__u64 clean_waits;   /* synchronising calls that ended a cycle without stalls worth mentioning */
	__u64 clean_wait_ns;
	__u64 stalled_waits;
	__u64 stalled_wait_ns;
	__u64 stalled_late_ns; /* late stalls of the cycles that the stalled waits ended */
	__u64 other_waits;     /* synchronising calls that ended no cycle: for an event, or by a thread that never launched */
	/* What the probes were hit for, in whole COUNTED_TOGETHER of each thread. */
	__u64 timed_calls;
	__u64 counted_calls;	/* that were not timed */
	__u64 left_out_launches; /* of those, launches that would have been timed but for their sampling */
	__u64 kernels; /* launched one by one and not into a graph, nested calls once */
	__u32 open_captures; /* that have begun and not ended */
	__u32 padding;
};
#define COUNTED_TOGETHER 64

/* What whoever ended a sleep did meanwhile: of threads in gaps that were woken by a thread of the same job. */
enum chain_waker {
	WAKER_STEP = 0,	   /* another step thread: it was feeding the GPU meanwhile */
	WAKER_THREAD = 1,  /* another thread of the same process */
	WAKER_PROCESS = 2, /* a process that works for it, or a thread that was itself woken by one */
	WAKER_NOBODY = 3,  /* of the job */
};

struct chain_key {
	__u32 process;
	__u16 victim; /* enum victim_kind of the sleeper */
	__u16 state;  /* of the sleeper */
	__u16 waker;  /* who ended the sleep */
	__u16 padding;
};

struct chain_row {
	__u64 windows;
	__u64 resolved_ns; /* split over `states_ns` */
	__u64 abstained_ns; /* the waker was not watched the whole time, or was not of the job */
	__u64 states_ns[THREAD_STATES];
};

/* What recurs in every step of a training job: collectives and copies to the device, the last BEATS of a process. */
#define BEATS 128
struct beat {
	__u64 at_ns; /* when the call returned */
	__u64 signature;
};

struct cadence_row {
	__u64 beats; /* so far; beat n lies at last[n % BEATS] */
	struct beat last[BEATS];
};

/*
 * Outputs of a serving engine: what it has copied to the host after work of the GPU, the last OUTPUTS of a process. The place
 * that follows the last one may be in the writing.
 */
#define OUTPUTS 128
struct output {
	__u64 at_ns;	 /* when the call returned that found it there */
	__u64 paused_ns; /* since the output before: gaps of a second and more between two calls of the threads that give work */
};

struct output_row {
	__u64 outputs;	 /* so far; output n lies at last[n % OUTPUTS] */
	__u64 copied;	 /* asked for, the open ones included */
	__u64 work_ns;	 /* when a thread began to give work, after its last copy or after a pause */
	__u64 quiet_ns;	 /* end of the last output or pause: the next pause begins no earlier */
	__u64 paused_ns; /* of the output to come */
	struct output last[OUTPUTS];
};

/* One living thread, as the iterator program tells it. Everything up to the moment `read_ns`. */
struct thread_row {
	__u32 process;
	__u32 tid; /* as the exporter's pid namespace shows it */
	__u32 tgid;
	__u32 victim;	  /* enum victim_kind */
	__u32 state;
	__u32 operation;  /* of the outermost open call; OPERATION_NONE in a gap */
	__u64 read_ns;
	__u64 opened_ns;  /* when the open call or gap began */
	__u64 calls;	  /* that this thread has entered, nested ones included */
	__u64 voluntary;
	__u64 involuntary;
	__u64 wakes;
	__u64 run_delay_ns;  /* the kernel's own sum, since the thread is tracked, and what the hypervisor took */
	__u64 open_ns[THREAD_STATES];	 /* of the open call or gap */
	__u64 gaps_ns[THREAD_STATES];	 /* of all gaps, the open one included, without what was idle */
	__u64 idle_ns[THREAD_STATES];
	__u64 booked_ns[THREAD_STATES]; /* everything since the thread is tracked */
	char comm[16];
};
#define OPERATION_NONE 0xffff
/* In keys of the map `operations`: synchronising calls that had an NCCL operation of the communicator ahead of them. */
#define OPERATION_NCCL_WAIT 0xfffe

struct error_key {
	__u32 process;
	__u16 operation;
	__u16 padding;
	__s32 code;
	__u32 padding_2;
};

struct allocation_key {
	__u32 process;
	__u32 is_handle;
	__u64 address;
};

enum allocation_kind {
	ALLOCATION_DEVICE = 0,
	ALLOCATION_MANAGED = 1,
	ALLOCATION_PINNED = 2, /* memory of the host */
};

struct allocation {
	__u64 bytes;
	__u32 kind; /* enum allocation_kind */
	__u32 padding;
};

/*
 * Pinned host memory as aligned blocks of 2^n bytes, in a trie of address prefixes: whatever lies in a block begins with its
 * prefix. Both numbers are big-endian, as the trie compares.
 */
struct pinned_key {
	__u32 prefix_bits; /* of process and address together */
	__u32 process;
	__u64 address;
};

/* ---- copies ------------------------------------------------------------------------------------------------ */

enum host_memory {
	MEMORY_PAGEABLE = 0,
	MEMORY_PINNED = 1,
	MEMORY_UNKNOWN = 2, /* of a process that is older than the programs: it may have been pinned before */
};

/*
 * Copies between host and GPU that succeeded. is_blocking: the call returns when the host's memory has been read or written:
 * one that is not asynchronous, and any of pageable memory, which the driver copies piece by piece itself.
 */
struct copy_key {
	__u32 process;
	__u8 direction; /* enum copy_direction */
	__u8 memory;	/* enum host_memory */
	__u8 is_blocking;
	__u8 padding;
};

struct copy_row {
	__u64 copies;
	__u64 bytes;
	__u64 total_ns; /* of the calls */
};

/* ---- launches and graphs ------------------------------------------------------------------------------------ */

/*
 * Timed kernel launches by size: blocks in the grid (at most 1, 8, 64, 512, 4096, or more) and threads in a block (at most 32,
 * 64, 128, 256, 512, or more). Place: as in feeding_row.
 */
#define GRID_CLASSES 6
#define BLOCK_CLASSES 6
#define GEOMETRIES (GRID_CLASSES * BLOCK_CLASSES)
struct geometry_row {
	__u32 process;
	__u32 padding;
	__u64 launches[GEOMETRIES]; /* grid class * BLOCK_CLASSES + block class */
};

struct graph_key {
	__u32 process;
	__u32 is_executable;
	__u64 address;
};

struct graph {
	__u64 kernels; /* captured */
	__u64 launches;
};

/* What a process did with graphs. */
struct graph_row {
	__u64 captures; /* that have begun */
	__u64 captured; /* that have ended with a graph */
	__u64 failed;	/* that have ended without */
	__u64 capture_ns; /* from the return of the beginning to that of the end, of both */
	__u64 began_ns; /* the last one, CLOCK_MONOTONIC */
	__u64 instantiated;
	__u64 instantiate_ns;
	__u64 first_launches; /* of executable graphs whose making was seen */
	__u64 dropped;	      /* such graphs destroyed before they were ever launched */
	__u64 launches;
	__u64 kernels; /* in the launched graphs */
};

/* ---- processes --------------------------------------------------------------------------------------------- */

struct process_number {
	__u32 number;
	__u32 padding;
	__u64 start_ns; /* CLOCK_BOOTTIME at which the process started: a reused tgid has another */
};

/*
 * How often the launches of a process are timed. Written by user space alone: a place of an array, as those of feeding_row.
 */
struct launch_sampling {
	__u32 process; /* whom it is for */
	__u32 mask;    /* one launch in mask + 1 is timed, the others are only counted; 0: all are */
};

/* What user space tells the programs, in the one entry of the map `settings`. */
#define GPU_MAJORS 4
struct settings {
	__u32 pid_namespace; /* inode number of the exporter's own */
	__u32 has_no_launches; /* they are not probed: nobody knows when the GPU runs dry */
	__u64 idle_ns;	     /* a gap longer than this is idle from then on */
	__s64 preempt_count_offset; /* of the variable from this CPU's run queue, in the per-CPU section; 0: unknown */
	__u32 is_cpu_cgroup_v1;	    /* the cpu controller has a hierarchy of its own */
	__u32 gpu_majors[GPU_MAJORS]; /* of character devices that are the GPU's; 0: none */
	__u32 is_confined; /* the pid namespace is not the machine's: what it does not show is none of our business */
	__u64 loaded_ns;   /* CLOCK_BOOTTIME when the programs were loaded */
};

struct process_row {
	__u32 tgid;	     /* as the exporter's pid namespace shows it; 0: not in it */
	__u32 communicators; /* ordinals given so far */
	__u64 start_ns;
	__u64 cgroup_id;
	__u64 copied_bytes[COPY_DIRECTIONS];
	__u64 allocated_bytes;
	__u64 freed_bytes;
	__u64 unknown_frees;
	__u64 live_allocations; /* rows of this process in the map `allocations` */
	__u64 peak_bytes;	/* of what was allocated and not freed */
	__u64 managed_bytes;	/* of what is allocated, that in managed memory */
	__u64 pinned_bytes;	/* of the host's memory; in no other sum */
	__u64 pinned_blocks;	/* rows of this process in the map `pinned` */
	__u64 refused_bytes;	/* the last allocation that failed */
	__u64 unblamed_ns;	/* waits for a CPU for which the map `blame` had no room */
	char comm[16];
};

/* ---- communicators ----------------------------------------------------------------------------------------- */

#define RANK_UNKNOWN (-1)
#define COMMUNICATOR_ORDINALS 16			   /* of a process; all later ones share the next number */
#define COMMUNICATOR_OTHER (COMMUNICATOR_ORDINALS + 1)
#define NCCL_UNIQUE_ID_BYTES 128

struct communicator_key {
	__u32 process;
	__u32 padding;
	__u64 address;
};

struct communicator_row {
	__u64 hash; /* of the unique id: equal on every rank; 0 when the making of it was not seen */
	__u64 created_ns;
	__s32 rank;
	__u32 ranks;
	__u32 ordinal;
	__u32 splits; /* communicators made from it so far; equal on every rank */
};

/*
 * NCCL operations of a communicator are numbered from 1 as their calls return. What is ahead of a stream or an event is a
 * set of such numbers, one of each communicator: all up to it are done when the stream or event is.
 */
struct progress_key {
	__u32 process;
	__u32 communicator; /* ordinal */
};

struct progress_row {
	__u64 enqueued;	    /* calls that returned without error; inside a group as well */
	__u64 completed;    /* the highest number that was seen done */
	__u64 enqueued_ns;  /* when the last one was, CLOCK_MONOTONIC */
	__u64 completed_ns; /* when `completed` was raised last */
	__u64 collectives;  /* of the enqueued ones those that all ranks take part in, and by which ranks are compared */
	__u64 lag_ns;	    /* from the entry of the node's first rank into a collective to the entry of this one */
	__u64 late_arrivals; /* collectives that another rank of the node had entered before */
};

enum frontier_kind {
	FRONTIER_STREAM = 0,
	FRONTIER_EVENT = 1,
};

/* Key of the map `frontiers`, whose values are the programs' own. */
struct frontier_key {
	__u32 process;
	__u32 kind;
	__u64 address;
};

/* ---- disks ------------------------------------------------------------------------------------------------- */

enum disk_direction {
	DISK_READ = 0,
	DISK_WRITE = 1,
	DISK_FLUSH = 2,
	DISK_DISCARD = 3,
	DISK_OTHER = 4,
};

/* device: the kernel's number, the major one from bit 20 on. cgroup_id: of the group the request was made for, 0: not known. */
struct disk_key {
	__u64 cgroup_id;
	__u32 device;
	__u32 direction;
};

/* queue_ns: from the making of requests to their being given to the device; device_ns: from then to their completion. */
struct disk_row {
	__u64 requests;
	__u64 errors;
	__u64 bytes;
	__u64 queue_ns;
	__u64 device_ns;
	__u64 queue_slots[HIST_SLOTS];
	__u64 device_slots[HIST_SLOTS];
};

/* Who makes requests. group: the job it belongs to, and then tgid is 0; or ~0 for all who are outside, without a name. */
struct disk_user {
	__u32 group;
	__u32 tgid;
	char comm[16];
};

struct disk_user_key {
	__u32 device;
	struct disk_user user;
};

struct disk_use {
	__u64 requests;
	__u64 device_ns;
};

/* Sleeps of a job's threads that ended with a request of a device; device 0: of which is not known. */
struct disk_wait_key {
	__u32 process;
	__u32 device;
};

struct disk_wait {
	__u64 waits;
	__u64 wait_ns;
};

/* ---- ends ---------------------------------------------------------------------------------------------------- */

/* The last error of CUDA or NCCL that a process was given. */
struct last_error {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__s32 code;
	__u32 operation;
};

/*
 * How a traced process, or one that worked for it, has ended. status: as wait(2) tells it. is_victim: the kernel ended it because
 * there was no memory left.
 */
struct exit_key {
	__u32 process;
	__u32 status;
	__u16 is_worker;
	__u16 is_victim;
};

struct exit_row {
	__u64 exits;
	__u64 at_ns; /* of the last one, CLOCK_MONOTONIC */
};

struct fork_key {
	__u32 process;
	__u32 is_thread;
};

/* ---- memory ------------------------------------------------------------------------------------------------ */

/* Names of folders of a control group, the innermost first: the group may be gone before anybody asks for its path. */
#define GROUP_NAMES 5
#define GROUP_NAME_BYTES 96
#define GROUP_NAMES_BYTES (GROUP_NAMES * GROUP_NAME_BYTES)

/* Of a control group of the memory controller; its number is the key. */
struct memory_row {
	__u64 reclaim_ns; /* direct reclaim by its tasks, as the slots count it */
	__u64 reclaimed_pages;
	__u64 oom_kills;
	char names[GROUP_NAMES_BYTES];
	__u64 slots[HIST_SLOTS];
};

/* ---- network ----------------------------------------------------------------------------------------------- */

enum ip_family {
	FAMILY_IPV4 = 0, /* what is on the wire: also that of an IPv6 socket whose peer is an IPv4 address */
	FAMILY_IPV6 = 1,
};

/* TCP segments that a socket sent again, by the control group that made the socket: the unified hierarchy's. */
struct retransmit_key {
	__u64 cgroup_id; /* 0: the socket has none */
	__u32 family;
	__u32 padding;
};

struct retransmit_row {
	__u64 segments;
	__u64 handshakes; /* of them those of a connection that is not yet there: SYN, and SYN with ACK */
};

/* ---- mappings ---------------------------------------------------------------------------------------------- */

/* One mapping of a file, as the iterator program tells it: the file that uprobes are put into, behind every overlay. */
struct mapping_row {
	__u64 start;
	__u64 end;
	__u64 address; /* of the kernel's own inode, which is what a uprobe is bound to; not another's as long as that one is held */
	__u64 inode;
	__u32 generation; /* of the inode number, where the file system has one */
	__u32 device;	  /* as the kernel numbers it */
	__u32 is_own;	  /* of the process that reads */
	__u32 padding;
};

/* ---- stacks ------------------------------------------------------------------------------------------------ */

#define STACK_FRAMES 64
#define STACK_RETURNS 8
#define STACK_WORDS 1024				/* of a window */
#define STACK_WINDOWS 3					/* one from where the thread is, two from its open call */
#define STACK_ALL_WORDS (STACK_WINDOWS * STACK_WORDS)
struct stack_frame {
	__u64 slot;    /* where the return address lies on the stack */
	__u64 address; /* the return address: just behind the call */
};

/* Where one thread is in its program, as the iterator program tells it. */
struct stack_row {
	__u32 tid; /* as the exporter's pid namespace shows it */
	__u32 tgid;
	__u32 operation;  /* of the outermost open call; OPERATION_NONE in a gap */
	__u32 is_running; /* on a CPU: what is told is of its last entry into the kernel */
	__u64 read_ns;
	__u64 opened_ns;     /* when the open call or gap began */
	__u64 call_slot;     /* where the return address of the open call lies; 0 in a gap, and on arm64 */
	__u64 instruction;   /* where it is */
	__u64 stack_pointer;
	__u64 frame_pointer;
	__u32 frame_count;
	__u32 caller_count;
	__u64 window_slots[STACK_WINDOWS]; /* of the first word of each window; 0: not told */
	struct stack_frame frames[STACK_FRAMES];   /* by frame pointers, from where it is */
	struct stack_frame callers[STACK_FRAMES];  /* the same, from the entry of the open call; none on arm64 */
	struct stack_frame returns[STACK_RETURNS]; /* what lay in slots that a return probe has taken; the rest is 0 */
	char comm[16];
	__u64 words[STACK_ALL_WORDS]; /* of all windows: of the stack what is an address in it or in code, the rest is 0 */
};

/* ---- events and losses ------------------------------------------------------------------------------------- */

enum event_kind {
	EVENT_PROCESS_TRACKED = 1, /* first call seen */
	EVENT_PROCESS_ENDED = 2,   /* exit, or exec of another program */
	EVENT_ATTACHMENT_SURPLUS = 3, /* a call was seen through two attachments; told once of each that came second */
};

struct event {
	__u32 kind;
	__u32 process;
	__u32 attachment; /* the surplus one, and the one that saw the call first; else 0 */
	__u32 first;
};

/* One number of an attachment. is_live is written by user space, before the probes are put in and after they are removed. */
#define ATTACHMENTS 256
struct attachment_row {
	__u64 echoes; /* calls that another attachment had seen: not counted again */
	__u64 is_live;
};

enum loss_program {
	LOSS_IN_CUDA = 0,
	LOSS_IN_NCCL = 1,
	LOSS_IN_PROCESS = 2,
	LOSS_IN_SCHED = 3,
	LOSS_IN_BLOCK = 4,
	LOSS_IN_MEMORY = 5,
	LOSS_IN_NETWORK = 6,
	LOSS_PROGRAMS = 7,
};

enum loss_reason {
	LOSS_THREAD_STORAGE = 0, /* no memory, or the storage was busy */
	LOSS_PROCESSES_FULL = 1,
	LOSS_OPERATIONS_FULL = 2,
	LOSS_ERRORS_FULL = 3,
	LOSS_ALLOCATIONS_FULL = 4,
	LOSS_COMMUNICATORS_FULL = 5,
	LOSS_EVENTS_FULL = 6,
	LOSS_NESTING = 7,   /* more than CALL_DEPTH calls inside one another */
	LOSS_READ_FAULT = 8, /* memory of the traced process could not be read */
	LOSS_ABANDONED = 9, /* a call that never returned: longjmp, an exception through C */
	LOSS_INTERVALS_FULL = 10,
	LOSS_TAIL_FULL = 11,
	LOSS_BLAME_FULL = 12,
	LOSS_GROUPS_FULL = 13,
	LOSS_CHAINS_FULL = 14,
	LOSS_HEALED = 15, /* a switch or wake-up that the programs did not see, mended from the kernel's own clocks */
	LOSS_FRONTIERS_FULL = 16, /* streams and events that have NCCL operations ahead of them */
	LOSS_FRONTIER_PAIRS = 17, /* operations of more communicators ahead of one stream than it has room for */
	LOSS_PROGRESS_FULL = 18,
	LOSS_ARRIVALS_FULL = 19,
	LOSS_CADENCE_FULL = 20,
	LOSS_EXPOSURES_FULL = 21,
	LOSS_DISKS_FULL = 22,
	LOSS_DISK_WAITS_FULL = 23,
	LOSS_FORKS_FULL = 24,
	LOSS_MEMORY_GROUPS_FULL = 25,
	LOSS_RECLAIMS_FULL = 26,
	LOSS_ALLOCATORS_FULL = 27,
	LOSS_RETRANSMITS_FULL = 28,
	LOSS_PINNED_FULL = 29,
	LOSS_COPIES_FULL = 30,
	LOSS_GRAPHS_FULL = 31,
	LOSS_OUTPUTS_FULL = 32,
	LOSS_REASONS = 33,
};

/* Sizes: user space unpacks by them. */
#define ABI_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
ABI_SIZE(struct operation_key, 8);
ABI_SIZE(struct exemplar, 32);
ABI_SIZE(struct exposure, 64);
ABI_SIZE(struct operation_row, 2888);
ABI_SIZE(struct interval_key, 8);
ABI_SIZE(struct interval_row, 144);
ABI_SIZE(struct tail_key, 8);
ABI_SIZE(struct tail_row, 136);
ABI_SIZE(struct blame_key, 40);
ABI_SIZE(struct feeding_row, 376);
ABI_SIZE(struct beat, 16);
ABI_SIZE(struct cadence_row, 2056);
ABI_SIZE(struct output, 16);
ABI_SIZE(struct output_row, 2088);
ABI_SIZE(struct chain_key, 12);
ABI_SIZE(struct chain_row, 152);
ABI_SIZE(struct thread_row, 608);
ABI_SIZE(struct error_key, 16);
ABI_SIZE(struct allocation_key, 16);
ABI_SIZE(struct allocation, 16);
ABI_SIZE(struct pinned_key, 16);
ABI_SIZE(struct copy_key, 8);
ABI_SIZE(struct copy_row, 24);
ABI_SIZE(struct geometry_row, 296);
ABI_SIZE(struct graph_key, 16);
ABI_SIZE(struct graph, 16);
ABI_SIZE(struct graph_row, 88);
ABI_SIZE(struct process_number, 16);
ABI_SIZE(struct launch_sampling, 8);
ABI_SIZE(struct settings, 56);
ABI_SIZE(struct process_row, 168);
ABI_SIZE(struct communicator_key, 16);
ABI_SIZE(struct communicator_row, 32);
ABI_SIZE(struct progress_key, 8);
ABI_SIZE(struct progress_row, 56);
ABI_SIZE(struct frontier_key, 16);
ABI_SIZE(struct last_error, 16);
ABI_SIZE(struct exit_key, 12);
ABI_SIZE(struct exit_row, 16);
ABI_SIZE(struct fork_key, 8);
ABI_SIZE(struct disk_key, 16);
ABI_SIZE(struct disk_row, 5448);
ABI_SIZE(struct disk_user, 24);
ABI_SIZE(struct disk_user_key, 28);
ABI_SIZE(struct disk_use, 16);
ABI_SIZE(struct disk_wait_key, 8);
ABI_SIZE(struct disk_wait, 16);
ABI_SIZE(struct memory_row, 3208);
ABI_SIZE(struct retransmit_key, 16);
ABI_SIZE(struct retransmit_row, 16);
ABI_SIZE(struct mapping_row, 48);
ABI_SIZE(struct stack_frame, 16);
ABI_SIZE(struct stack_row, 26864);
ABI_SIZE(struct event, 16);
ABI_SIZE(struct attachment_row, 16);

#endif
