// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * When does a watched thread free memory itself before it may have some (direct reclaim)? That is done on the CPU: it is no sleep.
 * Attach points: tp_btf mm_vmscan_direct_reclaim_begin, _end, mm_vmscan_memcg_reclaim_begin, _end.
 * Maps written: threads, feeding; read by exporter/kernel/rows.py.
 * Lost: nothing of its own.
 * Cost: a look-up for each direct reclaim of any task.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/chain.bpf.h"
#include "lib/feeding.bpf.h"

static __always_inline int change(u32 running_state)
{
	struct thread *thread = watched(bpf_get_current_task_btf());

	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = bpf_ktime_get_ns();

	if (account->running_state == running_state)
		return 0;
	keep_bases(thread, now_ns);
	book(thread, now_ns);
	account->state = account->running_state = running_state;
	if (!thread->is_step || is_waiting_for_gpu(thread))
		return 0;
	account->sleep_state = STATE_RECLAIM;
	if (running_state == STATE_RECLAIM)
		stop_feeding(thread, now_ns);
	else if (account->is_member)
		resume_feeding(thread, now_ns, 0, now_ns);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int reclaim_direct_begin(u64 *context)
{
	return change(STATE_RECLAIM);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int reclaim_direct_end(u64 *context)
{
	return change(STATE_ON_CPU);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int reclaim_group_begin(u64 *context)
{
	return change(STATE_RECLAIM);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int reclaim_group_end(u64 *context)
{
	return change(STATE_ON_CPU);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
