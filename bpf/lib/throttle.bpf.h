/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* How much of a wait for a CPU was throttling by the thread's own quota. */
#ifndef GPUSTALL_THROTTLE_BPF_H
#define GPUSTALL_THROTTLE_BPF_H

#include "thread.bpf.h"

/*
 * How long a run queue has been throttled, without a throttling that still lasts. Before kernel 6.6 this is only known by the clock of the
 * load average, which is right while the CPU is idle or runs at full speed, and too slow otherwise.
 */
static __always_inline u64 throttled_time_ns(struct cfs_rq *queue)
{
	if (bpf_core_field_exists(queue->throttled_clock_self_time))
		return BPF_CORE_READ(queue, throttled_clock_self_time);
	if (bpf_core_field_exists(queue->throttled_clock_pelt_time))
		return BPF_CORE_READ(queue, throttled_clock_pelt_time);
	return 0;
}

/* How long the current throttling has lasted, by the same clock; 0 if the queue is not throttled. */
static __always_inline u64 throttled_until_now_ns(struct cfs_rq *queue)
{
	if (bpf_core_field_exists(queue->throttled_clock_self_time)) {
		u64 since_ns = BPF_CORE_READ(queue, throttled_clock_self);

		return since_ns ? elapsed_ns(since_ns, BPF_CORE_READ(queue, rq, clock)) : 0;
	}
	if (bpf_core_field_exists(queue->throttled_clock_pelt) && BPF_CORE_READ(queue, throttle_count))
		return elapsed_ns(BPF_CORE_READ(queue, throttled_clock_pelt),
				  BPF_CORE_READ(queue, rq, clock_pelt) - BPF_CORE_READ(queue, rq, lost_idle_time));
	return 0;
}

/* Keeps the throttled time of the thread's run queue as of the beginning of its wait. */
static __always_inline void begin_throttle_watch(struct account *account, u64 address)
{
	struct cfs_rq *queue = (void *)address;

	account->throttled_queue = address;
	account->throttled_ns = throttled_time_ns(queue);
	account->throttled_before_ns = throttled_until_now_ns(queue);
}

/* How much of a wait of wait_ns, which ends now, was throttling by the own quota. */
static __always_inline u64 throttled_of_wait(struct account *account, u64 address, u64 wait_ns)
{
	u64 before_ns = account->throttled_ns + account->throttled_before_ns;

	if (address != account->throttled_queue)
		return 0;
	u64 throttled_ns = elapsed_ns(before_ns, throttled_time_ns((void *)address));

	return throttled_ns < wait_ns ? throttled_ns : wait_ns;
}

#endif
