// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How much of a CPU's time do interrupts take while a watched thread waits for it? The task they interrupt is not to blame.
 * Attach points: tp_btf irq_handler_entry, irq_handler_exit, softirq_entry, softirq_exit.
 * Maps written: cpu_runs; read by lib/blame.bpf.h.
 * Lost: the timer's own interrupt and those between processors, which have no such tracepoints.
 * Cost: an array look-up for each interrupt; a clock read more while somebody waits.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/account.bpf.h"
#include "lib/runs.bpf.h"

static __always_inline struct cpu_runs *own_runs(void)
{
	return runs_of(bpf_get_smp_processor_id());
}

static __always_inline void add(struct cpu_runs *cpu, u64 *began_ns)
{
	if (!*began_ns)
		return;
	cpu->irq_ns += elapsed_ns(*began_ns, bpf_ktime_get_ns());
	*began_ns = 0;
}

SEC("tp_btf/irq_handler_entry")
int interrupt_hard_entry(u64 *context)
{
	struct cpu_runs *cpu = own_runs();

	if (cpu && cpu->waiters && !cpu->soft_irq_at_ns) /* one that interrupts a soft interrupt is part of its time */
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

	if (cpu && cpu->waiters)
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
