/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Copies between host and GPU, by direction and by the kind of host memory.
 * Map written: copies, read by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_COPIES_BPF_H
#define GPUSTALL_COPIES_BPF_H

#include "maps.bpf.h"
#include "size.bpf.h"
#include "../abi/copies.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct copy_key);
	__type(value, struct copy_row);
} copies SEC(".maps");

static const struct copy_row empty_copy_row;

__noinline int copies_add(struct copy_key *of, u64 bytes, u64 duration_ns)
{
	if (!of)
		return 0;
	/* On the stack: kernel 6.1 accepts no key through a pointer argument of a global function. */
	struct copy_key key = *of;
	struct copy_row *row = own_row(&copies, &key, &empty_copy_row, key.process, SHARE_COPIES, DROP_COPIES_FULL);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->copies, 1);
	size_add(&row->bytes, bytes);
	__sync_fetch_and_add(&row->total_ns, duration_ns);
	return 0;
}

#endif
