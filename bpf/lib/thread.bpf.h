/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The state of a thread that makes tracked calls: its process number and the calls it is inside of. Freed with the task.
 */
#ifndef GPUSTALL_THREAD_BPF_H
#define GPUSTALL_THREAD_BPF_H

#include "kernel.bpf.h"

#define CALL_DEPTH 4 /* runtime -> driver is 2, NCCL -> runtime -> driver 3, and a signal handler on top */
#define CALL_ARGUMENTS 4

struct call {
	u64 entry_ns;
	u64 stack_pointer; /* at entry: what a return is matched by */
	u64 cookie;
	u64 arguments[CALL_ARGUMENTS]; /* A, B, C, D of the cookie, or what the shape made of them */
};

struct thread {
	u32 process;
	u32 depth;
	bool has_abandoned; /* a call of this thread has been left without a return */
	struct call calls[CALL_DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

#endif
