/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Copies between host and GPU that succeeded. Read by exporter/kernel/gpu_rows.py. */
#ifndef GPUSTALL_ABI_COPIES_H
#define GPUSTALL_ABI_COPIES_H

#include <linux/types.h>

enum host_memory {
	MEMORY_PAGEABLE = 0,
	MEMORY_PINNED = 1,
	MEMORY_UNKNOWN = 2, /* the process started before the programs were loaded, and may have pinned it earlier */
};

/*
 * is_blocking: the call returns when the host's memory has been read or written. True for synchronous copies and for all copies of
 * pageable memory, which the driver copies in pieces itself.
 */
struct copy_key {
	__u32 process;
	__u8 direction; /* enum copy */
	__u8 memory;	/* enum host_memory */
	__u8 is_blocking;
	__u8 padding;
};

struct copy_row {
	__u64 copies;
	__u64 bytes;
	__u64 total_ns; /* duration of the calls */
};

#endif
