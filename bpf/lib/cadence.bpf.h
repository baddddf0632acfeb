/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The last beats of a process: collectives and copies to the GPU, which a training step makes in the same order every time.
 * User space finds the period, and so the step (exporter/accounting/cadence.py), without help from the job.
 * Map written: cadence, read by exporter/kernel/cadence_rows.py.
 */
#ifndef GPUSTALL_CADENCE_BPF_H
#define GPUSTALL_CADENCE_BPF_H

#include "maps.bpf.h"
#include "../abi/cadence.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct cadence_row);
} cadence SEC(".maps");

static const struct cadence_row empty_cadence;

/* Equal for beats of the same operation and size on the same communicator. The low 16 bits are without the size. */
static __always_inline u64 beat_signature(u64 cookie, u64 bytes, u32 communicator)
{
	u64 kind = (u16)(cookie ^ communicator << 10);
	u64 x = (bytes << 16 ^ kind) * 0x9e3779b97f4a7c15ULL;

	return (x ^ x >> 29) << 16 | kind;
}

__noinline int cadence_add(u32 process, u64 signature, u64 at_ns)
{
	struct cadence_row *row = lookup_or_create(&cadence, &process, &empty_cadence, DROP_CADENCE_FULL);

	if (!row)
		return 0;
	struct beat *beat = &row->last[__sync_fetch_and_add(&row->beats, 1) & (BEATS - 1)];

	beat->at_ns = at_ns;
	beat->signature = signature;
	return 0;
}

#endif
