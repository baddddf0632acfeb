// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * When does a tracked thread have to free memory before it can allocate (direct reclaim)? It does so on the CPU: this is no sleep.
 * Attach points: tp_btf mm_vmscan_direct_reclaim_begin, _end, mm_vmscan_memcg_reclaim_begin, _end.
 * Maps written: threads, feeding, through the headers below.
 * Dropped: nothing.
 * Cost: a look-up for each direct reclaim of any task; not measured on its own.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/wakeup.bpf.h"
#include "lib/feeding.bpf.h"

static __always_inline int set_running_state(u32 running_state)
{
	struct thread *thread = tracked_thread(bpf_get_current_task_btf());

	if (!thread)
		return 0;
	struct account *account = &thread->account;
	u64 now_ns = bpf_ktime_get_ns();

	if (account->running_state == running_state)
		return 0;
	wakeup_keep_bases(thread, now_ns);
	account_book(thread, now_ns);
	account->state = account->running_state = running_state;
	if (!thread->is_step || is_waiting_for_gpu(thread))
		return 0;
	account->sleep_state = STATE_RECLAIM;
	if (running_state == STATE_RECLAIM)
		feeding_stop(thread, now_ns);
	else if (account->is_member)
		feeding_resume(thread, now_ns, 0, now_ns);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int reclaim_direct_begin(u64 *context)
{
	return set_running_state(STATE_RECLAIM);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int reclaim_direct_end(u64 *context)
{
	return set_running_state(STATE_ON_CPU);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int reclaim_group_begin(u64 *context)
{
	return set_running_state(STATE_RECLAIM);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int reclaim_group_end(u64 *context)
{
	return set_running_state(STATE_ON_CPU);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
