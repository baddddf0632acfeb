/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A thread sleeps until another thread of its job wakes it: what did the waker do during the sleep? A leader (a thread of the traced
 * process itself, asleep outside a call) opens a window by raising its epoch. Every other thread of the job compares epochs at its next
 * change of state, and keeps its account as of the opening of the window. The waker subtracts that from its account. The work for each
 * change of state is constant; nothing is searched.
 *
 * A thread in between (a feeder thread, a pin-memory thread) may itself have been woken by a third thread. Its sleep is then replaced by
 * what the third thread did: since the window opened or, if it fell asleep later, since then.
 *
 * A worker is late because of what hindered it since its work began, also before the window opened. Its work begins when it has delivered
 * the last piece, or when it is given a new one. What workers did for all of their work is a row of its own, with VICTIM_WORKER.
 * Maps written: wakeups, read by exporter/kernel/thread_rows.py; groups, only read here.
 */
#ifndef GPUSTALL_WAKEUP_BPF_H
#define GPUSTALL_WAKEUP_BPF_H

#include "account.bpf.h"
#include "interval.bpf.h"
#include "maps.bpf.h"
#include "../abi/feeding.h"
#include "../abi/wakeup.h"

struct leader {
	u64 epoch;
	u64 since_ns; /* when the window opened */
	u32 is_open;
	u32 padding;
};

struct group {
	u32 process;
	u32 leaders_given;
	struct leader leaders[LEADERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192); /* preallocated: written by scheduler programs */
	__type(key, struct wakeup_key);
	__type(value, struct wakeup_row);
} wakeups SEC(".maps");

/* For a split, which does not fit on the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct states);
} split_scratch SEC(".maps");

static const struct wakeup_row empty_wakeup;

static __always_inline struct group *wakeup_group(u32 process)
{
	u32 place = process & (FEEDING_PLACES - 1);
	struct group *group = bpf_map_lookup_elem(&groups, &place);

	if (!group || !process)
		return NULL;
	if (group->process != process) {
		if (!place_is_held(process) || !__sync_bool_compare_and_swap(&group->process, 0, process))
			return NULL;
	}
	return group;
}

static __always_inline struct wakeup_row *wakeup_row(const struct thread *thread, u32 waker)
{
	struct wakeup_key key = {
		.process = thread->group,
		.victim = victim_kind(thread),
		.state = thread->account.sleep_state,
		.waker = waker,
	};

	return own_row(&wakeups, &key, &empty_wakeup, key.process, SHARE_WAKEUPS, DROP_WAKEUPS_FULL);
}

/* How far a change of state and the opening of a window may overlap on two CPUs that have each read the clock. */
#define OVERLAP_NS 10000

/*
 * Called before the account of a thread is booked up to until_ns: keeps the account as of the opening of each window that has opened
 * since the last call, up to until_ns. A wake-up is booked from the moment of its request. A window that opened after that sees the
 * thread in its new state, and is handled at the next change.
 */
__noinline int wakeup_keep_bases(struct thread *thread, u64 until_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct group *group = wakeup_group(thread->group);

	if (!group)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 l = 0; l < LEADERS; l++)
	{
		struct leader *leader = &group->leaders[l];
		struct wakeup_base *base = &account->bases[l];

		if (leader->epoch == base->epoch || (s64)(leader->since_ns - until_ns) > 0)
			continue;
		EACH_STATE(i)
			base->total_ns[i] = account->total_ns[i];
		base->total_ns[state_index(account->state)] += elapsed_ns(account->since_ns, leader->since_ns);
		base->epoch = leader->epoch;
	}
	return 0;
}

/* A thread of the traced process fell asleep outside a call: opens its window if another thread may wake it. */
__noinline int wakeup_open_window(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u32 state = account->state;

	account->is_leading = false;
	account->is_resolved = false;
	if (!thread->is_inside || thread->depth ||
	    !(state == STATE_LOCK || state == STATE_PIPE || state == STATE_SOCKET || state == STATE_POLL || state == STATE_OTHER))
		return 0;
	struct group *group = wakeup_group(thread->group);

	if (!group)
		return 0;
	if (!account->leader) {
		u32 given = __sync_fetch_and_add(&group->leaders_given, 1);

		account->leader = given < LEADERS ? given + 1 : NO_LEADER;
	}
	u32 place = account->leader - 1;

	if (place >= LEADERS)
		return 0;
	struct leader *leader = &group->leaders[place];

	leader->since_ns = now_ns;
	barrier();
	leader->epoch++;
	leader->is_open = true;
	account->bases[place].epoch = leader->epoch; /* its own sleep is not part of the split */
	account->is_leading = true;
	return 0;
}

