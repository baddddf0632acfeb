/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A thread that asks again and again whether an event or a stream is done, sleeping or computing in between, waits for the GPU as one in
 * a synchronising call does. Its time between the queries is that of the queries, and the end of the wait may be late in the same way.
 * Map written: exposures, by exposure.bpf.h.
 */
#ifndef GPUSTALL_POLLING_BPF_H
#define GPUSTALL_POLLING_BPF_H

#include "exposure.bpf.h"
#include "thread.bpf.h"

#define CUDA_NOT_READY 600 /* cudaErrorNotReady, which is no failure */

enum { POLLED }; /* call->arguments of a query: the event or stream */

static __always_inline void poll_end(struct thread *thread)
{
	thread->polls = 0;
	thread->polled_count = 0;
}

/* A query found work left, and then another call came: it was a look in passing, as memory allocators do. */
static __always_inline void poll_given_up(struct thread *thread)
{
	poll_end(thread);
	thread->is_poller = false;
}

static __always_inline bool is_polled(const struct thread *thread, u64 event)
{
	for (u32 i = 0; i < POLLED_MAX; i++)
		if (i < thread->polled_count && thread->polled[i] == event)
			return true;
	return false;
}

/* At constant places, which every verifier knows to be within the array. */
static __always_inline void poll_add(struct thread *thread, u64 event)
{
	u32 count = thread->polled_count;

	for (u32 i = 0; i < POLLED_MAX; i++)
		if (i == count) {
			thread->polled[i] = event;
			thread->polled_count = i + 1;
		}
}

/* Whether a query is one more of a wait: of an event that it has queried before, or of any other one once the thread polls. */
static __always_inline bool is_next_poll(const struct thread *thread, u64 event)
{
	return is_polling(thread) || (thread->polls && is_polled(thread, event));
}

/*
 * The next outermost call begins. Whether it is one more query of the same wait: then the gap before it is not ended, so that its time
 * goes to the query when that returns.
 */
static __always_inline bool poll_goes_on(struct thread *thread, const struct call *call)
{
	if (!thread->polls)
		return false;
	if (role_of(call->cookie) != ROLE_QUERY) {
		poll_given_up(thread);
		return false;
	}
	if (!is_next_poll(thread, call->arguments[POLLED]))
		return false;
	thread->idle_at_ns = 0;
	return true;
}

/* What of a polled wait the host caused: at most the waits for a CPU before the last query, because the GPU may have been done before. */
static __always_inline struct delay poll_delay(const struct thread *thread, u64 wait_ns)
{
	const struct account *account = &thread->account;
	struct delay delay = {.stopped_ns = account->total_ns[STATE_STOPPED] - thread->polled_stopped_ns};

	if (account->resumed_ns > thread->polled_at_ns) {
		bool has_slept = account->sleep_ns > thread->polled_at_ns;

		delay.max_ns = has_slept ? account->since_wake_ns : account->last_wait_ns;
		delay.throttled_ns = has_slept ? account->since_wake_throttled_ns : account->last_throttled_ns;
	}
	delay.is_possible = delay.stopped_ns || delay.max_ns * CLEAN_SHARE > wait_ns;
	if (!delay.is_possible)
		delay.max_ns = delay.throttled_ns = 0; /* the usual time from a wake-up to the CPU */
	return delay;
}

/* An outermost query returned. */
__noinline int poll_returned(struct thread *thread, struct call *call, s32 code, u64 now_ns)
{
	if (!thread || !call || !thread->is_step)
		return 0;
	if (code == CUDA_NOT_READY) {
		u64 event = call->arguments[POLLED];

		if (!is_next_poll(thread, event)) {
			thread->polls = 0;
			thread->polled_since_ns = call->entry_ns;
			thread->polled_stopped_ns = thread->account.total_ns[STATE_STOPPED];
		}
		thread->polls++;
		thread->polled_at_ns = now_ns;
		if (!is_polled(thread, event))
			poll_add(thread, event);
		return 0;
	}
	thread->is_poller |= is_polling(thread);
	if (thread->is_poller && !code) { /* where the GPU was done at the first query, the wait was short */
		bool is_waited = thread->polls;
		u64 wait_ns = now_ns - (is_waited ? thread->polled_since_ns : call->entry_ns);
		struct delay delay = {};

		if (is_waited)
			delay = poll_delay(thread, wait_ns);
		exposure_book(thread, (u16)call->cookie, &delay, wait_ns, now_ns, call_shape(call->cookie) != SHAPE_EVENT_DONE);
	}
	poll_end(thread);
	return 0;
}

#endif
