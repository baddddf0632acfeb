// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How much CPU time do interrupts take while a tracked thread runs on the CPU or waits for it? It is not charged to the interrupted task.
 * Attach points: tp_btf irq_handler_entry, irq_handler_exit, softirq_entry, softirq_exit.
 * Maps written: threads, feeding, blame, through the headers below; cpu_runs (lib/blame.bpf.h).
 * Dropped: local timer and inter-processor interrupts, which have no such tracepoints, and interrupts during a write of an account. Not
 *   counted.
 * Cost: an array look-up for each interrupt; while a tracked thread runs or waits, two clock reads more and 0.1 us to book it;
 *   docs/measurements.md.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/wakeup.bpf.h"
#include "lib/runs.bpf.h"
#include "lib/steal.bpf.h"

static __always_inline struct cpu_runs *own_runs(void)
{
	return cpu_runs_of(bpf_get_smp_processor_id());
}

static __always_inline bool is_wanted(const struct cpu_runs *cpu)
{
	return cpu->waiters || cpu->task_group;
}

/* A struct, because global functions are verified without their callers. */
struct interruption {
	u64 began_ns;
	u64 ended_ns;
	u64 queue; /* address of the thread's run queue */
};

/*
 * Books an interrupt on top of a running thread, as if the thread had waited for its CPU. During a page fault, which may turn out to be a
 * major one, the interrupt is booked as if it came before the fault: then the time not yet booked is the fault alone.
 */
__noinline int interrupt_book(struct thread *thread, struct interruption *one)
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
		steal_book(thread, one->queue, began_ns);
	}
	wakeup_keep_bases(thread, at_ns);
	account_book(thread, at_ns);
	account->interrupted_ns += taken_ns;
	account->version++;
	barrier();
	account->total_ns[STATE_RUNNABLE] += taken_ns;
	account->since_ns += taken_ns;
	barrier();
	account->version++;
	blame_nobody(thread, CULPRIT_IRQ, taken_ns);
	if (thread->is_step && !is_waiting_for_gpu(thread))
		feeding_stall(thread, STATE_RUNNABLE, taken_ns);
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
	struct thread *thread = tracked_thread(task);

	if (!thread)
		return;
	struct interruption one = {.began_ns = began_ns, .ended_ns = now_ns, .queue = (u64)task->se.cfs_rq};

	interrupt_book(thread, &one);
}

SEC("tp_btf/irq_handler_entry")
int interrupt_hard_entry(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu && is_wanted(cpu) && !cpu->soft_irq_at_ns) /* one on top of a soft interrupt is part of its time */
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
