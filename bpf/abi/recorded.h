/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Single calls and changes of threads, while a recording runs. Written to a ring, which exporter/kernel/call_recording.py reads. */
#ifndef GPUSTALL_ABI_RECORDED_H
#define GPUSTALL_ABI_RECORDED_H

#include <linux/types.h>

enum recorded_kind {
	RECORDED_CALL = 1, /* struct recorded_call; the others: struct recorded_change */
	RECORDED_CAME = 2, /* the thread came onto a CPU; other: the thread that left it */
	RECORDED_LEFT = 3, /* it left the CPU; other: the thread that came onto it */
	RECORDED_WOKEN = 4, /* other: who woke it */
	RECORDED_ENDED = 5, /* it left the CPU for ever */
};

enum recorded_limits {
	/* Events of a process are bounded in spans of this length, a second: 2^30 ns. */
	RECORDED_SPAN_BITS = 30,
};

/* A call that has returned. */
struct recorded_call {
	__u32 kind;
	__u32 process; /* number */
	__u32 tid;     /* in the exporter's pid namespace */
	__s32 code;    /* what it returned */
	__u16 operation;
	__u16 communicator; /* ordinal; 0: none */
	__u32 depth;	    /* traced calls that enclose it */
	__u64 began_ns;	    /* CLOCK_MONOTONIC */
	__u64 ended_ns;
	/* By shape of the operation; 0 where it has none. */
	__u64 amount; /* copies, allocations and NCCL: bytes; launches: blocks of the grid */
	__u64 detail; /* copies: direction, and the host's memory << 8; launches: threads of a block; NCCL: hash of the communicator */
	__u64 sequence; /* number of a collective on its communicator, equal on all ranks; 0: unknown, or none */
};

struct recorded_change {
	__u32 kind;
	__u32 process; /* number of the process that the thread works for */
	__u32 tid;
	__u32 state; /* enum thread_state, that begins */
	__u64 at_ns;
	__u64 throttled_ns; /* RECORDED_CAME: the part of the wait for a CPU that was throttled */
	__u32 other_tid; /* 0: no thread, but the idle task or an interrupt; or not in the exporter's pid namespace */
	__u32 other_tgid;
	char other_comm[16];
};

/* What user space wants of a recording: the only entry of `recorded_settings`. */
struct recorded_setting {
	__u64 began_ns;
	__u64 most_in_span; /* events of a process */
	__u64 is_filtered; /* only processes with a row in `recorded_rows` */
};

/* One process. */
struct recorded_row {
	__u64 calls;	/* written to the ring */
	__u64 changes;
	__u64 full;	/* events that had no room in the ring */
	__u64 left_out; /* events over most_in_span */
	__u64 span;	/* the present one */
	__u64 in_span;	/* events in it */
};

#endif
