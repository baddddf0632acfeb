/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Shares of the tables by owner. Read by exporter/kernel/share_rows.py. */
#ifndef GPUSTALL_ABI_SHARE_H
#define GPUSTALL_ABI_SHARE_H

#include <linux/types.h>

/* Tables that traced processes fill. The name is that of the map. */
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
};

enum share_limits {
	SHARE_TABLES = SHARE_FORKS + 1,
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
};

/* What one process holds. User space makes its owner from the user and the groups. */
struct process_share {
	__u32 owner; /* place in `owners` */
	__u32 uid;   /* of the user who answers for the process, in the first user namespace */
	__u64 group; /* its cgroup when it made its first call; on cgroup v1 the root */
	__u64 user_key; /* of owner_places: the user, within the uppermost group below the root */
	__s32 used[SHARE_TABLES];
};

/* What all processes of an owner hold, and were refused. */
struct owner_row {
	__s64 used[SHARE_TABLES];
	__u64 refused[SHARE_TABLES];
};

/* What all owners hold, and the size of the tables; 0: the table is not loaded. */
struct share_totals {
	__s64 used[SHARE_TABLES];
	__s64 capacity[SHARE_TABLES];
};

#endif
