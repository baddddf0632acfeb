/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Calls by operation, and calls that failed. Read by exporter/kernel/operation_rows.py. */
#ifndef GPUSTALL_ABI_OPERATION_H
#define GPUSTALL_ABI_OPERATION_H

#include "hist.h"
#include "thread.h"

enum operation_limits {
	OPERATION_NONE = 0xffff,
	/* In keys of `operations`: synchronising calls that waited for an NCCL operation of the communicator. */
	OPERATION_NCCL_WAIT = 0xfffe,
};

struct operation_key {
	__u32 process; /* number given in BPF, never a tgid */
	__u16 operation;
	__u16 communicator; /* ordinal from 1; 0: none */
};

/*
 * One call that stands for many: the slowest that ended in the current window of 8.6 s. Two CPUs may write at the same time while
 * user space reads: `closing` is odd during a write, and different versions mean that the reader saw half a write.
 */
struct exemplar {
	__u32 opening;
	__u32 tid; /* in the exporter's pid namespace; 0: not in it */
	__u64 duration_ns;
	__u64 ended_ns; /* CLOCK_MONOTONIC; 0: no call yet */
	__u32 tgid;	/* as tid */
	__u32 closing;
};

struct operation_row {
	__u64 untimed;	/* calls without a duration: their caller, the runtime, was timed instead, or they were sampled out */
	__u64 total_ns; /* of the timed calls, which the slots count */
	__u64 bytes;	/* NCCL: elements x element size of the calls that succeeded */
	__u64 states_ns[THREAD_STATES]; /* of calls that no other traced call encloses */
	struct exemplar slowest;
	__u64 slow_ns; /* calls that are longer have their Python frames read: lib/call_sites.bpf.h */
	__u64 slots[HIST_SLOTS]; /* in the same row, because a second look-up costs 57 ns a call */
};

struct error_key {
	__u32 process;
	__u16 operation;
	__u16 padding;
	__s32 code;
	__u32 padding_2;
};

#endif
