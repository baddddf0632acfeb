/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Size of the kernels that a process launches: blocks in the grid, threads in a block.
 * Map written: geometries, read by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_GEOMETRY_BPF_H
#define GPUSTALL_GEOMETRY_BPF_H

#include "kernel.bpf.h"
#include "registers.bpf.h"
#include "thread.bpf.h"
#include "../abi/feeding.h"
#include "../abi/geometry.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct geometry_row);
} geometries SEC(".maps");

/* The common beginning of cudaLaunchConfig_t and CUlaunchConfig. */
struct launch_config {
	u32 grid[3];
	u32 block[3];
	u64 shared_bytes; /* 32 bits and padding in the driver's struct */
	u64 stream;
};

struct launch_size {
	u64 blocks;
	u64 threads; /* in each block */
};

/* Grid and block of the launch just entered: of the runtime, of the driver, or in a struct. False if memory cannot be read. */
static __always_inline bool launch_size(struct pt_regs *regs, u64 cookie, struct launch_size *size)
{
	u32 at = COOKIE_FIELD(cookie, COOKIE_A, 4), shape = call_shape(cookie);
	u64 first = 0, sizes[5] = {};

	if (!read_argument(regs, at, &first))
		return false;
	if (shape == SHAPE_LAUNCH_CONFIG) {
		struct launch_config config;

		if (bpf_probe_read_user(&config, sizeof(config), (void *)first))
			return false;
		size->blocks = (u64)config.grid[0] * config.grid[1] * config.grid[2];
		size->threads = (u64)config.block[0] * config.block[1] * config.block[2];
		return true;
	}
	for (int i = 0; i < (shape == SHAPE_LAUNCH ? 3 : 5); i++)
		if (!read_argument(regs, at + 1 + i, &sizes[i]))
			return false;
	if (shape == SHAPE_LAUNCH) { /* x and y share a register */
		size->blocks = (u64)(u32)first * (first >> 32) * (u32)sizes[0];
		size->threads = (u64)(u32)sizes[1] * (sizes[1] >> 32) * (u32)sizes[2];
	} else {
		size->blocks = (u64)(u32)first * (u32)sizes[0] * (u32)sizes[1];
		size->threads = (u64)(u32)sizes[2] * (u32)sizes[3] * (u32)sizes[4];
	}
	return true;
}

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
		if (!place_is_held(process))
			return;
		row->process = process;
	}
	u32 at = grid_class(blocks) * BLOCK_CLASSES + block_class(threads);

	if (at < GEOMETRIES) /* always true; for the verifier */
		__sync_fetch_and_add(&row->launches[at], 1);
}

#endif
