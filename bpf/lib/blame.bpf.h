/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who held the CPU while a watched thread waited for it: the wait is charged to the runs it spans, so that the charges add up
 * to the wait. What the ring no longer holds is charged to nobody known.
 */
#ifndef GPUSTALL_BLAME_BPF_H
#define GPUSTALL_BLAME_BPF_H

#include "account.bpf.h"
#include "runs.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* preallocated: a scheduler program must not wait for memory */
	__type(key, struct blame_key);
	__type(value, u64);
} blame SEC(".maps");

static __always_inline void add_blame(struct blame_key *key, u64 ns)
{
	u64 *sum = bpf_map_lookup_elem(&blame, key);

	if (!sum) {
		u64 zero = 0;

		bpf_map_update_elem(&blame, key, &zero, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&blame, key);
	}
	if (sum) {
		__sync_fetch_and_add(sum, ns);
		return;
	}
	lose(LOSS_BLAME_FULL);
	struct process_row *row = bpf_map_lookup_elem(&processes, &key->process);

	if (row)
		__sync_fetch_and_add(&row->unblamed_ns, ns);
}

/* A part of the wait that no task is to blame for. */
__noinline int charge_nobody(struct thread *thread, u32 culprit, u64 ns)
{
	if (!thread || !ns)
		return 0;
	struct blame_key key = {.process = thread->group, .victim = victim_kind(thread), .culprit = culprit};

	add_blame(&key, ns);
	return 0;
}

__noinline int charge_run(struct thread *thread, struct run *run, u64 ns, u32 tgid)
{
	if (!thread || !run)
		return 0;
	u64 irq_ns = run->irq_ns < ns ? run->irq_ns : ns;

	charge_nobody(thread, CULPRIT_IRQ, irq_ns);
	ns -= irq_ns;
	if (!run->tgid)
		return charge_nobody(thread, CULPRIT_IDLE, ns);
	if (run->tgid == OUTSIDE)
		return charge_nobody(thread, CULPRIT_OUTSIDE, ns);
	if (!ns)
		return 0;
	bool is_own = run->tgid == tgid || run->group == thread->group;
	struct blame_key key = {
		.process = thread->group,
		.victim = victim_kind(thread),
		.culprit = is_own ? CULPRIT_OWN : CULPRIT_TASK,
		.tgid = is_own ? 0 : run->tgid, /* dozens of workers make one row */
		.cgroup_id = run->cgroup_id,
	};

	__builtin_memcpy(key.comm, run->comm, sizeof(key.comm));
	add_blame(&key, ns);
	return 0;
}

/*
 * Charges the time from `since_ns` until `now_ns`, in which the thread waited for this CPU, going back through the runs.
 * The oldest run is cut at `since_ns`: whatever ran then had been running before. tgid: the victim's.
 */
__noinline int charge_wait(struct thread *thread, struct cpu_runs *cpu, u64 since_ns, u64 now_ns, u32 tgid)
{
	if (!thread || !cpu)
		return 0;
	u32 written = cpu->written;
	u64 until_ns = now_ns;

	/* Without the oldest: when that one began is no longer known. */
	_Pragma("clang loop unroll(disable)") for (u32 i = 1; i < RUNS; i++)
	{
		struct run *run = &cpu->runs[(written - i) & (RUNS - 1)];
		u64 begin_ns = cpu->runs[(written - i - 1) & (RUNS - 1)].end_ns;

		if (until_ns <= since_ns || run->end_ns <= since_ns)
			break;
		if (begin_ns < since_ns)
			begin_ns = since_ns;
		if (begin_ns < until_ns) {
			charge_run(thread, run, until_ns - begin_ns, tgid);
			until_ns = begin_ns;
		}
	}
	if (until_ns > since_ns)
		charge_nobody(thread, CULPRIT_UNKNOWN, until_ns - since_ns);
	return 0;
}

#endif
