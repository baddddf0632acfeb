// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which tracked thread or process has ended?
 * Attach points: tp_btf sched_process_exit, tp_btf sched_process_exec.
 * Maps written: events, process_numbers, intervals, feeding; read by exporter/kernel/rows.py.
 * Lost: events when the ring is full, counted under LOSS_IN_PROCESS; the periodic walk through /proc finds what they would
 *   have said.
 * Cost: a hash look-up per exit and exec of any process; bpf/README.md.
 */
#define LOSS_PROGRAM LOSS_IN_PROCESS
#include "lib/feeding.bpf.h"
#include "lib/interval.bpf.h"
#include "lib/runs.bpf.h"

static __always_inline void leave(struct thread *thread)
{
	leave_feeding(thread);
	end_wait(&thread->account);
	end_thread(thread, bpf_ktime_get_ns());
}

static __always_inline void ended(u32 tgid)
{
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);

	if (!known)
		return;
	u32 number = known->number;

	bpf_map_delete_elem(&process_numbers, &tgid);
	announce(EVENT_PROCESS_ENDED, number);
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread)
		leave(thread);
	/* Only the last thread; `live` is lowered before the tracepoint. (Its group_dead argument exists since 6.16 only.) */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		ended(BPF_CORE_READ(task, tgid));
	return 0;
}

/* Task storage survives exec: the new program must not be booked under the old one's number. */
SEC("tp_btf/sched_process_exec")
int process_exec(u64 *context)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	if (thread) {
		leave(thread);
		thread->process = 0;
		thread->group = 0;
	}
	ended(bpf_get_current_pid_tgid() >> 32);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