/* Splits what `waker`, which is running, has done since window `l` opened; returns the length of the window, 0: unknown. */
__noinline u64 wakeup_split(struct thread *waker, struct leader *leader, u32 l, u64 now_ns, struct states *split)
{
	if (!waker || !leader || !split)
		return 0;
	struct account *account = &waker->account;
	struct wakeup_base *base = &account->bases[l < LEADERS ? l : 0];
	bool is_based = base->epoch == leader->epoch, is_resolved = base->resolved_epoch == leader->epoch;
	u64 window_ns = elapsed_ns(leader->since_ns, now_ns), sum_ns = 0;
	u32 own = state_index(account->state);

	if (!is_based && elapsed_ns(leader->since_ns, account->since_ns) > OVERLAP_NS)
		return 0; /* it was not tracked when the window opened */
	EACH_STATE(i)
	{
		s64 ns = is_based ? account->total_ns[i] - base->total_ns[i] : 0;

		if (i == own)
			ns += elapsed_ns(is_based ? account->since_ns : leader->since_ns, now_ns);
		if (is_resolved)
			ns += base->resolved_ns[i];
		split->ns[i] = ns > 0 ? ns : 0;
		sum_ns += split->ns[i];
	}
	return sum_ns && sum_ns <= window_ns + window_ns / 64 + 1000 ? sum_ns : 0;
}

/* States that are no part of any work: a page that is read back, memory that is freed, a quota, a signal. */
#define HINDRANCES (1U << STATE_RECLAIM | 1U << STATE_THROTTLED | 1U << STATE_MEMORY | 1U << STATE_FAULT | 1U << STATE_STOPPED)

static __always_inline bool is_hindrance(u32 state)
{
	return HINDRANCES >> state & 1;
}

/* Without what hindered `worker` before the window opened, it would have been done by so much earlier: replaces its work by that. */
__noinline int wakeup_add_hindrances(struct thread *worker, struct states *split)
{
	if (!worker || !split)
		return 0;
	struct account *account = &worker->account; /* running, which is no hindrance: its totals are complete */
	u64 work_ns = 0, added_ns = 0;

	EACH_STATE(i)
		work_ns += is_hindrance(i) ? 0 : split->ns[i];
	EACH_STATE(i)
	{
		u64 before_ns = elapsed_ns(account->begun_total_ns[i] + split->ns[i], account->total_ns[i]);

		if (!is_hindrance(i))
			continue;
		if (before_ns > work_ns - added_ns)
			before_ns = work_ns - added_ns;
		split->ns[i] += before_ns;
		added_ns += before_ns;
	}
	EACH_STATE(i)
	{
		u64 ns = split->ns[i] < added_ns ? split->ns[i] : added_ns;

		if (is_hindrance(i))
			continue;
		split->ns[i] -= ns;
		added_ns -= ns;
	}
	return 0;
}

/*
 * The present work of a worker ends, and its next begins: when it has delivered something, or is given something. Its time since the
 * work began goes to the row of workers, without the sleep that ends now: in that it had nothing to do.
 */
__noinline int wakeup_end_work(struct thread *worker, struct states *work, u64 now_ns)
{
	if (!worker || !work)
		return 0;
	struct account *account = &worker->account;
	struct wakeup_key key = {
		.process = worker->group,
		.victim = VICTIM_WORKER,
		.waker = worker->is_inside ? WAKER_LOADER : WAKER_PROCESS,
	};
	u64 asleep_ns = is_running(account) ? 0 : elapsed_ns(account->since_ns, now_ns), sum_ns = 0;
	u32 own = state_index(account->state);

	account_read(account, now_ns, work);
	EACH_STATE(i)
	{
		u64 total_ns = work->ns[i], ns = elapsed_ns(account->begun_total_ns[i], total_ns);

		if (i == own)
			ns = elapsed_ns(asleep_ns, ns);
		account->begun_total_ns[i] = total_ns;
		work->ns[i] = ns;
		sum_ns += ns;
	}
	if (!sum_ns)
		return 0;
	struct wakeup_row *row = own_row(&wakeups, &key, &empty_wakeup, key.process, SHARE_WAKEUPS, DROP_WAKEUPS_FULL);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->windows, 1);
	__sync_fetch_and_add(&row->resolved_ns, sum_ns);
	add_states(row->states_ns, work);
	return 0;
}

/* `sleeper` has slept since window `l` opened, or since before: replaces its sleep by what its waker did. */
__noinline int wakeup_replace_sleep(struct thread *sleeper, struct leader *leader, u32 l, struct states *split, u32 is_by_process)
{
	if (!sleeper || !leader || !split)
		return 0;
	struct wakeup_base *base = &sleeper->account.bases[l < LEADERS ? l : 0];
	u32 own = state_index(sleeper->account.state);

	if (base->resolved_epoch != leader->epoch) {
		EACH_STATE(i)
			base->resolved_ns[i] = 0;
		base->resolved_epoch = leader->epoch;
		base->is_by_process = false;
	}
	EACH_STATE(i)
	{
		base->resolved_ns[i] += split->ns[i];
		base->resolved_ns[own] -= split->ns[i];
	}
	if (is_by_process)
		base->is_by_process = true;
	return 0;
}

