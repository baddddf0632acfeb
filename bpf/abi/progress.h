/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* How far the NCCL operations of each communicator have come. Read by exporter/kernel/progress_rows.py. */
#ifndef GPUSTALL_ABI_PROGRESS_H
#define GPUSTALL_ABI_PROGRESS_H

#include <linux/types.h>

struct progress_key {
	__u32 process;
	__u32 communicator; /* ordinal */
};

/* Operations of a communicator are numbered from 1 in the order in which their calls return. */
struct progress_row {
	__u64 enqueued;	    /* calls that returned without error, also inside a group */
	__u64 completed;    /* highest number known to be complete */
	__u64 enqueued_ns;  /* of the last one, CLOCK_MONOTONIC */
	__u64 completed_ns; /* when `completed` was last raised */
	__u64 collectives;  /* those of the enqueued ones that all ranks take part in; ranks are compared by them */
	__u64 lag_ns;	    /* from the entry of the node's first rank into a collective to the entry of this rank */
	__u64 late_arrivals; /* collectives that another rank of the node entered first */
};

enum frontier_kind {
	FRONTIER_STREAM = 0,
	FRONTIER_EVENT = 1,
};

/* Key of `frontiers`, whose values only the programs read. */
struct frontier_key {
	__u32 process;
	__u32 kind;
	__u64 address;
};

#endif
