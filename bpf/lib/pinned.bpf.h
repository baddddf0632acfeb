/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Pinned host memory of a process: returned by cudaHostAlloc, or passed to cudaHostRegister. A copy may begin anywhere inside, so
 * ranges are stored, as blocks of a trie that finds the block of an address.
 * Map written: pinned, pruned by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_PINNED_BPF_H
#define GPUSTALL_PINNED_BPF_H

#include "maps.bpf.h"
#include "process.bpf.h"
#include "../abi/allocation.h"
#include "../abi/copies.h"

#define PINNED_MAX_BLOCKS 64 /* of one range: twice the bits of a page number would be enough */
#define PINNED_KEY_BITS 96

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pinned_key);
	__type(value, u32);
} pinned SEC(".maps");

static __always_inline struct pinned_key pinned_key(u32 process, u64 address, u32 free_bits)
{
	return (struct pinned_key){
		.prefix_bits = PINNED_KEY_BITS - free_bits,
		.process = __builtin_bswap32(process),
		.address = __builtin_bswap64(address),
	};
}

/* log2 of the largest aligned block that begins at an address and is not longer than `bytes`, which is not 0. */
__noinline u32 pinned_block_bits(u64 address, u64 bytes)
{
	u32 bits = 0;

#pragma unroll
	for (int step = 32; step; step >>= 1) {
		u64 mask = (1ULL << (bits + step)) - 1;

		if (!(address & mask) && bytes > mask)
			bits += step;
	}
	return bits;
}

#define BLOCK_DONE 64 /* a flag above the bits of a block, which are fewer than 64 */

/* Not create_row(): a look-up in a trie also finds larger blocks. */
static __always_inline bool pinned_insert(struct pinned_key *key, u32 process)
{
	u32 one = 1;
	long failed = -ENOSPC;

	if (share_take(process, SHARE_PINNED) == SHARE_GRANTED) {
		failed = bpf_map_update_elem(&pinned, key, &one, BPF_NOEXIST);
		if (!failed)
			return true;
		share_book(process, SHARE_PINNED, -1);
	}
	if (failed != -EEXIST) /* a range that was released by a function that is not probed */
		drop(DROP_PINNED_FULL);
	return false;
}

/* Inserts or deletes the first block of a range. Returns its bits, with BLOCK_DONE if that succeeded. */
__noinline u32 pinned_first_block(u32 process, u64 address, u64 bytes, u32 is_new)
{
	u32 bits = pinned_block_bits(address, bytes);
	struct pinned_key key = pinned_key(process, address, bits);
	bool is_done = is_new ? pinned_insert(&key, process) : delete_row(&pinned, &key, process, SHARE_PINNED);

	return is_done ? bits | BLOCK_DONE : bits;
}

/* Inserts or deletes a range. Returns the number of blocks for which that succeeded. No branch in the loop: kernel 6.1 would follow every path. */
__noinline u32 pinned_each_block(u32 process, u64 address, u64 bytes, u32 is_new)
{
	u32 blocks = 0;

	for (int i = 0; i < PINNED_MAX_BLOCKS; i++) {
		if (!bytes)
			return blocks;
		u32 first = pinned_first_block(process, address, bytes, is_new);
		u64 length = 1ULL << (first & (BLOCK_DONE - 1));

		blocks += first / BLOCK_DONE;
		address += length;
		bytes -= length;
	}
	if (bytes && is_new)
		drop(DROP_PINNED_FULL);
	return blocks;
}

static __always_inline enum host_memory memory_at(u32 process, const struct process_row *row, u64 address)
{
	struct pinned_key key = pinned_key(process, address, 0);
	u32 zero = 0;

	if (bpf_map_lookup_elem(&pinned, &key))
		return MEMORY_PINNED;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	return own && row->start_ns < own->loaded_ns ? MEMORY_UNKNOWN : MEMORY_PAGEABLE;
}

#endif