static __always_inline enum waker waker_kind(const struct thread *sleeper, const struct thread *waker, const struct leader *leader, u32 l)
{
	const struct wakeup_base *base = &waker->account.bases[l < LEADERS ? l : 0];

	if (victim_kind(waker) == VICTIM_STEP)
		return WAKER_STEP;
	if (!waker->is_inside && sleeper->account.state == STATE_LOCK && sleeper->account.is_for_file)
		return WAKER_HOLDER;
	if (waker->is_inside && is_worker(waker) && sleeper->account.state == STATE_LOCK && sleeper->account.is_for_signal)
		return WAKER_LOADER;
	return !waker->is_inside || (base->resolved_epoch == leader->epoch && base->is_by_process) ? WAKER_PROCESS :
												     WAKER_THREAD;
}

/* The current thread ends the sleep in which `thread`, of its process, waits for a signal, or starts it: what that does may be for it. */
static __always_inline void wakeup_note_waker(struct thread *thread, u64 now_ns)
{
	struct account *account = &thread->account;
	u32 pid = bpf_get_current_pid_tgid();

	if (account->waker_pid != pid) {
		account->waker_pid = pid;
		account->waker_tid = visible_tid(bpf_get_current_task_btf());
	}
	account->woken_ns = now_ns;
}

/* A second counts as ahead if the step threads waited for the thread at most a quarter as often as they gave it work. */
static __always_inline void wakeup_end_second(struct account *account, u32 second)
{
	if (account->second == second)
		return;
	if (account->given && account->awaited * 4 <= account->given && account->seconds_ahead < SECONDS_AHEAD)
		account->seconds_ahead++;
	account->second = second;
	account->given = 0;
	account->awaited = 0;
}

/*
 * A step thread gives work to a thread of its process by ending its sleep, or waits until that thread ends its own. One that is ahead
 * most of the time makes data; one that is always waited for may hold a lock.
 */
__noinline int wakeup_note_order(struct thread *sleeper, struct thread *waker, u64 now_ns)
{
	if (!sleeper || !waker)
		return 0;
	u32 second = now_ns / SECOND_NS;
	bool is_by_step = victim_kind(waker) == VICTIM_STEP;

	if (is_by_step == (victim_kind(sleeper) == VICTIM_STEP))
		return 0;
	if (!is_awaiting_signal(&sleeper->account)) /* nor Python's interpreter lock */
		return 0;
	if (is_by_step && sleeper->is_inside) {
		wakeup_end_second(&sleeper->account, second);
		sleeper->account.given++;
	} else if (!is_by_step && waker->is_inside) {
		wakeup_end_second(&waker->account, second);
		waker->account.awaited++;
	}
	return 0;
}

/* `waker`, the current thread, is about to wake `sleeper`, of the same job. */
__noinline int wakeup_resolve(struct thread *sleeper, struct thread *waker, u64 now_ns)
{
	u32 zero = 0;
	struct states *split = bpf_map_lookup_elem(&split_scratch, &zero);

	if (!sleeper || !waker || !split)
		return 0;
	struct group *group = wakeup_group(sleeper->group);
	u32 state = sleeper->account.state;

	if (!group || state == STATE_ON_CPU || state == STATE_RECLAIM || state == STATE_RUNNABLE)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 l = 0; l < LEADERS; l++)
	{
		struct leader *leader = &group->leaders[l];
		u32 own = sleeper->account.leader - 1, from = l;
		bool is_own = sleeper->account.is_leading && own == l;

		if (!leader->is_open)
			continue;
		if (!is_own && sleeper->account.sleep_ns > leader->since_ns) {
			if (!sleeper->account.is_leading || own >= LEADERS)
				continue;
			from = own;
		}
		u64 sum_ns = wakeup_split(waker, &group->leaders[from], from, now_ns, split);

		if (!sum_ns)
			continue;
		if (is_worker(waker))
			wakeup_add_hindrances(waker, split);
		enum waker kind = waker_kind(sleeper, waker, &group->leaders[from], from);

		if (!is_own) {
			wakeup_replace_sleep(sleeper, leader, l, split, kind == WAKER_PROCESS);
			continue;
		}
		struct wakeup_row *row = sleeper->account.is_resolved || !sleeper->process ? NULL : wakeup_row(sleeper, kind);

		if (!row)
			continue;
		__sync_fetch_and_add(&row->windows, 1);
		__sync_fetch_and_add(&row->resolved_ns, sum_ns);
		add_states(row->states_ns, split);
		sleeper->account.is_resolved = true;
	}
	wakeup_note_order(sleeper, waker, now_ns);
	if (is_worker(waker))
		wakeup_end_work(waker, split, now_ns);
	if (is_worker(sleeper))
		wakeup_end_work(sleeper, split, now_ns);
	return 0;
}

/* The leader wakes up: closes its window. */
__noinline int wakeup_close_window(struct thread *thread, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	struct group *group = wakeup_group(thread->group);
	u32 place = account->leader - 1;

	account->is_leading = false;
	if (!group || place >= LEADERS)
		return 0;
	group->leaders[place].is_open = false;
	if (account->is_resolved || !thread->process)
		return 0;
	struct wakeup_row *row = wakeup_row(thread, WAKER_OTHER);

	if (row)
		__sync_fetch_and_add(&row->abstained_ns, elapsed_ns(group->leaders[place].since_ns, now_ns));
	return 0;
}

#endif
