/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How much of a synchronising call did the host cause? Known exactly after a sleep, bounded after spinning or a stop (struct exposure).
 * Map written: exposures, read by exporter/kernel/thread_rows.py.
 */
#ifndef GPUSTALL_EXPOSURE_BPF_H
#define GPUSTALL_EXPOSURE_BPF_H

#include "feeding.bpf.h"
#include "maps.bpf.h"
#include "../abi/exposure.h"
#include "../abi/operation.h"

/*
 * A wait for a CPU delayed the return only if it ended shortly before: a thread that spun on afterwards was still waiting for the GPU.
 * A spinning thread notices within one turn of its loop; the 50 us also cover the return through the kernel.
 */
#define NOTICES_WITHIN_NS 50000

/* A wait is a normal one only if the thread was on its CPU for so long before the return: after a switch it may notice later than that. */
#define SURE_AFTER_NS 100000

/* A cycle whose late stalls are shorter than 1/32 of its wait is clean: the duration of its wait is normal. */
#define CLEAN_SHARE 32

/*
 * The first waits of a process for events say nothing about the next ones: a job that keeps work for as many steps queued finds nothing to
 * wait for in them.
 */
#define FIRST_EVENT_WAITS 8

#define MOST_WORK 15

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct exposure_key);
	__type(value, struct exposure);
} exposures SEC(".maps"); /* not part of `operations`, which is too large to be read at every tick */

/*
 * The returns of a process from waits, over all of its threads: for the one whose number is in it, at the place that `feeding` gives it.
 * since_ns, until_ns: its last delay.
 */
struct returns {
	u32 process;
	u32 event_waits; /* up to FIRST_EVENT_WAITS */
	u64 since_ns, until_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct returns);
} returns SEC(".maps");

static const struct exposure empty_exposure;

static __noinline struct exposure *exposure_row(u32 process, u16 operation, u16 work)
{
	struct exposure_key key = {.process = process, .operation = operation, .work = work};

	return own_row(&exposures, &key, &empty_exposure, process, SHARE_EXPOSURES, DROP_EXPOSURES_FULL);
}

/*
 * What the host caused of a synchronising call: exact_ns for certain, or else an unknown part of max_ns, which was spent waiting for a CPU,
 * and of stopped_ns.
 */
struct delay {
	u64 exact_ns;
	u64 max_ns;
	u64 throttled_ns; /* part of exact_ns or max_ns */
	u64 stopped_ns;
	bool is_possible; /* the return may have been late, by more than max_ns says */
};

/* Upper bound of the wait for a CPU after the GPU was done. */
static __always_inline u64 bound_ns(const struct account *account, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) < NOTICES_WITHIN_NS ? account->last_wait_ns : 0;
}

/* Whether the thread left its CPU. While it spins on its CPU, interrupts and steal do not delay it: it waits for the GPU anyway. */
static __always_inline bool has_left(const struct account *account, u64 began_ns)
{
	return account->resumed_ns >= began_ns;
}

/* Whether the last sleep of the call ended when the GPU was done: not a sleep with a time-out, and not a stop. */
static __always_inline bool was_woken_by_gpu(const struct account *account, u64 began_ns)
{
	return account->sleep_ns > began_ns && account->sleep_state != STATE_SLEEP && account->sleep_state != STATE_STOPPED;
}

/* What of a synchronising call, which began at began_ns, the host caused. */
static __always_inline struct delay delay_of(const struct account *account, const struct states *states, u64 began_ns, u64 now_ns)
{
	struct delay delay = {};

	if (!has_left(account, began_ns))
		return delay;
	if (was_woken_by_gpu(account, began_ns)) {
		delay.exact_ns = account->since_wake_ns;
		delay.throttled_ns = account->since_wake_throttled_ns;
		return delay;
	}
	delay.max_ns = bound_ns(account, now_ns);
	delay.throttled_ns = delay.max_ns ? account->last_throttled_ns : 0;
	delay.stopped_ns = states->ns[STATE_STOPPED];
	delay.is_possible = delay.stopped_ns || elapsed_ns(account->resumed_ns, now_ns) < SURE_AFTER_NS;
	return delay;
}

static __always_inline void deduct(u64 *from_ns, u64 *ns)
{
	u64 part_ns = *ns < *from_ns ? *ns : *from_ns;

	*from_ns -= part_ns;
	*ns -= part_ns;
}

static __always_inline struct returns *returns_of(u32 process)
{
	u32 place = process & (FEEDING_PLACES - 1);
	struct returns *row = bpf_map_lookup_elem(&returns, &place);

	if (row && row->process != process) {
		if (!place_is_held(process))
			return NULL;
		row->process = process;
		row->event_waits = 0;
		row->since_ns = row->until_ns = 0;
	}
	return row;
}

/*
 * Threads that are delayed at the same time delay their process once: deducts what was booked for another thread. Each delay counts as if it
 * had ended now. Of several short ones within a long one, only the last is deducted.
 */
