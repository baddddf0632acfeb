/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What remember() of cuda.bpf.c and nccl.bpf.c stores in call->arguments for the return of the call, by shape. */
#ifndef GPUSTALL_ARGUMENTS_BPF_H
#define GPUSTALL_ARGUMENTS_BPF_H

#include "thread.bpf.h"

enum { COPY_WHAT }; /* bytes, direction and memory; the other arguments hold PENDING */
enum { ORDER_A, ORDER_B };
enum { DEVICE_PENDING };
enum { GRAPH_A, GRAPH_B };
enum { PENDING = 1 }; /* a struct frontier, for calls that query or wait */
enum { ALLOCATE_WHERE, ALLOCATE_BYTES };
enum { FREE_ADDRESS, FREE_BYTES, FREE_KIND, FREE_IS_KNOWN };
enum { ENQUEUED_BYTES, ENQUEUED_COMMUNICATOR, ENQUEUED_STREAM, ENQUEUED_IS_INNER };
enum { MADE_WHERE, MADE_RANKS, MADE_RANK, MADE_HASH };
enum { QUERIED_COMMUNICATOR, QUERIED_WHERE };
/* Of a kernel launch, and only while a recording runs: set by recorded.bpf.c. */
enum { LAUNCH_BLOCKS, LAUNCH_THREADS, LAUNCH_ENTERED = CALL_ARGUMENTS - 1 }; /* the last one: stack pointer at the entry */

#define COPY_DIRECTION_BITS 3
#define COPY_MEMORY_BITS 2

static __always_inline u32 copy_direction(const struct call *call)
{
	return call->arguments[COPY_WHAT] & ((1 << COPY_DIRECTION_BITS) - 1);
}

static __always_inline u64 copy_bytes(const struct call *call)
{
	return call->arguments[COPY_WHAT] >> (COPY_DIRECTION_BITS + COPY_MEMORY_BITS);
}

static __always_inline u32 copy_memory(const struct call *call)
{
	return call->arguments[COPY_WHAT] >> COPY_DIRECTION_BITS & ((1 << COPY_MEMORY_BITS) - 1);
}

#endif
