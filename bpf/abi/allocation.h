/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Live allocations of the GPU's memory and of pinned host memory. Pruned by exporter/kernel/tables.py. */
#ifndef GPUSTALL_ABI_ALLOCATION_H
#define GPUSTALL_ABI_ALLOCATION_H

#include <linux/types.h>

struct allocation_key {
	__u32 process;
	__u32 is_handle;
	__u64 address;
};

enum allocation_kind {
	ALLOCATION_DEVICE = 0,
	ALLOCATION_MANAGED = 1,
	ALLOCATION_PINNED = 2, /* host memory */
};

struct allocation {
	__u64 bytes;
	__u32 kind; /* enum allocation_kind */
	__u32 padding;
};

/*
 * Pinned host memory as aligned blocks of 2^n bytes, in a trie of address prefixes: every address of a block begins with its prefix.
 * Both numbers are big-endian, as the trie compares.
 */
struct pinned_key {
	__u32 prefix_bits; /* of process and address together */
	__u32 process;
	__u64 address;
};

#endif
