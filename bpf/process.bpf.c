// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which tracked thread or process has ended, and how?
 * Attach points: tp_btf sched_process_exit, tp_btf sched_process_exec.
 * Maps written: events, process_numbers, intervals, feeding, exits; read by exporter/kernel/rows.py.
 * Lost: events when the ring is full, counted under LOSS_IN_PROCESS; the periodic walk through /proc finds what they would
 *   have said.
 * Cost: a hash look-up per exit and exec of any process; bpf/README.md.
 */
#define LOSS_PROGRAM LOSS_IN_PROCESS
#include "lib/feeding.bpf.h"
#include "lib/interval.bpf.h"
#include "lib/runs.bpf.h"

/* An exit that nobody reads before 4,095 others have come is pushed out. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct exit_key);
	__type(value, struct exit_row);
} exits SEC(".maps");

/* A process has ended: one with a number, or one that works for a traced one. */
static __noinline void note_exit(struct task_struct *task, u32 process, bool is_worker)
{
	u32 status = BPF_CORE_READ(task, signal, group_exit_code);
	struct exit_key key = {
		.process = process,
		.status = status ? status : BPF_CORE_READ(task, group_leader, exit_code),
		.is_worker = is_worker,
		.is_victim = BPF_CORE_READ(task, signal, oom_mm) != NULL,
	};
	struct exit_row *row = bpf_map_lookup_elem(&exits, &key), first = {.exits = 1, .at_ns = bpf_ktime_get_ns()};

	if (!row) {
		bpf_map_update_elem(&exits, &key, &first, BPF_ANY);
		return;
	}
	__sync_fetch_and_add(&row->exits, 1);
	row->at_ns = first.at_ns;
}

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
	if (BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	u32 tgid = BPF_CORE_READ(task, tgid);
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);

	if (known)
		note_exit(task, known->number, false);
	else if (thread && thread->group)
		note_exit(task, thread->group, !thread->is_inside);
	ended(tgid);
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
