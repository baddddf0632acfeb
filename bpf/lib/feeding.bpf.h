/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The feeding timeline of a process (struct feeding_row): is at least one of its step threads on a CPU or waiting for the GPU? The
 * scheduler programs keep it; the programs on calls note when the GPU runs dry and how long a wait for it took.
 * Map written: feeding, read by exporter/kernel/thread_rows.py and gpu_rows.py.
 */
#ifndef GPUSTALL_FEEDING_BPF_H
#define GPUSTALL_FEEDING_BPF_H

#include "account.bpf.h"
#include "../abi/feeding.h"

/* The row of a process; NULL if it holds no place. */
static __always_inline struct feeding_row *feeding_row(u32 process)
{
	struct feeding_row *row = place_row(process);

	if (!row || !process)
		return NULL;
	if (row->process != process) {
		drop(DROP_GROUPS_FULL);
		return NULL;
	}
	return row;
}

static __always_inline void feeding_add_late(struct feeding_row *row, u32 state, u64 ns)
{
	__sync_fetch_and_add(&row->late_ns[state_index(state)], ns);
	__sync_fetch_and_add(&row->cycle_late_ns, ns);
}

static __always_inline void feeding_add_stall(struct feeding_row *row, u32 state, u64 ns)
{
	if (!ns)
		return;
	if (row->is_dry) {
		__sync_fetch_and_add(&row->dry_ns[state_index(state)], ns);
	} else {
		feeding_add_late(row, state, ns);
	}
}

/* A step thread stops feeding; if it was the last one, the process is stalled from now on. */
__noinline int feeding_stop(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct feeding_row *row = feeding_row(thread->process);

	if (!row || (account->is_member && !account->is_feeding))
		return 0;
	if (!account->is_member) { /* the first time: it has been running */
		account->is_member = true;
		__sync_fetch_and_add(&row->feeding, 1);
	}
	account->is_feeding = false;
	if (__sync_fetch_and_add(&row->feeding, -1) == 1)
		row->stalled_since_ns = now_ns;
	return 0;
}

/*
 * A step thread feeds again. The stall is booked to the states of this thread since the stall began: a sleep, then from runnable_ns on a
 * wait for a CPU, of which throttled_ns was throttling.
 */
__noinline int feeding_resume(struct thread *thread, u64 runnable_ns, u64 throttled_ns, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct feeding_row *row = feeding_row(thread->process);

	if (!row || !account->is_member || account->is_feeding)
		return 0;
	account->is_feeding = true;
	if (__sync_fetch_and_add(&row->feeding, 1) != 0)
		return 0;
	u64 since_ns = row->stalled_since_ns, until_ns = now_ns;

	row->stalled_since_ns = 0;
	if (thread->idle_at_ns && thread->idle_at_ns < now_ns)
		until_ns = thread->idle_at_ns; /* an idle job loses no GPU time */
	if (!since_ns || since_ns >= until_ns)
		return 0;
	if (runnable_ns < since_ns)
		runnable_ns = since_ns;
	if (runnable_ns > until_ns)
		runnable_ns = until_ns;
	u64 wait_ns = elapsed_ns(runnable_ns, until_ns);

	if (throttled_ns > wait_ns)
		throttled_ns = wait_ns;
	feeding_add_stall(row, account->sleep_state, runnable_ns - since_ns);
	feeding_add_stall(row, STATE_RUNNABLE, wait_ns - throttled_ns);
	feeding_add_stall(row, STATE_THROTTLED, throttled_ns);
	return 0;
}

/* A step thread was on its CPU all the time, but did not feed for stalled_ns. Counts if no other step thread was feeding. */
__noinline int feeding_stall(struct thread *thread, u32 state, u64 stalled_ns)
{
	if (!thread)
		return 0;
	struct feeding_row *row = feeding_row(thread->process);

	if (row && thread->account.is_member && thread->account.is_feeding && row->feeding == 1)
		feeding_add_stall(row, state, stalled_ns);
	return 0;
}

/* A step thread has ended, or is no step thread any more. */
__noinline int feeding_leave(struct thread *thread)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct feeding_row *row = feeding_row(thread->process);

	if (row && account->is_member && account->is_feeding)
		__sync_fetch_and_add(&row->feeding, -1);
	account->is_member = false;
	account->is_feeding = false;
	return 0;
}

/*
 * A job that is ahead of its GPU waits for an event of the step before, and not for all that it has launched. After so many waits for
 * events in a row, each of them ends a cycle: then a stall is lost as far as the wait after it is not shorter.
 */
#define EVENT_WAITS_AHEAD 8

/* A wait for an event returned. Whether it ends a cycle. */
static __always_inline bool feeding_waited_for_event(struct feeding_row *row)
{
	u32 waits = __sync_fetch_and_add(&row->event_waits, 1) + 1;

	if (waits == EVENT_WAITS_AHEAD)
		row->cycle_late_ns = 0; /* which of the waits so far these stalls have shortened is unknown */
	return waits > EVENT_WAITS_AHEAD;
}

/* A call returned that ends a cycle: what is launched from now on is waited for by the next one. is_all: nothing is left to do. */
static __always_inline void feeding_end_cycle(struct feeding_row *row, bool is_all)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	row->cycle_late_ns = 0;
	row->cycle_kernels = row->kernels;
	if (!is_all)
		return;
	row->event_waits = row->event_waits >= 2 * EVENT_WAITS_AHEAD ? EVENT_WAITS_AHEAD : 0;
	row->is_dry = own && own->are_launches_probed;
}

#endif
