/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The last beats of a process: collectives and copies to the device, which a training step makes in the same order every
 * time. User space finds the period and so the step (exporter/accounting/cadence.py); nothing of it needs to be told by the job.
 */
#ifndef GPUSTALL_CADENCE_BPF_H
#define GPUSTALL_CADENCE_BPF_H

#include "process.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct cadence_row);
} cadence SEC(".maps");

static const struct cadence_row empty_cadence;

/* What makes two beats alike: the operation, how much it moves, and on which communicator. */
static __always_inline u64 beat_signature(u64 cookie, u64 bytes, u32 communicator)
{
	u64 x = (bytes << 16 ^ (u64)communicator << 8 ^ (u16)cookie) * 0x9e3779b97f4a7c15ULL;

	return x ^ x >> 29;
}

__noinline int add_beat(u32 process, u64 signature, u64 at_ns)
{
	struct cadence_row *row = bpf_map_lookup_elem(&cadence, &process);

	if (!row) {
		bpf_map_update_elem(&cadence, &process, &empty_cadence, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&cadence, &process);
	}
	if (!row) {
		lose(LOSS_CADENCE_FULL);
		return 0;
	}
	struct beat *beat = &row->last[__sync_fetch_and_add(&row->beats, 1) & (BEATS - 1)];

	beat->at_ns = at_ns;
	beat->signature = signature;
	return 0;
}

#endif
