/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Time outside calls, of threads that have ended. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_INTERVAL_H
#define GPUSTALL_ABI_INTERVAL_H

#include "thread.h"

enum interval_kind {
	INTERVAL_GAP = 0,	/* between two calls of a step thread: one that launches or synchronises */
	INTERVAL_OTHER_GAP = 1, /* between two calls of any other thread */
	INTERVAL_IDLE = 2,	/* the part of a gap beyond settings.idle_ns */
	INTERVAL_ABANDONED = 3, /* in calls that never returned */
	INTERVAL_WORKER = 4,	/* threads of the job that have made no call, also in processes it has forked */
};

struct interval_key {
	__u32 process;
	__u32 kind;
};

/* Living threads are read from the threads themselves (struct thread_row). */
struct interval_row {
	__u64 states_ns[THREAD_STATES];
	__u64 voluntary; /* switches away from the CPU into a sleep */
	__u64 involuntary;
};

#endif
