/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Records that the programs had to drop, by program and reason. Read by exporter/kernel/tables.py. */
#ifndef GPUSTALL_ABI_DROP_H
#define GPUSTALL_ABI_DROP_H

#include <linux/types.h>

enum drop_program {
	DROP_IN_CUDA = 0,
	DROP_IN_NCCL = 1,
	DROP_IN_PROCESS = 2,
	DROP_IN_SCHED = 3,
	DROP_IN_BLOCK = 4,
	DROP_IN_MEMORY = 5,
	DROP_IN_NETWORK = 6,
};

enum drop_reason {
	DROP_THREAD_STORAGE = 0, /* no memory, or the storage was busy */
	DROP_PROCESSES_FULL = 1,
	DROP_OPERATIONS_FULL = 2,
	DROP_ERRORS_FULL = 3,
	DROP_ALLOCATIONS_FULL = 4,
	DROP_COMMUNICATORS_FULL = 5,
	DROP_EVENTS_FULL = 6,
	DROP_NESTING = 7,   /* more than CALL_DEPTH nested calls */
	DROP_READ_FAULT = 8, /* memory of the traced process could not be read */
	DROP_ABANDONED = 9, /* a call that never returned: longjmp, an exception through C */
	DROP_INTERVALS_FULL = 10,
	DROP_BLAME_FULL = 11,
	DROP_GROUPS_FULL = 12,
	DROP_WAKEUPS_FULL = 13,
	DROP_HEALED = 14, /* no drop: a missed switch or wake-up, reconstructed from the kernel's own clocks */
	DROP_FRONTIERS_FULL = 15, /* streams and events with NCCL operations ahead of them */
	DROP_FRONTIER_PAIRS = 16, /* more communicators ahead of one stream than it has room for */
	DROP_PROGRESS_FULL = 17,
	DROP_ARRIVALS_FULL = 18,
	DROP_CADENCE_FULL = 19,
	DROP_EXPOSURES_FULL = 20,
	DROP_DISKS_FULL = 21,
	DROP_DISK_WAITS_FULL = 22,
	DROP_FORKS_FULL = 23,
	DROP_MEMORY_GROUPS_FULL = 24,
	DROP_RECLAIMS_FULL = 25,
	DROP_ALLOCATORS_FULL = 26,
	DROP_RETRANSMITS_FULL = 27,
	DROP_PINNED_FULL = 28,
	DROP_COPIES_FULL = 29,
	DROP_GRAPHS_FULL = 30,
	DROP_OUTPUTS_FULL = 31,
	DROP_EXITS_FULL = 32,
	DROP_AWAITED_FULL = 33,
	DROP_IMPLAUSIBLE_SIZE = 34, /* of a copy, collective or allocation: more than any machine has, or a sum that is full */
	DROP_CALL_SITES_FULL = 35,
	DROP_CAPTURES_FULL = 36, /* streams and events that are part of a stream capture */
};

enum drop_limits {
	DROP_PROGRAMS = DROP_IN_NETWORK + 1,
	DROP_REASONS = DROP_CAPTURES_FULL + 1,
};

#endif
