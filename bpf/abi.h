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
	SHAPE_COPY = 3,		  /* A: bytes; B: cudaMemcpyKind, or 0 and the direction is fixed */
	SHAPE_COPY_2D = 4,	  /* A: width in bytes, B: cudaMemcpyKind, C: height */
	SHAPE_COLLECTIVE = 5,	  /* A: element count, B: ncclDataType_t, C: communicator */
	SHAPE_INIT_RANK = 6,	  /* A: newcomm, B: nranks, C: rank; before C stands the unique id, by value */
	SHAPE_INIT_SCALABLE = 7,  /* A: newcomm, B: nranks, C: rank, D: pointer to the first unique id */
	SHAPE_INIT_ALL = 8,	  /* A: communicators, B: ndev */
	SHAPE_SPLIT = 9,	  /* A: parent, B: colour, C: newcomm */
	SHAPE_SHRINK = 10,	  /* A: parent, B: excluded ranks, C: their number, D: newcomm */
	SHAPE_COMM_COUNT = 11,	  /* A: communicator, B: where the number of ranks is stored */
	SHAPE_COMM_RANK = 12,	  /* A: communicator, B: where the rank is stored */
	SHAPE_COMM_END = 13,	  /* A: communicator */
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

struct operation_row {
	__u64 untimed;	/* calls whose time was not taken: made by the driver's caller, the runtime */
	__u64 total_ns; /* of the timed ones, which the slots count */
	__u64 bytes;	/* NCCL: elements x element size, of calls that succeeded */
	struct exemplar slowest;
	__u64 slots[HIST_SLOTS]; /* in the same row, since a second look-up costs 57 ns a call */
};

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

/* ---- processes --------------------------------------------------------------------------------------------- */

struct process_number {
	__u32 number;
	__u32 padding;
	__u64 start_ns; /* CLOCK_BOOTTIME at which the process started: a reused tgid has another */
};

/* What user space tells the programs, in the one entry of the map `settings`. */
struct settings {
	__u32 pid_namespace; /* inode number of the exporter's own */
	__u32 padding;
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

/* ---- events and losses ------------------------------------------------------------------------------------- */

enum event_kind {
	EVENT_PROCESS_TRACKED = 1, /* first call seen */
	EVENT_PROCESS_ENDED = 2,   /* exit, or exec of another program */
};

struct event {
	__u32 kind;
	__u32 process;
};

enum loss_program {
	LOSS_IN_CUDA = 0,
	LOSS_IN_NCCL = 1,
	LOSS_IN_PROCESS = 2,
	LOSS_PROGRAMS = 3,
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
	LOSS_REASONS = 10,
};

/* Sizes: user space unpacks by them. */
#define ABI_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
ABI_SIZE(struct operation_key, 8);
ABI_SIZE(struct exemplar, 32);
ABI_SIZE(struct operation_row, 2760);
ABI_SIZE(struct error_key, 16);
ABI_SIZE(struct allocation_key, 16);
ABI_SIZE(struct process_number, 16);
ABI_SIZE(struct settings, 8);
ABI_SIZE(struct process_row, 120);
ABI_SIZE(struct communicator_key, 16);
ABI_SIZE(struct communicator_row, 32);
ABI_SIZE(struct event, 8);

#endif
