/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Size of the kernels that a process launches: blocks in the grid, threads in a block.
 * Map written: geometries, read by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_GEOMETRY_BPF_H
#define GPUSTALL_GEOMETRY_BPF_H

#include "kernel.bpf.h"
#include "../abi/feeding.h"
#include "../abi/geometry.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct geometry_row);
} geometries SEC(".maps");

static __always_inline u32 grid_class(u64 blocks)
{
	return blocks <= 1 ? 0 : blocks <= 8 ? 1 : blocks <= 64 ? 2 : blocks <= 512 ? 3 : blocks <= 4096 ? 4 : 5;
}

static __always_inline u32 block_class(u64 threads)
{
	return threads <= 32 ? 0 : threads <= 64 ? 1 : threads <= 128 ? 2 : threads <= 256 ? 3 : threads <= 512 ? 4 : 5;
}

/* A process that has no place here has none in `feeding` either, where that is counted. */
static __always_inline void geometry_add(u32 process, u64 blocks, u64 threads)
{
	u32 place = process & (FEEDING_PLACES - 1);
	struct geometry_row *row = bpf_map_lookup_elem(&geometries, &place);

	if (!row)
		return;
	if (row->process != process) {
		u32 holder = __sync_val_compare_and_swap(&row->process, 0, process);

		if (holder && holder != process)
			return;
	}
	u32 at = grid_class(blocks) * BLOCK_CLASSES + block_class(threads);

	if (at < GEOMETRIES) /* always true; for the verifier */
		__sync_fetch_and_add(&row->launches[at], 1);
}

#endif
