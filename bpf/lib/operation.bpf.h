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

static const struct operation_row empty_row;

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

/* Of n calls in random order, about ln(n) are the slowest of their window so far. */
static __always_inline void operation_offer_exemplar(struct exemplar *exemplar, u64 duration_ns, u64 ended_ns)
{
	if (duration_ns > exemplar->duration_ns || (exemplar->ended_ns ^ ended_ns) >> EXEMPLAR_WINDOW)
		operation_set_exemplar(exemplar, duration_ns, ended_ns);
}

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); /* process number */
	__type(value, struct last_error);
} last_errors SEC(".maps");

static __noinline void operation_add_error(u32 process, u16 operation, s32 code)
{
	struct error_key key = {.process = process, .operation = operation, .code = code};
	struct last_error last = {.at_ns = bpf_ktime_get_ns(), .code = code, .operation = operation};
	u64 zero = 0, *count = own_row(&errors, &key, &zero, process, SHARE_ERRORS, DROP_ERRORS_FULL);

	bpf_map_update_elem(&last_errors, &key.process, &last, BPF_ANY);
	if (count)
		__sync_fetch_and_add(count, 1);
}

#endif
