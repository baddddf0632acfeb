/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the hypervisor took of a virtual machine's CPU while a thread was on it (steal): the thread did not run then, it waited.
 * That is booked where the thread leaves the CPU or is interrupted, and never for more than what has not been booked yet of the
 * open call or gap: what an ended one was told to have run, it has run. What is left is booked the next time.
 */
#ifndef GPUSTALL_STOLEN_BPF_H
#define GPUSTALL_STOLEN_BPF_H

#include "blame.bpf.h"
#include "feeding.bpf.h"

/* queue: address of the run queue of the thread's own group. */
__noinline int book_stolen(struct thread *thread, u64 queue, u64 now_ns)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 since_ns = account->since_ns > thread->mark_ns ? account->since_ns : thread->mark_ns;
	u64 taken_ns = stolen_time_ns((void *)queue), stolen_ns = elapsed_ns(account->stolen_before_ns, taken_ns);

	stolen_ns = elapsed_ns(account->fault_run_ns, stolen_ns); /* what it did for a disk of this machine is booked as a fault */
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
	charge_nobody(thread, CULPRIT_HYPERVISOR, stolen_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		stall_feeding(thread, STATE_RUNNABLE, stolen_ns);
	return 0;
}

#endif
