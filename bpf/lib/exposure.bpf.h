/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How much of a synchronising call was the host's doing? Exactly known after a sleep, bounded after spinning (struct exposure).
 */
#ifndef GPUSTALL_EXPOSURE_BPF_H
#define GPUSTALL_EXPOSURE_BPF_H

#include "feeding.bpf.h"

/*
 * A wait for a CPU delayed the return only if it ended not long before it: a thread that spun on afterwards was still waiting
 * for the GPU. It notices within a turn of its loop; the return through the kernel is in these 50 us as well.
 */
#define NOTICES_WITHIN_NS 50000

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct operation_key);
	__type(value, struct exposure);
} exposures SEC(".maps"); /* apart from `operations`, which is too large to be read at every tick */

static const struct exposure empty_exposure;

static __noinline struct exposure *exposure_row(struct operation_key *key)
{
	struct operation_key own = *key; /* up to kernel 6.1 what a function that is not static was given is no key */
	struct exposure *row = bpf_map_lookup_elem(&exposures, &own);

	if (row)
		return row;
	bpf_map_update_elem(&exposures, &own, &empty_exposure, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&exposures, &own);
	if (!row)
		lose(LOSS_EXPOSURES_FULL);
	return row;
}

/* At most so much of it came after the GPU was done. */
static __always_inline u64 bound_ns(const struct account *account, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) < NOTICES_WITHIN_NS ? account->last_wait_ns : 0;
}

/* Whether it left its CPU: what interrupts and the hypervisor take of a thread that spins on it is hidden behind the GPU. */
static __always_inline bool has_left(const struct account *account, u64 duration_ns, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) <= duration_ns;
}

/* How much of a synchronising call the GPU had nothing to do with (struct exposure). Returns what is known of it. */
static __always_inline u64 expose(const struct thread *thread, struct operation_key *key, const struct states *states,
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
	if (cycle && is_late(cycle, duration_ns)) {
		/* It was entered late, and is shorter for it: what it lost is told together with the cycle's late stalls. */
		if (waited_ns)
			add_late(cycle, STATE_RUNNABLE, bound_ns(account, now_ns));
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
