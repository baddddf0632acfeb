/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Timed kernel launches by size. Read by exporter/kernel/gpu_rows.py. */
#ifndef GPUSTALL_ABI_GEOMETRY_H
#define GPUSTALL_ABI_GEOMETRY_H

#include <linux/types.h>

enum geometry_limits {
	GRID_CLASSES = 6,  /* blocks in the grid: at most 1, 8, 64, 512, 4096, or more */
	BLOCK_CLASSES = 6, /* threads in a block: at most 32, 64, 128, 256, 512, or more */
	GEOMETRIES = GRID_CLASSES * BLOCK_CLASSES,
};

/* An array with the places of `feeding`. */
struct geometry_row {
	__u32 process;
	__u32 padding;
	__u64 launches[GEOMETRIES]; /* grid class * BLOCK_CLASSES + block class */
};

#endif
