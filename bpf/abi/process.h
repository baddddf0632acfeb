/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Tracked processes. Read by exporter/kernel/process_rows.py. */
#ifndef GPUSTALL_ABI_PROCESS_H
#define GPUSTALL_ABI_PROCESS_H

#include "call.h"

struct process_number {
	__u32 number;
	__u32 padding;
	__u64 start_ns; /* start of the process, CLOCK_BOOTTIME: a reused tgid has another one */
};

struct process_row {
	__u32 tgid;	     /* in the exporter's pid namespace; 0: not in it */
	__u32 communicators; /* ordinals given so far */
	__u64 start_ns;
	__u64 cgroup_id;
	__u64 copied_bytes[COPY_DIRECTIONS];
	__u64 allocated_bytes;
	__u64 freed_bytes;
	__u64 unknown_frees;
	__u64 live_allocations; /* rows of this process in `allocations` */
	__u64 peak_bytes;	/* highest value of allocated minus freed bytes */
	__u64 managed_bytes;	/* live managed memory, part of the allocated bytes */
	__u64 pinned_bytes;	/* live pinned host memory, part of no other sum */
	__u64 pinned_blocks;	/* rows of this process in `pinned` */
	__u64 refused_bytes;	/* size of the last allocation that failed */
	__u64 unblamed_ns;	/* waits for a CPU for which `blame` had no room */
	char comm[16];
};

#endif
