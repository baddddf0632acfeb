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

/* At most so much of it came after the GPU was done. */
static __always_inline u64 bound_ns(const struct account *account, u64 now_ns)
{
	return elapsed_ns(account->resumed_ns, now_ns) < NOTICES_WITHIN_NS ? account->last_wait_ns : 0;
}

/* How much of a synchronising call the GPU had nothing to do with (struct exposure). Returns what is known of it. */
static __always_inline u64 expose(const struct thread *thread, struct exposure *exposure, u64 waited_ns, u64 duration_ns,
				  bool has_slept, u64 now_ns)
{
	const struct account *account = &thread->account;
	struct feeding_row *cycle = feeding_row(thread->process);

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
