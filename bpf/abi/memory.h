/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Direct reclaim and OOM kills of control groups. Read by exporter/kernel/memory_rows.py. */
#ifndef GPUSTALL_ABI_MEMORY_H
#define GPUSTALL_ABI_MEMORY_H

#include "hist.h"

/* Directory names of a control group, the innermost first: the group may be gone before user space reads its path. */
enum memory_limits {
	GROUP_NAMES = 5,
	GROUP_NAME_BYTES = 96,
	GROUP_NAMES_BYTES = GROUP_NAMES * GROUP_NAME_BYTES,
};

/* The key is the group's number in the hierarchy of the memory controller. */
struct memory_row {
	__u32 owner; /* place in `owners`; first, as lib/group_share.bpf.h writes it */
	__u32 padding;
	__u64 reclaim_ns; /* direct reclaim by its tasks, which the slots count */
	__u64 reclaimed_pages;
	__u64 oom_kills;
	char names[GROUP_NAMES_BYTES];
	__u64 slots[HIST_SLOTS];
};

#endif
