/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who held the CPU while a tracked thread waited for it? The wait is charged to the runs it spans, so the charges add up to the wait.
 * Of a wait that spans more runs than the ring holds, these are taken for all: its charges are as theirs.
 * Map written: blame, read by exporter/kernel/thread_rows.py.
 *
 * Threads of a job that delay each other are either too many, or have been pushed off other CPUs. If a process outside the job holds
 * another CPU that the thread is allowed to use, that process is charged for what threads of the job took here.
 */
#ifndef GPUSTALL_BLAME_BPF_H
#define GPUSTALL_BLAME_BPF_H

#include "account.bpf.h"
#include "maps.bpf.h"
#include "runs.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* preallocated: a scheduler program must not wait for memory */
	__type(key, struct blame_key);
	__type(value, u64);
} blame SEC(".maps");

static __noinline void blame_add(struct blame_key *key, u64 ns)
{
	u64 zero = 0, *sum = own_row(&blame, key, &zero, key->process, SHARE_BLAME, DROP_BLAME_FULL);

	if (sum) {
		__sync_fetch_and_add(sum, ns);
		return;
	}
	struct process_row *row = bpf_map_lookup_elem(&processes, &key->process);

	if (row)
		__sync_fetch_and_add(&row->unblamed_ns, ns);
}

/* A part of the wait that no task caused. */
__noinline int blame_nobody(struct thread *thread, u32 culprit, u64 ns)
{
	if (!thread || !ns)
		return 0;
	struct blame_key key = {.process = thread->group, .victim = victim_kind(thread), .culprit = culprit};

	blame_add(&key, ns);
	return 0;
}

#define NEIGHBOURS 16	    /* CPUs that are searched: the aligned block of this size around the CPU */
#define SCALE 1024
#define LEAST_WAIT_NS 20000 /* shorter waits are not worth the search */

/* A wait for a CPU, or a part of one. */
struct wait {
	u64 since_ns;
	u64 until_ns;
	u64 left_ns; /* of it is not charged yet; set by blame_wait() */
	u64 allowed; /* address of the thread's CPU mask */
	u32 cpu;
	u32 tgid; /* of the thread */
};

static __always_inline bool is_allowed(u64 mask, u32 cpu)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)mask + cpu / 64 * 8);
	return word >> (cpu % 64) & 1;
}

/* Finds a process that holds another CPU the thread may use, and is neither of its job nor a kernel thread; returns whether there is one. */
__noinline int blame_find_other(struct thread *thread, struct wait *wait, struct run *found)
{
	if (!thread || !wait || !found)
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 i = 1; i < NEIGHBOURS; i++)
	{
		u32 other = wait->cpu ^ i;
		struct cpu_runs *runs = cpu_runs_of(other);

		if (!runs || !runs->task || runs->task_group == thread->group || !is_allowed(wait->allowed, other))
			continue;
		struct task_struct *task = (void *)runs->task;
		u32 tgid = BPF_CORE_READ(task, tgid);

		if (!tgid || tgid == wait->tgid || BPF_CORE_READ(task, flags) & PF_KTHREAD)
			continue;
		run_describe(found, task, tgid, wait->until_ns);
		return 1;
	}
	return 0;
}

static __always_inline u32 culprit_of(const struct run *run, bool is_own)
{
	if (is_own)
		return CULPRIT_OWN;
	if (!run->tgid)
		return CULPRIT_IDLE;
	if (run->tgid == OUTSIDE)
		return CULPRIT_OUTSIDE;
	return run->is_exporter ? CULPRIT_EXPORTER : CULPRIT_TASK;
}

