/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The feeding timeline of a process (struct feeding_row): is at least one of its step threads on a CPU or waiting for the
 * GPU? The scheduler programs keep it; the programs of calls say when the GPU runs dry and what a wait for it took.
 */
#ifndef GPUSTALL_FEEDING_BPF_H
#define GPUSTALL_FEEDING_BPF_H

#include "account.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct feeding_row);
} feeding SEC(".maps");

/* A cycle with less than this share of late stalls is clean: what its wait took is what such waits take. */
#define CLEAN_SHARE 32

/* The place of a process; NULL when a living process with the same place came first. */
static __always_inline struct feeding_row *feeding_row(u32 process)
{
	u32 place = process & (FEEDING_PLACES - 1);
	struct feeding_row *row = bpf_map_lookup_elem(&feeding, &place);

	if (!row || !process)
		return NULL;
	if (row->process != process) {
		u32 owner = __sync_val_compare_and_swap(&row->process, 0, process);

		if (owner && owner != process) { /* another thread of the process may have been first */
			lose(LOSS_GROUPS_FULL);
			return NULL;
		}
	}
	return row;
}

static __always_inline void add_late(struct feeding_row *row, u32 state, u64 ns)
{
	__sync_fetch_and_add(&row->late_ns[state_index(state)], ns);
	__sync_fetch_and_add(&row->cycle_late_ns, ns);
}

/* Whether this cycle had late stalls worth mentioning beside the wait that ends it. */
static __always_inline bool is_late(const struct feeding_row *row, u64 wait_ns)
{
	return row->cycle_late_ns * CLEAN_SHARE > wait_ns;
}

static __always_inline void add_stall(struct feeding_row *row, u32 state, u64 ns)
{
	if (!ns)
		return;
	if (row->is_dry) {
		__sync_fetch_and_add(&row->dry_ns[state_index(state)], ns);
	} else {
		add_late(row, state, ns);
	}
}

/* A step thread stops feeding; when it was the last one, the process is stalled from here on. */
__noinline int stop_feeding(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct feeding_row *row = feeding_row(thread->process);

	if (!row || (account->is_member && !account->is_feeding))
		return 0;
	if (!account->is_member) { /* seen for the first time: it has been running */
		account->is_member = true;
		__sync_fetch_and_add(&row->feeding, 1);
	}
	account->is_feeding = false;
	if (__sync_fetch_and_add(&row->feeding, -1) == 1)
		row->stalled_since_ns = now_ns;
	return 0;
}

/*
 * A step thread feeds again. What the stall was made of are the states of this thread since it began: a sleep, then from
 * runnable_ns on a wait for a CPU, of which the thread's group was throttled for throttled_ns.
 */
__noinline int resume_feeding(struct thread *thread, u64 runnable_ns, u64 throttled_ns, u64 now_ns)
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
		until_ns = thread->idle_at_ns; /* nobody waits for the GPU any more */
	if (!since_ns || since_ns >= until_ns)
		return 0;
	if (runnable_ns < since_ns)
		runnable_ns = since_ns;
	if (runnable_ns > until_ns)
		runnable_ns = until_ns;
	u64 wait_ns = elapsed_ns(runnable_ns, until_ns);

	if (throttled_ns > wait_ns)
		throttled_ns = wait_ns;
	add_stall(row, account->sleep_state, runnable_ns - since_ns);
	add_stall(row, STATE_RUNNABLE, wait_ns - throttled_ns);
	add_stall(row, STATE_THROTTLED, throttled_ns);
	return 0;
}

/* A step thread was on its CPU all the time, but did not feed for so long; when it is the only one, the GPU was fed by nobody. */
__noinline int stall_feeding(struct thread *thread, u32 state, u64 stalled_ns)
{
	if (!thread)
		return 0;
	struct feeding_row *row = feeding_row(thread->process);

	if (row && thread->account.is_member && thread->account.is_feeding && row->feeding == 1)
		add_stall(row, state, stalled_ns);
	return 0;
}

/* A step thread has ended, or is none any more. */
__noinline int leave_feeding(struct thread *thread)
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

/* A synchronising call of wait_ns returned, in which nothing but the GPU was waited for. */
static __always_inline void waited(u32 process, u64 wait_ns)
{
	struct feeding_row *row = feeding_row(process);

	if (!row)
		return;
	if (is_late(row, wait_ns)) {
		__sync_fetch_and_add(&row->stalled_waits, 1);
		__sync_fetch_and_add(&row->stalled_wait_ns, wait_ns);
		__sync_fetch_and_add(&row->stalled_late_ns, row->cycle_late_ns);
	} else {
		__sync_fetch_and_add(&row->clean_waits, 1);
		__sync_fetch_and_add(&row->clean_wait_ns, wait_ns);
	}
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	row->cycle_late_ns = 0;
	row->is_dry = own && !own->has_no_launches;
}

/* A synchronising call returned that ends no cycle. User space looks for what it lost when it sees the count move. */
static __always_inline void waited_within(u32 process)
{
	struct feeding_row *row = feeding_row(process);

	if (row)
		__sync_fetch_and_add(&row->other_waits, 1);
}

#endif
