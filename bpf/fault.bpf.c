// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long is a watched thread in a page fault that brings a page from a disk? All of it is of the fault: asking for the page, the
 * sleep, and where the disk answers while it is asked, no sleep at all. Of other page faults nothing is told.
 * Attach points: tp_btf page_fault_user; the software event of major faults (PERF_COUNT_SW_PAGE_FAULTS_MAJ), which comes when the page is
 * there, on every CPU that is online at the start.
 * Maps written: threads, feeding; read by sched.bpf.c.
 * Lost: nothing of its own. Where a kernel lacks the tracepoint, or of a CPU that came later, what is no sleep counts as running.
 * Cost: a look-up for each page fault of any task; bpf/README.md, measured by `make bench`.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/chain.bpf.h"
#include "lib/feeding.bpf.h"
#include "lib/registers.bpf.h"

SEC("tp_btf/page_fault_user")
int fault_begin(u64 *context)
{
	struct thread *thread = watched(bpf_get_current_task_btf());

	if (thread)
		thread->account.fault_ns = bpf_ktime_get_ns();
	return 0;
}

/* What has not been booked as a sleep or a wait for a CPU, from the fault on: the thread ran, or somebody else's machine did. */
SEC("perf_event")
int fault_end(struct pt_regs *regs)
{
	if (!IS_USER_MODE(regs)) /* within a system call, whose begin was no fault's */
		return 0;
	struct thread *thread = watched(bpf_get_current_task_btf());

	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = bpf_ktime_get_ns(), since_ns = account->fault_ns;

	if (!since_ns || account->state != STATE_ON_CPU || account->is_unknown)
		return 0;
	account->fault_ns = 0;
	if (since_ns < account->since_ns)
		since_ns = account->since_ns;
	keep_bases(thread, since_ns);
	book(thread, since_ns);
	account->state = STATE_FAULT;
	keep_bases(thread, now_ns);
	book(thread, now_ns);
	account->state = STATE_ON_CPU;
	account->fault_run_ns += elapsed_ns(since_ns, now_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		stall_feeding(thread, STATE_FAULT, elapsed_ns(since_ns, now_ns));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
