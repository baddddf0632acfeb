/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What is kept of an operation of a process: calls, their time as a histogram, the slowest of late, errors by code.
 * Maps written: operations, errors. Reader: exporter/kernel/rows.py.
 */
#ifndef GPUSTALL_OPERATION_BPF_H
#define GPUSTALL_OPERATION_BPF_H

#include "hist.bpf.h"
#include "process.bpf.h"

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

static __noinline void add_operation(struct operation_key *key)
{
	bpf_map_update_elem(&operations, key, &empty_row, BPF_NOEXIST);
}

/* The row of (process, operation, communicator), made if missing; NULL when the table is full (counted). */
static __always_inline struct operation_row *operation_row(struct operation_key *key)
{
	struct operation_row *row = bpf_map_lookup_elem(&operations, key);

	if (row)
		return row;
	add_operation(key);
	row = bpf_map_lookup_elem(&operations, key);
	if (!row)
		lose(LOSS_OPERATIONS_FULL);
	return row;
}

static __always_inline void add_duration(struct operation_row *row, u64 duration_ns)
{
	u32 slot = hist_slot(duration_units(duration_ns));

	if (slot < HIST_SLOTS) /* always; the verifier cannot know */
		__sync_fetch_and_add(&row->slots[slot], 1);
	__sync_fetch_and_add(&row->total_ns, duration_ns); /* last: a reader that finds it unmoved skips the slots */
}

static __noinline void set_exemplar(struct exemplar *exemplar, u64 duration_ns, u64 ended_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 version = exemplar->closing;

	if (version & 1 || !__sync_bool_compare_and_swap(&exemplar->closing, version, version + 1))
		return; /* another CPU is writing */
	exemplar->tid = visible_tid(task);
	exemplar->tgid = visible_tid(BPF_CORE_READ(task, group_leader));
	exemplar->duration_ns = duration_ns;
	exemplar->ended_ns = ended_ns;
	/* Atomic, and so in this order on every CPU: what was written, then that it is whole, then that it may be written again. */
	__sync_lock_test_and_set(&exemplar->opening, version + 2);
	__sync_lock_test_and_set(&exemplar->closing, version + 2);
}

/* Few calls are the slowest of their window so far: of n calls in random order about ln(n). */
static __always_inline void offer_exemplar(struct exemplar *exemplar, u64 duration_ns, u64 ended_ns)
{
	if (duration_ns > exemplar->duration_ns || (exemplar->ended_ns ^ ended_ns) >> EXEMPLAR_WINDOW)
		set_exemplar(exemplar, duration_ns, ended_ns);
}

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u32); /* process number */
	__type(value, struct last_error);
} last_errors SEC(".maps");

static __noinline void add_error(struct operation_key *operation, s32 code)
{
	struct error_key key = {.process = operation->process, .operation = operation->operation, .code = code};
	struct last_error last = {.at_ns = bpf_ktime_get_ns(), .code = code, .operation = operation->operation};
	u64 *count = bpf_map_lookup_elem(&errors, &key), one = 1;

	bpf_map_update_elem(&last_errors, &key.process, &last, BPF_ANY);
	if (!count) {
		if (!bpf_map_update_elem(&errors, &key, &one, BPF_NOEXIST))
			return;
		count = bpf_map_lookup_elem(&errors, &key);
		if (!count) {
			lose(LOSS_ERRORS_FULL);
			return;
		}
	}
	__sync_fetch_and_add(count, 1);
}

#endif
