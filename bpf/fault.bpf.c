// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long is a tracked thread in a major page fault? That is the request for the page and the sleep, or no sleep if the disk answers at
 * once. Minor faults are not measured.
 * Attach points: tp_btf page_fault_user; the software event PERF_COUNT_SW_PAGE_FAULTS_MAJ, which fires when the page is there, on every
 *   CPU that is online (exporter/kernel/perf_events.py).
 * Maps written: threads, feeding, through the headers below.
 * Dropped: nothing. Without the tracepoint, or on a CPU that came online a moment ago, fault time that is no sleep counts as running.
 * Cost: a look-up for each page fault of any task; docs/measurements.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/wakeup.bpf.h"
#include "lib/feeding.bpf.h"
#include "lib/registers.bpf.h"

SEC("tp_btf/page_fault_user")
int fault_begin(u64 *context)
{
	struct thread *thread = tracked_thread(bpf_get_current_task_btf());

	if (thread)
		thread->account.fault_ns = bpf_ktime_get_ns();
	return 0;
}

/* Books the time since the fault began that is neither a sleep nor a wait for a CPU. */
SEC("perf_event")
int fault_end(struct pt_regs *regs)
{
	if (!IS_USER_MODE(regs)) /* a fault inside a system call: page_fault_user did not run for it */
		return 0;
	struct thread *thread = tracked_thread(bpf_get_current_task_btf());

	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = bpf_ktime_get_ns(), since_ns = account->fault_ns;

	if (!since_ns || account->state != STATE_ON_CPU || account->is_unknown)
		return 0;
	account->fault_ns = 0;
	if (since_ns < account->since_ns)
		since_ns = account->since_ns;
	wakeup_keep_bases(thread, since_ns);
	account_book(thread, since_ns);
	account->state = STATE_FAULT;
	wakeup_keep_bases(thread, now_ns);
	account_book(thread, now_ns);
	account->state = STATE_ON_CPU;
	account->fault_run_ns += elapsed_ns(since_ns, now_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		feeding_stall(thread, STATE_FAULT, elapsed_ns(since_ns, now_ns));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
