/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * CPU time taken by the hypervisor (steal) while a thread was on the CPU: the thread did not run, it waited. Booked when the thread
 * leaves the CPU or is interrupted, and for at most the time not yet booked of the open call or gap, because the time of an ended one
 * has already been reported. The rest is booked the next time.
 * Maps written: threads, blame, feeding, through the headers below.
 */
#ifndef GPUSTALL_STEAL_BPF_H
#define GPUSTALL_STEAL_BPF_H

#include "blame.bpf.h"
#include "feeding.bpf.h"

/* queue: address of the thread's run queue. */
__noinline int steal_book(struct thread *thread, u64 queue, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 since_ns = account->since_ns > thread->mark_ns ? account->since_ns : thread->mark_ns;
	u64 taken_ns = stolen_time_ns((void *)queue), stolen_ns = elapsed_ns(account->stolen_before_ns, taken_ns);

	stolen_ns = elapsed_ns(account->fault_run_ns, stolen_ns); /* time in major faults is booked as a fault already */
	u64 open_ns = elapsed_ns(since_ns, now_ns);

	if (!stolen_ns || account->state != STATE_ON_CPU || (thread->idle_at_ns && now_ns >= thread->idle_at_ns))
		return 0;
	if (stolen_ns > open_ns)
		stolen_ns = open_ns;
	account->stolen_before_ns += stolen_ns;
	account->stolen_ns += stolen_ns;
	account->version++;
	barrier();
	account->total_ns[STATE_RUNNABLE] += stolen_ns;
	account->since_ns += stolen_ns;
	barrier();
	account->version++;
	blame_nobody(thread, CULPRIT_HYPERVISOR, stolen_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		feeding_stall(thread, STATE_RUNNABLE, stolen_ns);
	return 0;
}

#endif
