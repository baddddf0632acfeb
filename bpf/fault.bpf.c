// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * When does a watched thread enter a page fault? Of one in which it falls asleep, what comes before the sleep, such as asking the
 * disk for the page, belongs to the fault as well; of any other nothing is told.
 * Attach point: tp_btf page_fault_user.
 * Maps written: threads; read by sched.bpf.c.
 * Lost: nothing of its own. Where a kernel lacks the tracepoint, the time before the sleep counts as running.
 * Cost: a look-up for each page fault of any task; bpf/README.md, measured by `make bench`.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/thread.bpf.h"

SEC("tp_btf/page_fault_user")
int fault_begin(u64 *context)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!task->bpf_storage) /* spares unrelated tasks the look-up */
		return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread && thread->is_tracked)
		thread->account.fault_ns = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
