/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Who ended a sleep: the holder of a lock, the writer or reader of a pipe, a child. Read by exporter/kernel/awaited_rows.py. */
#ifndef GPUSTALL_ABI_AWAITED_H
#define GPUSTALL_ABI_AWAITED_H

#include <linux/types.h>

enum awaited {
	AWAITED_UNKNOWN = 0,
	AWAITED_THREAD = 1,  /* another thread of the same process */
	AWAITED_WORKER = 2,  /* another process of the job */
	AWAITED_PROCESS = 3, /* a process outside the job */
	AWAITED_OUTSIDE = 4, /* a process that the exporter's pid namespace does not show: without name and tgid */
};

struct awaited_by {
	__u32 tgid; /* in the machine's pid namespace; 0 for AWAITED_THREAD */
	__u32 kind; /* enum awaited */
	char comm[16]; /* of the process; of the thread for AWAITED_THREAD */
};

/* Value: nanoseconds that threads of the job slept, of sleeps that have ended. */
struct awaited_key {
	__u32 process;
	__u32 state; /* of the sleepers: step threads in STATE_LOCK, STATE_PIPE, STATE_CHILD and STATE_OUTPUT, any in the last one
		      * that wait for a process outside the job */
	struct awaited_by by;
};

#endif