static __always_inline void delay_once(u32 process, struct delay *delay, u64 now_ns)
{
	struct returns *last = returns_of(process);
	u64 delay_ns = delay->exact_ns + delay->max_ns + delay->stopped_ns, since_ns = elapsed_ns(delay_ns, now_ns);

	if (!last || !delay_ns)
		return;
	if (last->until_ns <= since_ns) {
		last->since_ns = since_ns;
		last->until_ns = now_ns;
		return;
	}
	u64 booked_ns = elapsed_ns(last->since_ns > since_ns ? last->since_ns : since_ns, last->until_ns);

	if (last->since_ns > since_ns)
		last->since_ns = since_ns;
	if (last->until_ns < now_ns)
		last->until_ns = now_ns;
	deduct(&delay->exact_ns, &booked_ns);
	deduct(&delay->max_ns, &booked_ns);
	deduct(&delay->stopped_ns, &booked_ns);
	if (delay->throttled_ns > delay->exact_ns + delay->max_ns)
		delay->throttled_ns = delay->exact_ns + delay->max_ns;
}

/* Class of the work launched since the last cycle ended (struct exposure_key). */
static __always_inline u16 work_class(const struct feeding_row *cycle)
{
	u64 kernels = cycle->kernels - cycle->cycle_kernels;
	u16 class = 0;

	_Pragma("clang loop unroll(disable)") for (int i = 0; i < MOST_WORK && kernels; i++)
	{
		kernels >>= 1;
		class++;
	}
	return class;
}

/* What a wait says about the next ones of its kind. */
enum kind_of_wait {
	WAIT_USUAL,
	WAIT_SHORTER, /* the one before may have returned late */
	WAIT_FIRST,
};

static __always_inline void exposure_add(struct exposure *exposure, const struct delay *delay, u64 wait_ns, u64 late_ns,
					 enum kind_of_wait kind)
{
	if (delay->exact_ns) {
		__sync_fetch_and_add(&exposure->exact_ns, delay->exact_ns);
		__sync_fetch_and_add(&exposure->exact_throttled_ns, delay->throttled_ns);
	}
	if (!delay->is_possible && kind == WAIT_FIRST)
		return;
	if (!delay->is_possible && kind == WAIT_USUAL && late_ns * CLEAN_SHARE <= wait_ns) {
		__sync_fetch_and_add(&exposure->clean_calls, 1);
		__sync_fetch_and_add(&exposure->clean_ns, wait_ns + late_ns);
		return;
	}
	__sync_fetch_and_add(&exposure->calls, 1);
	__sync_fetch_and_add(&exposure->total_ns, wait_ns);
	__sync_fetch_and_add(&exposure->late_ns, late_ns);
	__sync_fetch_and_add(&exposure->max_ns, delay->max_ns);
	if (delay->max_ns)
		__sync_fetch_and_add(&exposure->max_throttled_ns, delay->throttled_ns);
	__sync_fetch_and_add(&exposure->stopped_ns, delay->stopped_ns);
}

/* A wait that ends no cycle was delayed: one more late stall of the open cycle. */
static __always_inline void add_late_delay(struct feeding_row *cycle, const struct delay *delay)
{
	if (delay->max_ns) {
		feeding_add_late(cycle, STATE_RUNNABLE, delay->max_ns - delay->throttled_ns);
		feeding_add_late(cycle, STATE_THROTTLED, delay->throttled_ns);
	}
	if (delay->stopped_ns)
		feeding_add_late(cycle, STATE_STOPPED, delay->stopped_ns);
}

/* The kind of a wait that has returned, which also decides that of the next one. */
static __always_inline enum kind_of_wait kind_of_wait(struct thread *thread, bool is_all, bool is_possibly_late)
{
	struct returns *row = is_all ? NULL : returns_of(thread->process);
	bool is_shorter = !is_all && thread->is_after_delay;

	thread->is_after_delay = !is_all && is_possibly_late;
	if (row && row->event_waits < FIRST_EVENT_WAITS) {
		row->event_waits++;
		return WAIT_FIRST;
	}
	return is_shorter ? WAIT_SHORTER : WAIT_USUAL;
}

/* Books a wait for the GPU, which has returned. is_all: for all that was launched before it, not for an event. */
static __always_inline void exposure_book(struct thread *thread, u16 operation, struct delay *delay, u64 wait_ns, u64 now_ns, bool is_all)
{
	delay_once(thread->process, delay, now_ns);

	struct feeding_row *cycle = feeding_row(thread->process);
	bool ends_cycle = thread->is_step && (is_all || (cycle && feeding_waited_for_event(cycle)));
	struct exposure *exposure = exposure_row(thread->process, operation, cycle ? work_class(cycle) : 0);
	u64 late_ns = cycle ? cycle->cycle_late_ns : 0;
	enum kind_of_wait kind = kind_of_wait(thread, is_all, delay->is_possible);
	struct delay booked = *delay;

	if (!ends_cycle) {
		/* Shorter by the late stalls of the open cycle, as the wait that ends it will be. */
		if (cycle && late_ns * CLEAN_SHARE > wait_ns) {
			add_late_delay(cycle, delay);
			booked.max_ns = booked.stopped_ns = 0;
		}
		late_ns = 0;
	}
	if (!is_all && cycle) /* later work may hide it, so that it is one more late stall */
		booked.exact_ns = 0;
	if (exposure)
		exposure_add(exposure, &booked, wait_ns, late_ns, kind);
	if (!cycle)
		return;
	__sync_fetch_and_add(&cycle->waits, 1);
	if (ends_cycle)
		feeding_end_cycle(cycle, is_all);
	if (!is_all && delay->exact_ns) {
		feeding_add_late(cycle, STATE_RUNNABLE, delay->exact_ns - delay->throttled_ns);
		feeding_add_late(cycle, STATE_THROTTLED, delay->throttled_ns);
	}
}

#endif
