/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Shares of the tables by owner. Read by exporter/kernel/share_rows.py. */
#ifndef GPUSTALL_ABI_SHARE_H
#define GPUSTALL_ABI_SHARE_H

#include <linux/types.h>

/* Tables that traced processes fill, and from SHARE_MEMORY_GROUPS on those that control groups fill. The name is that of the map. */
enum share_table {
	SHARE_PROCESSES = 0,
	SHARE_OPERATIONS = 1,
	SHARE_ERRORS = 2,
	SHARE_ALLOCATIONS = 3,
	SHARE_COMMUNICATORS = 4,
	SHARE_PROGRESS = 5,
	SHARE_FRONTIERS = 6,
	SHARE_GRAPHS = 7,
	SHARE_PINNED = 8,
	SHARE_COPIES = 9,
	SHARE_EXPOSURES = 10,
	SHARE_INTERVALS = 11,
	SHARE_BLAME = 12,
	SHARE_WAKEUPS = 13,
	SHARE_DISK_WAITS = 14,
	SHARE_FORKS = 15,
	SHARE_CALL_SITES = 16,
	SHARE_ARRIVALS = 17,
	SHARE_CAPTURING = 18,
	SHARE_EXITS = 19,
	SHARE_FEEDING = 20,
	SHARE_MEMORY_GROUPS = 21,
	SHARE_DISKS = 22,
	SHARE_RETRANSMITS = 23,
};

enum share_limits {
	SHARE_TABLES = SHARE_RETRANSMITS + 1,
	SHARE_OF_GROUPS = SHARE_MEMORY_GROUPS, /* the first table of control groups */
	SHARE_NEWCOMERS = 256, /* places for owners that user space has not named yet, by a hash */
	SHARE_OWNERS = 1024,
	SHARE_LEVELS = 8, /* of a cgroup's path that are compared */
};

#define SHARE_OF_USER (1ULL << 63) /* in the key of owner_places: a user within a group, not a group */

/* What user space asks the program process_share for. */
enum share_request {
	SHARE_REQUEST_OWNER = 0,   /* the process belongs to the owner at a place */
	SHARE_REQUEST_RELEASE = 1, /* user space has deleted rows of a table */
	SHARE_REQUEST_END = 2,	   /* the process has ended: no row of it may be created any more */
	SHARE_REQUEST_CLEAR = 3,   /* the owner at a place has no processes any more; what its control groups hold stays */
	SHARE_REQUEST_GROUP = 4,   /* user space has deleted a row of a control group, which was booked to a place */
};

/* What one process holds. User space makes its owner from the user and the groups. */
struct process_share {
	__u32 owner; /* place in `owners` */
	__u32 uid;   /* of the user who answers for the process, in the first user namespace */
	__u64 group; /* its cgroup when it made its first call; on cgroup v1 the root */
	__u64 user_key; /* of owner_places: the user, within the uppermost group below the root */
	__s32 used[SHARE_OF_GROUPS];
	__u32 padding;
};

/* What all processes and control groups of an owner hold, and were refused. */
struct owner_row {
	__s64 used[SHARE_TABLES];
	__u64 refused[SHARE_TABLES];
	__u32 user; /* who made the control group that was refused a row last */
	__u32 padding;
};

/* What all owners hold, and the size of the tables; 0: the table is not loaded. */
struct share_totals {
	__s64 used[SHARE_TABLES];
	__s64 capacity[SHARE_TABLES];
};

#endif
