/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The account of a thread's time: every nanosecond is booked to the state the thread was in.
 * Map written: threads, read by threads.bpf.c.
 */
#ifndef GPUSTALL_ACCOUNT_BPF_H
#define GPUSTALL_ACCOUNT_BPF_H

#include "process.bpf.h"
#include "thread.bpf.h"

#define barrier() asm volatile("" ::: "memory")
/* Not unrolled: the verifier walks a small loop faster than sixteen copies of its body. */
#define EACH_STATE(i) _Pragma("clang loop unroll(disable)") for (u32 i = 0; i < THREAD_STATES; i++)

/* An array of known length, because global functions are verified on their own, without their callers. */
struct states {
	u64 ns[THREAD_STATES];
};

static __always_inline u64 elapsed_ns(u64 since_ns, u64 now_ns)
{
	return (s64)(now_ns - since_ns) > 0 ? now_ns - since_ns : 0;
}

/*
 * Copies the account as of `now_ns` into `total`. On a kernel that preempts here, scheduler programs may change it in between; then it
 * is read again.
 */
__noinline int account_read(struct account *account, u64 now_ns, struct states *total)
{
	if (!account || !total)
		return 0;
	_Pragma("clang loop unroll(disable)") for (int attempt = 0; attempt < 3; attempt++)
	{
		u32 version = account->version;

		barrier();
		EACH_STATE(i)
			total->ns[i] = account->total_ns[i];
		total->ns[state_index(account->state)] += elapsed_ns(account->since_ns, now_ns);
		barrier();
		if (version == account->version && !(version & 1))
			break;
	}
	return 0;
}

/* The gap that began at thread->mark_ns became idle at idle_at_ns: keeps what was booked up to then. */
__noinline int account_begin_idle(struct thread *thread)
{
	if (!thread)
		return 0;
	struct account *account = &thread->account;

	EACH_STATE(i)
		account->idle_total_ns[i] = account->total_ns[i];
	account->idle_total_ns[state_index(account->state)] += elapsed_ns(account->since_ns, thread->idle_at_ns);
	account->idle_of_ns = thread->mark_ns;
	return 0;
}

static __always_inline void account_book(struct thread *thread, u64 now_ns)
{
	struct account *account = &thread->account;
	u64 idle_at_ns = thread->idle_at_ns;

	if (idle_at_ns && now_ns >= idle_at_ns && account->since_ns < idle_at_ns && account->idle_of_ns != thread->mark_ns)
		account_begin_idle(thread);
	u64 ns = elapsed_ns(account->since_ns, now_ns); /* 0 if an interrupt after now_ns has already been booked */

	account->version++;
	barrier();
	account->total_ns[state_index(account->state)] += ns;
	account->since_ns += ns;
	barrier();
	account->version++;
}

static __always_inline bool is_running(const struct account *account)
{
	return account->state == STATE_ON_CPU || account->state == STATE_RECLAIM;
}

/* Steal on the CPU of this run queue so far; 0 without a hypervisor. */
static __always_inline u64 stolen_time_ns(struct cfs_rq *queue)
{
	struct rq *cpu = BPF_CORE_READ(queue, rq);

	return bpf_core_field_exists(cpu->prev_steal_time_rq) ? BPF_CORE_READ(cpu, prev_steal_time_rq) : 0;
}

/* Begins to track the thread, which is running. */
static __always_inline void account_begin(struct thread *thread, struct task_struct *task, u32 state)
{
	u64 now_ns = bpf_ktime_get_ns();

	thread->account.state = state;
	thread->account.running_state = STATE_ON_CPU;
	thread->account.since_ns = now_ns;
	thread->account.sleep_ns = now_ns;
	thread->account.sleep_state = STATE_OTHER;
	thread->account.run_delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	thread->account.first_run_delay_ns = thread->account.run_delay_ns;
	thread->account.stolen_before_ns = stolen_time_ns(task->se.cfs_rq);
	thread->mark_ns = now_ns;
	thread->is_tracked = true;
}

#endif
