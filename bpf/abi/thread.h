/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What a thread does at a moment, and one living thread as threads_read writes it. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_THREAD_H
#define GPUSTALL_ABI_THREAD_H

#include "awaited.h"

/*
 * The kind of a sleep is decided when it begins. STATE_ON_CPU and STATE_RECLAIM are running, STATE_RUNNABLE and STATE_THROTTLED are
 * waiting for a CPU.
 */
enum thread_state {
	STATE_ON_CPU = 0,
	STATE_RECLAIM = 1,
	STATE_GPU_WAIT = 2, /* blocked on the device file of the GPU */
	STATE_RUNNABLE = 3,
	STATE_THROTTLED = 4, /* runnable, but the CPU quota of its own cgroup is used up */
	STATE_IO = 5,
	STATE_MEMORY = 6,
	STATE_FAULT = 7,
	STATE_LOCK = 8,
	STATE_PIPE = 9, /* or a Unix socket */
	STATE_SOCKET = 10,
	STATE_POLL = 11,
	STATE_SLEEP = 12,
	STATE_CHILD = 13,
	STATE_STOPPED = 14,
	STATE_OTHER = 15,
	STATE_OUTPUT = 16, /* writing, to a pipe, Unix socket or terminal that is full */
};

enum thread_limits {
	THREAD_STATES = STATE_OUTPUT + 1,
};

/* Everything up to the moment read_ns. */
struct thread_row {
	__u32 process;
	__u32 tid; /* in the exporter's pid namespace */
	__u32 tgid;
	__u32 victim;	  /* enum victim */
	__u32 state;
	__u32 operation;  /* of the outermost open call; OPERATION_NONE in a gap */
	__u64 read_ns;
	__u64 opened_ns;  /* when the open call or gap began */
	__u64 calls;	  /* calls entered, nested ones included */
	__u64 voluntary;
	__u64 involuntary;
	__u64 wakes;
	__u64 run_delay_ns;  /* the kernel's sum since the thread is tracked, plus steal and interrupts */
	__u64 open_ns[THREAD_STATES];	 /* the open call or gap */
	__u64 gaps_ns[THREAD_STATES];	 /* all gaps, the open one included, without idle time */
	__u64 idle_ns[THREAD_STATES];
	__u64 booked_ns[THREAD_STATES]; /* everything since the thread is tracked */
	char comm[16];
	struct awaited_by reader; /* of a write that the thread is blocked in; all zero: unknown, or none */
};

#endif
