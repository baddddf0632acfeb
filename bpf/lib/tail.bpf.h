/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the slowest calls waited for, by the power of two of their length: no event is needed to know.
 */
#ifndef GPUSTALL_TAIL_BPF_H
#define GPUSTALL_TAIL_BPF_H

#include "interval.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tail_key);
	__type(value, struct tail_row);
} tail SEC(".maps");

static const struct tail_row empty_tail;

static __always_inline void add_tail(const struct operation_key *operation, u64 duration_ns, struct states *states)
{
	struct tail_key key = {.process = operation->process, .operation = operation->operation};
	u64 rest = duration_ns >> (TAIL_FIRST_OCTAVE + 1);

	while (rest && key.octave < TAIL_OCTAVES - 1) {
		rest >>= 1;
		key.octave++;
	}
	struct tail_row *row = bpf_map_lookup_elem(&tail, &key);

	if (!row) {
		bpf_map_update_elem(&tail, &key, &empty_tail, BPF_NOEXIST);
		row = bpf_map_lookup_elem(&tail, &key);
	}
	if (!row) {
		lose(LOSS_TAIL_FULL);
		return;
	}
	__sync_fetch_and_add(&row->calls, 1);
	add_states(row->states_ns, states);
}

#endif
