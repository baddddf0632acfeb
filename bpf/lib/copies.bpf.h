/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Copies between host and GPU, by direction and by the kind of the host's memory.
 * Maps written: copies. Reader: exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_COPIES_BPF_H
#define GPUSTALL_COPIES_BPF_H

#include "pinned.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct copy_key);
	__type(value, struct copy_row);
} copies SEC(".maps");

static const struct copy_row empty_copy_row;

__noinline int add_copy(struct copy_key *of, u64 bytes, u64 duration_ns)
{
	if (!of)
		return 0;
	/* A key by an argument of a global function is refused by 6.1, which wants it on the stack. */
	struct copy_key key = *of;
	struct copy_row *row = bpf_map_lookup_elem(&copies, &key);

	if (!row) {
		bpf_map_update_elem(&copies, &key, &empty_copy_row, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&copies, &key);
	}
	if (!row) {
		lose(LOSS_COPIES_FULL);
		return 0;
	}
	__sync_fetch_and_add(&row->copies, 1);
	__sync_fetch_and_add(&row->bytes, bytes);
	__sync_fetch_and_add(&row->total_ns, duration_ns);
	return 0;
}

#endif
