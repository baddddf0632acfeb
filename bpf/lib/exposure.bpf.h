/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How much of a synchronising call did the host cause? Known exactly after a sleep, bounded after spinning (struct exposure).
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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct operation_key);
	__type(value, struct exposure);
} exposures SEC(".maps"); /* not part of `operations`, which is too large to be read at every tick */

static const struct exposure empty_exposure;

static __noinline struct exposure *exposure_row(struct operation_key *key)
{
	struct operation_key own = *key; /* on the stack for kernel 6.1, see copies_add() */

	return lookup_or_create(&exposures, &own, &empty_exposure, DROP_EXPOSURES_FULL);
}

/* Upper bound of the wait for a CPU after the GPU was done. */
static __always_inline u64 bound_ns(const struct account *account, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) < NOTICES_WITHIN_NS ? account->last_wait_ns : 0;
}

/* Whether the thread left its CPU. While it spins on its CPU, interrupts and steal do not delay it: it waits for the GPU anyway. */
static __always_inline bool has_left(const struct account *account, u64 duration_ns, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) <= duration_ns;
}

/* Books the part of a synchronising call that the host caused. Returns what is known of it exactly. */
static __always_inline u64 exposure_book(const struct thread *thread, struct operation_key *key, const struct states *states,
				  u64 duration_ns, bool has_slept, u64 now_ns)
{
	const struct account *account = &thread->account;
	struct feeding_row *cycle = feeding_row(thread->process);
	struct exposure *exposure = exposure_row(key);
	u64 waited_ns = has_left(account, duration_ns, now_ns) ? states->ns[STATE_RUNNABLE] + states->ns[STATE_THROTTLED] : 0;

	if (!exposure)
		return 0;
	if (waited_ns) {
		__sync_fetch_and_add(&exposure->runnable_ns, states->ns[STATE_RUNNABLE]);
		__sync_fetch_and_add(&exposure->throttled_ns, states->ns[STATE_THROTTLED]);
	}
	if (has_slept && account->sleep_state != STATE_SLEEP) {
		__sync_fetch_and_add(&exposure->exact_ns, account->since_wake_ns);
		return account->since_wake_ns;
	}
	if (cycle && feeding_is_late(cycle, duration_ns)) {
		/* It was entered late and is shorter for that: its lost time is counted with the late stalls of the cycle. */
		if (waited_ns)
			feeding_add_late(cycle, STATE_RUNNABLE, bound_ns(account, now_ns));
		return 0;
	}
	if (!waited_ns) {
		__sync_fetch_and_add(&exposure->clean_calls, 1);
		__sync_fetch_and_add(&exposure->clean_ns, duration_ns);
		return 0;
	}
	__sync_fetch_and_add(&exposure->calls, 1);
	__sync_fetch_and_add(&exposure->total_ns, duration_ns);
	__sync_fetch_and_add(&exposure->max_ns, bound_ns(account, now_ns));
	return 0;
}

#endif
