/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Where one call or gap ends and the next begins. The time of gaps is kept in the thread and goes to the map `intervals` when the
 * thread ends, so an ordinary call needs no hash look-up for it.
 * Map written: intervals, read by exporter/kernel/thread_rows.py.
 */
#ifndef GPUSTALL_INTERVAL_BPF_H
#define GPUSTALL_INTERVAL_BPF_H

#include "account.bpf.h"
#include "maps.bpf.h"
#include "../abi/interval.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct interval_key);
	__type(value, struct interval_row);
} intervals SEC(".maps");

static const struct interval_row empty_interval;

static __noinline struct interval_row *interval_row(u32 process, enum interval_kind kind)
{
	struct interval_key key = {.process = process, .kind = kind};

	return own_row(&intervals, &key, &empty_interval, process, SHARE_INTERVALS, DROP_INTERVALS_FULL);
}

__noinline int interval_add_states(struct states *to, struct states *states)
{
	if (!to || !states)
		return 0;
	EACH_STATE(i)
		if (states->ns[i])
			__sync_fetch_and_add(&to->ns[i], states->ns[i]);
	return 0;
}

/* to_ns: the THREAD_STATES sums of a row. */
static __always_inline void add_states(u64 *to_ns, struct states *states)
{
	interval_add_states((struct states *)to_ns, states);
}

/* Ends the open call or gap at `now_ns` and begins the next. states: receives the time of the ended one. */
__noinline int interval_settle(struct thread *thread, u64 now_ns, struct states *states)
{
	if (!thread || !states)
		return 0;
	thread->mark_version = thread->account.version; /* read before the account, which may change at any time */
	barrier();
	account_read(&thread->account, now_ns, states);
	EACH_STATE(i)
	{
		u64 total_ns = states->ns[i];

		states->ns[i] -= thread->mark_total_ns[i];
		thread->mark_total_ns[i] = total_ns;
	}
	thread->mark_ns = now_ns;
	return 0;
}

/*
 * The same for a thread whose state has not changed since mark_ns, as in most calls: all the time went to one state. False if it has
 * changed: then interval_settle() has to do it.
 */
static __always_inline bool interval_settle_unswitched(struct thread *thread, u64 now_ns, u32 *state, u64 *ns)
{
	if (thread->mark_version != thread->account.version)
		return false;
	*state = state_index(thread->account.state);
	*ns = elapsed_ns(thread->mark_ns, now_ns);
	thread->mark_total_ns[*state] += *ns;
	thread->mark_ns = now_ns;
	return true;
}

/* Moves the idle part of an open gap to thread->idle_ns. Before interval_settle(), which moves the mark. */
__noinline int interval_split_idle(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;

	/* Nothing was booked since the gap became idle: the thread has been running ever since. */
	if (account->idle_of_ns != thread->mark_ns)
		account_begin_idle(thread);
	struct states total = {};

	account_read(account, now_ns, &total);
	EACH_STATE(i)
	{
		u64 idle_ns = total.ns[i] - account->idle_total_ns[i];

		thread->idle_ns[i] += idle_ns;
		thread->mark_total_ns[i] += idle_ns; /* so that interval_settle() gets the rest */
	}
	return 0;
}

__noinline int interval_end_switched_gap(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct states states = {};

	if (thread->idle_at_ns && now_ns >= thread->idle_at_ns)
		interval_split_idle(thread, now_ns);
	interval_settle(thread, now_ns, &states);
	EACH_STATE(i)
		thread->gaps_ns[i] += states.ns[i];
	thread->idle_at_ns = 0;
	return 0;
}

/* The first call after a gap begins. */
static __always_inline void interval_end_gap(struct thread *thread, u64 now_ns)
{
	u32 state;
	u64 ns;

	if (thread->idle_at_ns <= now_ns || !interval_settle_unswitched(thread, now_ns, &state, &ns)) {
		interval_end_switched_gap(thread, now_ns);
		return;
	}
	thread->gaps_ns[state] += ns;
	thread->idle_at_ns = 0;
}

/* A call never returned: its time belongs to no call. */
__noinline int interval_end_abandoned(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct states states = {};
	struct interval_row *row = interval_row(thread->process, INTERVAL_ABANDONED);

	interval_settle(thread, now_ns, &states);
	if (row)
		add_states(row->states_ns, &states);
	return 0;
}

/* A thread of the job that made no call ends. */
static __noinline struct interval_row *interval_end_worker(struct thread *thread, u64 now_ns)
{
	struct states states = {};
	struct interval_row *row = interval_row(thread->group, INTERVAL_WORKER);

	interval_settle(thread, now_ns, &states);
	if (row)
		add_states(row->states_ns, &states);
	return row;
}

/* The thread ends: its sums go to the map. */
__noinline int interval_end_thread(struct thread *thread, u64 now_ns)
{
	if (!thread || !thread->is_tracked)
		return 0;
	struct interval_row *row;

	thread->is_tracked = false; /* before the sums are read: an interrupt from now on is charged to no culprit, and is in no sum */
	if (!thread->process) {
		row = interval_end_worker(thread, now_ns);
	} else {
		if (thread->depth) {
			interval_end_abandoned(thread, now_ns);
			EACH_CALL(i)
				if (i < thread->depth)
					thread->calls[i].stack_pointer = 0;
		} else {
			thread->ended_ns[0] = thread->mark_ns;
			interval_end_gap(thread, now_ns);
		}
		thread->depth = 0;
		row = interval_row(thread->process, INTERVAL_IDLE);
		if (row)
			add_states(row->states_ns, (struct states *)thread->idle_ns);
		row = interval_row(thread->process, thread->is_step ? INTERVAL_GAP : INTERVAL_OTHER_GAP);
		if (row)
			add_states(row->states_ns, (struct states *)thread->gaps_ns);
	}
	if (row) {
		__sync_fetch_and_add(&row->voluntary, thread->account.voluntary);
		__sync_fetch_and_add(&row->involuntary, thread->account.involuntary);
	}
	return 0;
}

#endif
