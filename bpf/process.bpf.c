// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which tracked thread or process has ended, and how?
 * Attach points: tp_btf sched_process_exit, sched_process_exec.
 * Maps written: exits (exporter/kernel/end_rows.py); process_shares, owners, share_totals (share_rows.py); events (events.py); intervals, feeding (thread_rows.py); process_numbers, cpu_runs
 *   (programs only).
 * Dropped: events if the ring is full and rows if a map is, counted under DROP_IN_PROCESS. The periodic walk through /proc finds
 *   processes whose event was dropped.
 * Cost: a hash look-up for each exit and exec of any process; docs/measurements.md.
 */
#define DROP_PROGRAM DROP_IN_PROCESS
#include "lib/feeding.bpf.h"
#include "lib/interval.bpf.h"
#include "lib/maps.bpf.h"
#include "lib/runs.bpf.h"
#include "abi/exit.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* preallocated: written where a process ends, which may be for lack of memory */
	__type(key, struct exit_key);
	__type(value, struct exit_row);
} exits SEC(".maps");

static const struct exit_row empty_exit;

/* A traced process has ended, or one that works for it. */
static __noinline void note_exit(struct task_struct *task, u32 process, bool is_worker)
{
	u32 status = BPF_CORE_READ(task, signal, group_exit_code);
	struct exit_key key = {
		.process = process,
		.status = status ? status : BPF_CORE_READ(task, group_leader, exit_code),
		.is_worker = is_worker,
		.is_victim = BPF_CORE_READ(task, signal, oom_mm) != NULL,
	};
	struct exit_row *row = own_row(&exits, &key, &empty_exit, process, SHARE_EXITS, DROP_EXITS_FULL);

	if (!row)
		return;
	__sync_fetch_and_add(&row->exits, 1);
	row->at_ns = bpf_ktime_get_ns();
}

static __always_inline void end_tracking(struct thread *thread)
{
	struct account *account = &thread->account;

	/* The thread runs. If its account says that it waits for a CPU, its switch-in was missed: the wait ends where it was last charged. */
	if (thread->is_tracked && account->state == STATE_RUNNABLE) {
		account_book(thread, account->blame_ns);
		account->state = account->running_state;
		drop(DROP_HEALED);
	}
	feeding_leave(thread);
	end_wait(account);
	interval_end_thread(thread, bpf_ktime_get_ns());
}

static __always_inline void forget_process(u32 tgid)
{
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);

	if (!known)
		return;
	u32 number = known->number;

	bpf_map_delete_elem(&process_numbers, &tgid);
	event_send(EVENT_PROCESS_ENDED, number);
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread)
		end_tracking(thread);
	/* Only for the last thread; `live` is decremented before the tracepoint. Its group_dead argument only exists since 6.16. */
	if (BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	u32 tgid = BPF_CORE_READ(task, tgid);
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);

	if (known)
		note_exit(task, known->number, false);
	else if (thread && thread->group)
		note_exit(task, thread->group, !thread->is_inside);
	forget_process(tgid);
	return 0;
}

/* Task storage survives exec: the new program must not be recorded under the number of the old one. */
SEC("tp_btf/sched_process_exec")
int process_exec(u64 *context)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	if (thread) {
		end_tracking(thread);
		thread->process = 0;
		thread->group = 0;
	}
	forget_process(bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/*
 * Run by user space, which cannot change sums that other programs add to. Arguments: request; process, or the place of an owner; owner or
 * table; rows.
 */
SEC("raw_tp")
int process_share(struct bpf_raw_tracepoint_args *context)
{
	u32 process = context->args[1], which = context->args[2];
	struct process_share *own = bpf_map_lookup_elem(&process_shares, &process);

	if (context->args[0] == SHARE_REQUEST_CLEAR)
		share_clear(process);
	else if (context->args[0] == SHARE_REQUEST_GROUP)
		share_release(process, which);
	else if (context->args[0] == SHARE_REQUEST_END)
		share_close(process);
	else if (context->args[0] == SHARE_REQUEST_RELEASE)
		share_book(process, which, -(s32)context->args[3]);
	else if (own && own->owner != which && which < SHARE_OWNERS)
		share_move(own, which, false);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
