/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * NCCL communicators of tracked processes: address -> hash of the unique id, rank, number of ranks, and a small ordinal that serves as
 * label. A communicator whose creation was not traced gets an ordinal at its first collective; its rank and hash are unknown.
 * Map written: communicators, read by exporter/kernel/process_rows.py.
 */
#ifndef GPUSTALL_COMMUNICATOR_BPF_H
#define GPUSTALL_COMMUNICATOR_BPF_H

#include "process.bpf.h"
#include "../abi/communicator.h"

#define SHRINK_EXCLUDED 64 /* excluded ranks that are read; with more of them the new rank is unknown */
#define NCCL_UNIQUE_ID_BYTES 128

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct communicator_key);
	__type(value, struct communicator_row);
} communicators SEC(".maps");

/* The finaliser of splitmix64: every input bit changes about half of the output bits. */
static __always_inline u64 mix(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

/* All 128 bytes of an ncclUniqueId folded into 64 bits; 0 if they cannot be read. */
static __always_inline u64 unique_id_hash(u64 address)
{
	u64 words[NCCL_UNIQUE_ID_BYTES / 8], hash = 0;

	if (!address)
		return 0;
	if (bpf_probe_read_user(words, sizeof(words), (void *)address)) {
		drop(DROP_READ_FAULT);
		return 0;
	}
	for (int i = 0; i < NCCL_UNIQUE_ID_BYTES / 8; i++)
		hash = mix(hash + words[i] + i + 1);
	return hash;
}

static __always_inline struct communicator_row *known_communicator(u32 process, u64 address)
{
	struct communicator_key key = {.process = process, .address = address};

	return bpf_map_lookup_elem(&communicators, &key);
}

/* Made of the parent's hash, the colour and the number of earlier splits, so it is the same on every rank. */
static __always_inline u64 child_hash(struct communicator_row *parent, u64 colour)
{
	if (!parent || !parent->hash)
		return 0;
	u32 earlier = __sync_fetch_and_add(&parent->splits, 1);

	return mix(parent->hash + mix(colour + 1) + earlier);
}

/* Each excluded rank below this rank lowers it by one. */
static __always_inline s32 rank_after_shrink(s32 rank, u64 excluded, u32 excluded_ranks)
{
	s32 below = 0;

	if (rank < 0 || excluded_ranks > SHRINK_EXCLUDED)
		return RANK_UNKNOWN;
	for (u32 i = 0; i < SHRINK_EXCLUDED; i++) {
		s32 other;

		if (i >= excluded_ranks)
			break;
		if (bpf_probe_read_user(&other, sizeof(other), (void *)(excluded + 4 * i)))
			return RANK_UNKNOWN;
		below += other < rank;
	}
	return rank - below;
}

static __always_inline struct communicator_row *add_communicator(u32 process, u64 address, u64 hash, s32 rank, u32 ranks)
{
	struct process_row *of_process = bpf_map_lookup_elem(&processes, &process);

	if (!of_process)
		return NULL;
	u32 ordinal = __sync_fetch_and_add(&of_process->communicators, 1) + 1;
	struct communicator_key key = {.process = process, .address = address};
	struct communicator_row row = {
		.hash = hash,
		.created_ns = bpf_ktime_get_ns(),
		.rank = rank,
		.ranks = ranks,
		.ordinal = ordinal <= COMMUNICATOR_ORDINALS ? ordinal : COMMUNICATOR_OTHER,
	};

	if (bpf_map_update_elem(&communicators, &key, &row, BPF_ANY)) {
		drop(DROP_COMMUNICATORS_FULL);
		return NULL;
	}
	return bpf_map_lookup_elem(&communicators, &key);
}

/* The library has stored the address of a new communicator at `where`. */
static __always_inline void communicator_created(u32 process, u64 where, u64 hash, s32 rank, u32 ranks)
{
	u64 address = 0;

	if (bpf_probe_read_user(&address, sizeof(address), (void *)where)) {
		drop(DROP_READ_FAULT);
		return;
	}
	if (address) /* NULL: this rank is not a member (NCCL_SPLIT_NOCOLOR) */
		add_communicator(process, address, hash, rank, ranks);
}

static __always_inline u16 communicator_ordinal(u32 process, u64 address)
{
	struct communicator_row *row = known_communicator(process, address);

	if (!row)
		row = add_communicator(process, address, 0, RANK_UNKNOWN, 0);
	return row ? row->ordinal : COMMUNICATOR_OTHER;
}

static __always_inline void communicator_forget(u32 process, u64 address)
{
	struct communicator_key key = {.process = process, .address = address};

	bpf_map_delete_elem(&communicators, &key);
}

#endif
