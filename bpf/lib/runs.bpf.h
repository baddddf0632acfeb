/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What ran on each CPU: a ring of the last RUNS runs, written only while a tracked thread waits for that CPU. Unrelated tasks pay 20 to
 * 40 ns a switch for it; a ring that is always written costs them 65 to 105 ns.
 * Map written: cpu_runs, read by lib/blame.bpf.h.
 */
#ifndef GPUSTALL_RUNS_BPF_H
#define GPUSTALL_RUNS_BPF_H

#include "cgroup.bpf.h"
#include "process.bpf.h"
#include "thread.bpf.h"

#define RUNS 64
#define OUTSIDE (~0U) /* tgid of a task that is_outside() */
#define YOUNG_NS 2000000000ULL /* a younger process may be one of many that end at once; an older ancestor is one to act on */
#define ANCESTORS 8
#define INIT 1
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

struct run {
	u64 end_ns;
	u64 irq_ns; /* interrupts during the run */
	u64 cgroup_id;
	u32 tgid;  /* 0: idle; or OUTSIDE */
	u32 group; /* job that the task belongs to; 0: not tracked */
	u32 ancestor_tgid; /* of a young process; else 0 */
	u32 is_exporter;
	char comm[16];
	char ancestor_comm[16];
};

struct cpu_runs {
	u32 waiters; /* tracked threads that wait for this CPU */
	u32 written;
	u64 task;	/* address of the current task; 0: no switch yet */
	u32 task_group; /* job of the current task; 0: not tracked */
	u32 padding;
	u64 irq_ns;	  /* since the last run was written */
	u64 hard_irq_at_ns; /* when the current one began; 0: none */
	u64 soft_irq_at_ns;
	struct run runs[RUNS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space sets one for each CPU */
	__type(key, u32);
	__type(value, struct cpu_runs);
} cpu_runs SEC(".maps");

static __always_inline struct cpu_runs *cpu_runs_of(u32 cpu)
{
	return bpf_map_lookup_elem(&cpu_runs, &cpu);
}

/* The thread no longer waits for its CPU: it runs, has moved, or ends. */
static __always_inline void end_wait(struct account *account)
{
	struct cpu_runs *runs = cpu_runs_of(account->wait_cpu);

	if (runs && account->is_waiting)
		__sync_fetch_and_add(&runs->waiters, -1);
	account->is_waiting = false;
}

/* On cgroup v1 the group of the cpu controller, which is the one to act on; else the group of the unified hierarchy. */
static __always_inline u64 cgroup_of(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	if (!own || !own->is_cpu_cgroup_v1)
		return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	return CONTROLLER_GROUP(task, cpu_cgrp_id);
}

static __always_inline bool is_exporter(struct task_struct *task, u32 tgid)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	return own && own->exporter_tgid == (own->is_confined ? visible_tid(BPF_CORE_READ(task, group_leader)) : tgid);
}

static __always_inline bool is_younger(struct task_struct *task, u64 now_ns, u64 age_ns)
{
	return (s64)(now_ns - BPF_CORE_READ(task, group_leader, start_time)) < (s64)age_ns;
}

/* The nearest ancestor of a task, given by its address, that lasts; of too many generations the last one that was looked at. */
__noinline int run_find_ancestor(struct run *run, u64 address, u64 now_ns)
{
	struct task_struct *task = (void *)address, *ancestor = NULL;

	if (!run)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < ANCESTORS; i++)
	{
		task = BPF_CORE_READ(task, real_parent, group_leader);
		u32 tgid = BPF_CORE_READ(task, tgid);

		if (!tgid || is_outside(task))
			break;
		ancestor = task;
		run->ancestor_tgid = tgid;
		if (tgid == INIT || !is_younger(task, now_ns, YOUNG_NS))
			break;
	}
	if (ancestor)
		BPF_CORE_READ_STR_INTO(&run->ancestor_comm, ancestor, comm);
	return 0;
}

/* Fills in which task ran. */
static __always_inline void run_describe(struct run *run, struct task_struct *task, u32 tgid, u64 now_ns)
{
	run->tgid = tgid;
	run->ancestor_tgid = 0;
	run->is_exporter = 0;
	if (!tgid)
		return;
	if (is_outside(task)) {
		run->tgid = OUTSIDE;
		return;
	}
	run->cgroup_id = cgroup_of(task);
	run->is_exporter = is_exporter(task, tgid);
	BPF_CORE_READ_STR_INTO(&run->comm, task, group_leader, comm);
	if (is_younger(task, now_ns, YOUNG_NS) && !(BPF_CORE_READ(task, flags) & PF_KTHREAD))
		run_find_ancestor(run, (u64)BPF_CORE_READ(task, group_leader), now_ns);
}

/* Records that `task` has run on this CPU until now. */
static __always_inline void write_run(struct cpu_runs *cpu, struct task_struct *task, u32 group, u64 now_ns)
{
	struct run *run = &cpu->runs[cpu->written & (RUNS - 1)];

	run->end_ns = now_ns;
	run->irq_ns = cpu->irq_ns;
	cpu->irq_ns = 0;
	run->group = group;
	run_describe(run, task, task->tgid, now_ns);
	barrier();
	cpu->written++;
}

#endif
