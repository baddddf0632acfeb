/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Records that cannot be stored are counted, by program and reason. A program defines DROP_PROGRAM before it includes this.
 * Map written: drops, read by exporter/kernel/tables.py.
 */
#ifndef GPUSTALL_DROP_BPF_H
#define GPUSTALL_DROP_BPF_H

#include "kernel.bpf.h"
#include "../abi/drop.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DROP_PROGRAMS * DROP_REASONS);
	__type(key, u32);
	__type(value, u64);
} drops SEC(".maps");

/* Not inlined, as everything rare: the path of an ordinary call stays short. */
static __noinline void drop(enum drop_reason reason)
{
	u32 index = DROP_PROGRAM * DROP_REASONS + reason;
	u64 *count = bpf_map_lookup_elem(&drops, &index);

	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
