// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How much of a CPU's time do interrupts take while a watched thread runs on it, or waits for it? The task they interrupt is not to blame.
 * Attach points: tp_btf irq_handler_entry, irq_handler_exit, softirq_entry, softirq_exit.
 * Maps written: threads, feeding, blame; cpu_runs, which lib/blame.bpf.h reads.
 * Lost: the timer's own interrupt and those between processors, which have no such tracepoints; what comes while an account is written.
 * Cost: an array look-up for each interrupt; two clock reads more while a watched thread runs or waits, and 0.1 us to book it.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/chain.bpf.h"
#include "lib/runs.bpf.h"
#include "lib/stolen.bpf.h"

static __always_inline struct cpu_runs *own_runs(void)
{
	return runs_of(bpf_get_smp_processor_id());
}

static __always_inline bool is_wanted(const struct cpu_runs *cpu)
{
	return cpu->waiters || cpu->task_group;
}

/* In a form that functions can be given which the verifier looks at apart. */
struct interruption {
	u64 began_ns;
	u64 ended_ns;
	u64 queue; /* address of the run queue of the thread's own group */
};

/*
 * What an interrupt took of the thread it came to: as if the thread had been off its CPU for so long, waiting for it. In a page
 * fault, of which nobody knows yet whether it will have been a major one, all of it counts as before the fault: what is left
 * unbooked is the length of the fault alone.
 */
__noinline int book_interrupt(struct thread *thread, struct interruption *one)
{
	if (!thread || !one)
		return 0;
	struct account *account = &thread->account;
	u64 began_ns = one->began_ns, taken_ns = elapsed_ns(began_ns, one->ended_ns);
	u64 fault_ns = account->fault_ns, at_ns = began_ns;

	if (!is_running(account) || account->is_unknown || account->version & 1 || began_ns < account->since_ns ||
	    (thread->idle_at_ns && one->ended_ns >= thread->idle_at_ns))
		return 0;
	if (fault_ns && fault_ns >= account->since_ns && fault_ns >= thread->mark_ns && fault_ns <= began_ns) {
		at_ns = fault_ns;
		account->fault_ns += taken_ns;
	} else {
		book_stolen(thread, one->queue, began_ns);
	}
	keep_bases(thread, at_ns);
	book(thread, at_ns);
	account->interrupted_ns += taken_ns;
	account->version++;
	barrier();
	account->total_ns[STATE_RUNNABLE] += taken_ns;
	account->since_ns += taken_ns;
	barrier();
	account->version++;
	charge_nobody(thread, CULPRIT_IRQ, taken_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		stall_feeding(thread, STATE_RUNNABLE, taken_ns);
	return 0;
}

static __always_inline void add(struct cpu_runs *cpu, u64 *began_at_ns)
{
	u64 began_ns = *began_at_ns;

	if (!began_ns)
		return;
	u64 now_ns = bpf_ktime_get_ns();

	*began_at_ns = 0;
	cpu->irq_ns += elapsed_ns(began_ns, now_ns);
	if (!cpu->task_group)
		return;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = watched(task);

	if (!thread)
		return;
	struct interruption one = {.began_ns = began_ns, .ended_ns = now_ns, .queue = (u64)task->se.cfs_rq};

	book_interrupt(thread, &one);
}

SEC("tp_btf/irq_handler_entry")
int interrupt_hard_entry(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu && is_wanted(cpu) && !cpu->soft_irq_at_ns) /* one that interrupts a soft interrupt is part of its time */
		cpu->hard_irq_at_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int interrupt_hard_exit(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu)
		add(cpu, &cpu->hard_irq_at_ns);
	return 0;
}

SEC("tp_btf/softirq_entry")
int interrupt_soft_entry(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu && is_wanted(cpu))
		cpu->soft_irq_at_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int interrupt_soft_exit(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu)
		add(cpu, &cpu->soft_irq_at_ns);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
