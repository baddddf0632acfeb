/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What the waker of a sleeping thread did during the sleep. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_WAKEUP_H
#define GPUSTALL_ABI_WAKEUP_H

#include "thread.h"

enum waker {
	WAKER_STEP = 0,	   /* another step thread, which was feeding the GPU */
	WAKER_THREAD = 1,  /* another thread of the same process */
	WAKER_PROCESS = 2, /* a process that works for the job, or a thread that such a process has woken */
	WAKER_OTHER = 3,   /* no thread of the job */
	WAKER_HOLDER = 4,  /* a process that works for the job, and has held the lock of a file */
	WAKER_LOADER = 5,  /* a thread of the same process that works ahead of the step threads */
};

/* A row with VICTIM_WORKER is of no sleeper: it has all work of workers (WAKER_PROCESS, WAKER_LOADER), one window for each piece. */
struct wakeup_key {
	__u32 process;
	__u16 victim; /* enum victim of the sleeper */
	__u16 state;  /* of the sleeper */
	__u16 waker;
	__u16 padding;
};

struct wakeup_row {
	__u64 windows;
	__u64 resolved_ns; /* split over states_ns */
	__u64 abstained_ns; /* the waker was not of the job, or not tracked for the whole sleep */
	__u64 states_ns[THREAD_STATES];
};

#endif
