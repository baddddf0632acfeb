/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Who held the CPU while a tracked thread was ready to run. Read by exporter/kernel/thread_rows.py. */
#ifndef GPUSTALL_ABI_BLAME_H
#define GPUSTALL_ABI_BLAME_H

#include <linux/types.h>

enum culprit {
	CULPRIT_TASK = 0,    /* a process outside the job */
	CULPRIT_OWN = 1,     /* the process itself, or one it has forked */
	CULPRIT_IDLE = 2,    /* the CPU was idle: the latency of a wake-up */
	CULPRIT_IRQ = 3,     /* interrupts, whichever task they interrupted */
	CULPRIT_UNKNOWN = 4, /* a missed event, or more switches than the ring holds */
	CULPRIT_OUTSIDE = 5, /* a process that the exporter's pid namespace does not show: another pod's, or the kernel's */
	CULPRIT_HYPERVISOR = 6, /* steal: the hypervisor ran something else on the physical CPU */
	CULPRIT_EXPORTER = 7, /* the exporter that loaded the programs */
};

/* Which kind of thread waited. */
enum victim {
	VICTIM_STEP = 0, /* a step thread: it launches or synchronises */
	VICTIM_OTHER = 1,
	VICTIM_WORKER = 2, /* a thread of the job that has made no call, also in processes it has forked */
};

struct blame_key {
	__u32 process; /* number of the victim, or of a worker's parent */
	__u16 victim;
	__u16 culprit;
	__u32 tgid; /* of CULPRIT_TASK, in the machine's pid namespace; else 0 */
	__u32 ancestor_tgid; /* of a young CULPRIT_TASK: its nearest ancestor that lasts; else 0 */
	__u64 cgroup_id; /* on cgroup v1 in the hierarchy of the cpu controller */
	char comm[16];	 /* of the culprit's process when it was first charged */
	char ancestor_comm[16];
};

#endif
