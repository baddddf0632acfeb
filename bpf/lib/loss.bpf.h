/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What could not be recorded is counted, by program and reason. A program defines LOSS_PROGRAM before including this.
 */
#ifndef GPUSTALL_LOSS_BPF_H
#define GPUSTALL_LOSS_BPF_H

#include "kernel.bpf.h"
#include "../abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOSS_PROGRAMS * LOSS_REASONS);
	__type(key, u32);
	__type(value, u64);
} losses SEC(".maps");

/* Not inlined, like everything that is rare: the path of an ordinary call stays short. */
static __noinline void lose(enum loss_reason reason)
{
	u32 index = LOSS_PROGRAM * LOSS_REASONS + reason;
	u64 *count = bpf_map_lookup_elem(&losses, &index);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
