/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * NCCL communicators of tracked processes: address -> hash of the unique id, rank, number of ranks, and a small ordinal that serves as
 * label. A communicator whose creation was not traced gets an ordinal at its first collective; its rank and hash are unknown.
 * Map written: communicators, read by exporter/kernel/process_rows.py.
 */
#ifndef GPUSTALL_COMMUNICATOR_BPF_H
#define GPUSTALL_COMMUNICATOR_BPF_H

#include "digest.bpf.h"
#include "maps.bpf.h"
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

/* All 128 bytes of an ncclUniqueId folded into 64 bits; 0 if they cannot be read. */
__noinline u64 communicator_id_hash(u64 address)
{
	struct digest_message id;

	_Static_assert(sizeof(id) == NCCL_UNIQUE_ID_BYTES, "an ncclUniqueId");
	if (!address)
		return 0;
	if (bpf_probe_read_user(&id, sizeof(id), (void *)address)) {
		drop(DROP_READ_FAULT);
		return 0;
	}
	return digest_of(&id);
}

/* Of the communicators that one process makes for itself. */
__noinline u64 communicator_private_hash(u32 process)
{
	struct digest_message own = {.words = {bpf_ktime_get_ns(), process, bpf_get_prandom_u32()}};

	return digest_of(&own);
}

static __always_inline struct communicator_row *known_communicator(u32 process, u64 address)
{
	struct communicator_key key = {.process = process, .address = address};

	return bpf_map_lookup_elem(&communicators, &key);
}

__noinline u64 communicator_child_hash(u64 parent, u64 colour, u32 earlier)
{
	struct digest_message child = {.words = {parent, colour, earlier}};

	return digest_of(&child);
}

/* Made of the parent's hash, the colour and the number of earlier splits, so it is the same on every rank. */
static __always_inline u64 child_hash(struct communicator_row *parent, u64 colour)
{
	if (!parent || !parent->hash)
		return 0;
	return communicator_child_hash(parent->hash, colour, __sync_fetch_and_add(&parent->splits, 1));
}

/* Each excluded rank below this rank lowers it by one. Not inlined: verified once, and not with every path that leads to it. */
__noinline s32 communicator_rank_after_shrink(s32 rank, u64 excluded, u32 excluded_ranks)
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

	if (bpf_map_update_elem(&communicators, &key, &row, BPF_EXIST))
		create_row(&communicators, &key, &row, process, SHARE_COMMUNICATORS, DROP_COMMUNICATORS_FULL);
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

	delete_row(&communicators, &key, process, SHARE_COMMUNICATORS);
}

#endif
