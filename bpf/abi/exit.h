/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Forks, errors and ends of processes. Read by exporter/kernel/end_rows.py. */
#ifndef GPUSTALL_ABI_EXIT_H
#define GPUSTALL_ABI_EXIT_H

#include <linux/types.h>

/* The last error that CUDA or NCCL returned to a process. */
struct last_error {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__s32 code;
	__u32 operation;
};

struct exit_key {
	__u32 process;
	__u32 status;	 /* as wait(2) returns it */
	__u16 is_worker; /* not the traced process, but one that worked for it */
	__u16 is_victim; /* the kernel killed it for lack of memory */
};

struct exit_row {
	__u64 exits;
	__u64 at_ns; /* of the last one, CLOCK_MONOTONIC */
};

struct fork_key {
	__u32 process;
	__u32 is_thread;
};

#endif
