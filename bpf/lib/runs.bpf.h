/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who ran on a CPU, written down only while a watched thread waits for it: a ring of the last RUNS runs of each CPU.
 * Unrelated tasks pay 20 to 40 ns a switch for it; a ring that is always on costs them 65 to 105.
 */
#ifndef GPUSTALL_RUNS_BPF_H
#define GPUSTALL_RUNS_BPF_H

#include "cgroup.bpf.h"
#include "process.bpf.h"
#include "thread.bpf.h"

#define RUNS 64
#define OUTSIDE (~0U) /* tgid of whoever is_outside() */

struct run {
	u64 end_ns;
	u64 irq_ns; /* of interrupts meanwhile */
	u64 cgroup_id;
	u32 tgid;  /* 0: the CPU was idle; or OUTSIDE */
	u32 group; /* the job it belongs to, 0: none that is watched */
	char comm[16];
};

struct cpu_runs {
	u32 waiters; /* watched threads that are ready to run here */
	u32 written;
	u64 task;	/* address of the one that runs here now; 0: no switch was seen yet */
	u32 task_group; /* the job it belongs to, 0: none that is watched */
	u32 padding;
	u64 irq_ns;	  /* since the last run was written */
	u64 hard_irq_at_ns; /* when the one that runs began; 0: none */
	u64 soft_irq_at_ns;
	struct run runs[RUNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space asks for one a CPU */
	__type(key, u32);
	__type(value, struct cpu_runs);
} cpu_runs SEC(".maps");

static __always_inline struct cpu_runs *runs_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_runs, &cpu);
}

/* A thread waits for its CPU no longer: it has got it, is moved, or ends without its having been seen to get it. */
static __always_inline void end_wait(struct account *account)
{
	struct cpu_runs *runs = runs_of(account->wait_cpu);

	if (runs && account->is_waiting)
		__sync_fetch_and_add(&runs->waiters, -1);
	account->is_waiting = false;
}

/* On cgroup v1 a task's place in the cpu controller's hierarchy is what one can act on, else the one hierarchy there is. */
static __always_inline u64 cgroup_of(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	if (!own || !own->is_cpu_cgroup_v1)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	return CONTROLLER_GROUP(task, cpu_cgrp_id);
}

/* The parts of a run that tell who it was. */
static __always_inline void describe(struct run *run, struct task_struct *task, u32 tgid)
{
	run->tgid = tgid;
	if (!tgid)
		return;
	if (is_outside(task)) {
		run->tgid = OUTSIDE;
		return;
	}
	run->cgroup_id = cgroup_of(task);
	BPF_CORE_READ_STR_INTO(&run->comm, task, group_leader, comm);
}

/* `task` has run on this CPU until now. */
static __always_inline void write_run(struct cpu_runs *cpu, struct task_struct *task, u32 group, u64 now_ns)
{
	struct run *run = &cpu->runs[cpu->written & (RUNS - 1)];

	run->end_ns = now_ns;
	run->irq_ns = cpu->irq_ns;
	cpu->irq_ns = 0;
	run->group = group;
	describe(run, task, task->tgid);
	barrier();
	cpu->written++;
}

#endif
