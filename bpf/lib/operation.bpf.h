/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One operation of a process: its calls, their durations as a histogram, a recent slow call, and errors by code.
 * Maps written: operations, errors, read by exporter/kernel/operation_rows.py; last_errors, read by exporter/kernel/end_rows.py.
 */
#ifndef GPUSTALL_OPERATION_BPF_H
#define GPUSTALL_OPERATION_BPF_H

#include "hist.bpf.h"
#include "maps.bpf.h"
#include "process.bpf.h"
#include "../abi/exit.h"
#include "../abi/operation.h"

#define EXEMPLAR_WINDOW 33 /* 2^33 ns = 8.6 s */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct operation_key);
	__type(value, struct operation_row);
} operations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct error_key);
	__type(value, u64);
} errors SEC(".maps");

#define FEW_CALLS 32
#define FEW_SLOW_NS 10000000ULL /* slow, as long as there have been few calls to compare with */
#define SLOW_RISE 16 /* the bound rises by this part in a window of calls at most, so that it doubles in 98 s */
#define SLOW_NS 200000ULL	/* at the least: so much that reading the frames is a twentieth of it */

static const struct operation_row empty_row = {.slow_ns = FEW_SLOW_NS};

static __always_inline struct operation_row *operation_row(struct operation_key *key)
{
	return own_row(&operations, key, &empty_row, key->process, SHARE_OPERATIONS, DROP_OPERATIONS_FULL);
}

static __always_inline void operation_add_duration(struct operation_row *row, u64 duration_ns)
{
	u32 slot = hist_slot(duration_units(duration_ns));

	if (slot < HIST_SLOTS) /* always true; for the verifier */
		__sync_fetch_and_add(&row->slots[slot], 1);
	__sync_fetch_and_add(&row->total_ns, duration_ns); /* last: a reader skips the slots if this sum has not changed */
}

static __noinline void operation_set_exemplar(struct exemplar *exemplar, u64 duration_ns, u64 ended_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 version = exemplar->closing;

	if (version & 1 || !__sync_bool_compare_and_swap(&exemplar->closing, version, version + 1))
		return; /* another CPU is writing */
	exemplar->tid = visible_tid(task);
	exemplar->tgid = visible_tid(BPF_CORE_READ(task, group_leader));
	exemplar->duration_ns = duration_ns;
	exemplar->ended_ns = ended_ns;
	/* Atomic, and so in this order on every CPU: the contents, then `opening` (complete), then `closing` (free to write). */
	__sync_lock_test_and_set(&exemplar->opening, version + 2);
	__sync_lock_test_and_set(&exemplar->closing, version + 2);
}

/* Of n calls in random order, about ln(n) are the slowest of their window so far. Returns whether a window begins. */
static __always_inline bool operation_offer_exemplar(struct exemplar *exemplar, u64 duration_ns, u64 ended_ns)
{
	bool is_first = (exemplar->ended_ns ^ ended_ns) >> EXEMPLAR_WINDOW;

	if (duration_ns > exemplar->duration_ns || is_first)
		operation_set_exemplar(exemplar, duration_ns, ended_ns);
	return is_first;
}

/* The context of the loops below. */
struct slow_search {
	struct operation_row *row;
	u64 calls, above;
	u32 slot; /* the highest that a tenth of the calls reach */
};

static long count_slot(u32 slot, struct slow_search *search)
{
	if (slot < HIST_SLOTS) /* always true; for the verifier */
		search->calls += search->row->slots[slot];
	return 0;
}

static long find_slow_slot(u32 below_highest, struct slow_search *search)
{
	u32 slot = HIST_SLOTS - 1 - below_highest;

	if (slot >= HIST_SLOTS) /* never; for the verifier */
		return 1;
	search->above += search->row->slots[slot];
	search->slot = slot;
	return 10 * search->above > search->calls;
}

/*
 * Calls are slow that take twice as long as nine of ten have taken so far. Calls that became slow stay so for minutes: the bound that
 * was found first falls at once, and rises slowly.
 */
static __noinline __attribute__((unused)) void operation_set_slow(struct operation_row *row)
{
	struct slow_search search = {.row = row};

	if (!HAS_BPF_LOOP)
		return;
	bpf_loop(HIST_SLOTS, count_slot, &search, 0);
	if (search.calls < FEW_CALLS)
		return;
	bpf_loop(HIST_SLOTS, find_slow_slot, &search, 0);
	u32 part = (search.slot - 1) & 7, octave = (search.slot - 1) >> 3;
	u64 end_ns = search.slot ? (9ULL + part) << (octave & 63) >> 3 : 1; /* of the slot, and at most 4 % more */

	u64 slow_ns = 2 * end_ns > SLOW_NS ? 2 * end_ns : SLOW_NS;
	u64 highest_ns = row->slow_ns + row->slow_ns / SLOW_RISE;

	row->slow_ns = slow_ns > highest_ns && row->slow_ns != FEW_SLOW_NS ? highest_ns : slow_ns;
}

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* one for each process, so that the share of processes holds for them as well */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct last_error);
} last_errors SEC(".maps");

static __noinline __attribute__((unused)) void operation_add_error(u32 process, u16 operation, s32 code)
{
	struct error_key key = {.process = process, .operation = operation, .code = code};
	struct last_error last = {.at_ns = bpf_ktime_get_ns(), .code = code, .operation = operation};
	u64 zero = 0, *count = own_row(&errors, &key, &zero, process, SHARE_ERRORS, DROP_ERRORS_FULL);

	bpf_map_update_elem(&last_errors, &key.process, &last, BPF_ANY);
	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