/* other_run: charged for what the job's own threads took; NULL: they are charged themselves. */
__noinline int blame_run(struct thread *thread, struct run *run, u64 ns, u32 tgid, struct run *other_run)
{
	if (!thread || !run)
		return 0;
	u64 irq_ns = run->irq_ns < ns ? run->irq_ns : ns;
	struct blame_key key = {.process = thread->group, .victim = victim_kind(thread), .culprit = CULPRIT_IRQ};

	if (irq_ns)
		blame_add(&key, irq_ns);
	ns -= irq_ns;
	if (!ns)
		return 0;
	bool is_own = run->tgid != OUTSIDE && (run->tgid == tgid || run->group == thread->group);

	if (is_own && other_run && other_run->tgid) {
		run = other_run;
		is_own = false;
	}
	key.culprit = culprit_of(run, is_own);
	if (key.culprit != CULPRIT_IDLE && key.culprit != CULPRIT_OUTSIDE) {
		key.cgroup_id = run->cgroup_id;
		__builtin_memcpy(key.comm, run->comm, sizeof(key.comm));
	}
	if (key.culprit == CULPRIT_TASK) {
		key.tgid = run->tgid; /* of others 0: one row for dozens of workers */
		if (run->ancestor_tgid) {
			key.ancestor_tgid = run->ancestor_tgid;
			__builtin_memcpy(key.ancestor_comm, run->ancestor_comm, sizeof(key.ancestor_comm));
		}
	}
	blame_add(&key, ns);
	return 0;
}

/*
 * Charges a wait for this CPU, going back through the runs. The oldest run is cut where the wait began, because that run began before
 * the wait. wait: used up. other_run: room for the run of another CPU, for which a scheduler program has none on its stack.
 */
__noinline int blame_wait(struct thread *thread, struct cpu_runs *cpu, struct wait *wait, struct run *other_run)
{
	if (!thread || !cpu || !wait || !other_run)
		return 0;
	u32 written = cpu->written;
	u64 scale = SCALE, oldest_ns = cpu->runs[written & (RUNS - 1)].end_ns; /* overwritten by the next run */

	other_run->tgid = 0;
	wait->left_ns = elapsed_ns(wait->since_ns, wait->until_ns);
	if (oldest_ns > wait->since_ns && oldest_ns < wait->until_ns) {
		scale = SCALE * wait->left_ns / (wait->until_ns - oldest_ns);
		wait->since_ns = oldest_ns;
	}

	if (wait->until_ns - wait->since_ns >= LEAST_WAIT_NS)
		blame_find_other(thread, wait, other_run);
	/*
	 * Without the oldest run in the ring, whose beginning is no longer known. What changes from run to run is read from *wait each time:
	 * the verifier does not follow what is there, and so does not try every sequence of branches. It would with clang 15 and newer.
	 */
	_Pragma("clang loop unroll(disable)") for (u32 i = 1; i < RUNS; i++)
	{
		barrier();
		struct run *run = &cpu->runs[(written - i) & (RUNS - 1)];
		u64 begin_ns = cpu->runs[(written - i - 1) & (RUNS - 1)].end_ns, since_ns = wait->since_ns, until_ns = wait->until_ns;

		if (until_ns <= since_ns || run->end_ns <= since_ns)
			break;
		if (begin_ns < since_ns)
			begin_ns = since_ns;
		if (begin_ns < until_ns) {
			u64 ns = (until_ns - begin_ns) * scale / SCALE;

			if (ns > wait->left_ns)
				ns = wait->left_ns;
			wait->left_ns -= ns;
			wait->until_ns = begin_ns;
			blame_run(thread, run, ns, wait->tgid, other_run);
		}
	}
	blame_nobody(thread, CULPRIT_UNKNOWN, wait->left_ns);
	return 0;
}

/* Charges what the current task of the CPU has taken since the last run that was written: that part of the wait is done with. */
__noinline int blame_running(struct thread *thread, struct cpu_runs *cpu, struct wait *wait)
{
	if (!thread || !cpu || !wait || !cpu->task)
		return 0;
	struct task_struct *running = (void *)cpu->task;
	u64 last_ns = cpu->runs[(cpu->written - 1) & (RUNS - 1)].end_ns;
	struct run run = {.group = cpu->task_group};

	if (last_ns < wait->since_ns || last_ns > wait->until_ns)
		last_ns = wait->since_ns;
	run_describe(&run, running, BPF_CORE_READ(running, tgid), wait->until_ns);
	blame_run(thread, &run, elapsed_ns(last_ns, wait->until_ns), wait->tgid, NULL);
	wait->until_ns = last_ns;
	return 0;
}

/* Charges a wait that goes on. wait: used up. other_run: as for blame_wait(). */
static __always_inline void blame_open_wait(struct thread *thread, struct cpu_runs *cpu, struct wait *wait, struct run *other_run)
{
	blame_running(thread, cpu, wait);
	if (wait->until_ns > wait->since_ns)
		blame_wait(thread, cpu, wait, other_run);
}

#endif
