// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which control groups have to free memory before they can allocate (direct reclaim), for how long, and which processes does the kernel
 *   kill for lack of memory?
 * Attach points: tp_btf mm_vmscan_direct_reclaim_begin, _end, mm_vmscan_memcg_reclaim_begin, _end, sched_process_exit.
 * Maps written: memory_groups (exporter/kernel/memory_rows.py); owners, share_totals (lib/share.bpf.h); reclaims, oom_victims (this file).
 * Dropped: groups if the map is full or their owner has its share, and reclaims if more tasks reclaim at a time than it holds, counted under DROP_IN_MEMORY.
 * Cost: two look-ups for each direct reclaim of any task, two reads at the end of any thread; bpf/README.md.
 */
#define DROP_PROGRAM DROP_IN_MEMORY
#include "lib/cgroup.bpf.h"
#include "lib/group_share.bpf.h"
#include "lib/hist.bpf.h"
#include "abi/memory.h"

/* All preallocated: these programs run when memory is short. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, u64); /* number of the group in the memory controller's hierarchy */
	__type(value, struct memory_row);
} memory_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);   /* tid */
	__type(value, u64); /* when its reclaim began */
} reclaims SEC(".maps");

/* The last two threads of a process may both find that they are the last one. */
struct oom_victim {
	u64 start_ns;
	u32 tgid;
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct oom_victim);
	__type(value, u32);
} oom_victims SEC(".maps");

static const struct memory_row empty_row;

static __always_inline void write_names(struct memory_row *row, struct kernfs_node *folder)
{
	for (u32 i = 0; i < GROUP_NAMES && folder; i++) {
		bpf_probe_read_kernel_str(&row->names[i * GROUP_NAME_BYTES], GROUP_NAME_BYTES, BPF_CORE_READ(folder, name));
		folder = folder_above(folder);
	}
}

/* The row of the task's group; NULL if there is no room for it (counted). */
static __noinline struct memory_row *row_of(struct task_struct *task)
{
	struct cgroup *group = NULL;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		group = group_of(BPF_CORE_READ(task, cgroups), bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	u64 number = group ? BPF_CORE_READ(group, kn, id) : 0;
	struct memory_row *row = group_row(&memory_groups, &number, &empty_row, group, SHARE_MEMORY_GROUPS, DROP_MEMORY_GROUPS_FULL);

	if (row && group && !row->names[0])
		write_names(row, BPF_CORE_READ(group, kn));
	return row;
}

/* ---- direct reclaim ---- */

static __always_inline int begin(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now_ns = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&reclaims, &tid, &now_ns, BPF_ANY))
		drop(DROP_RECLAIMS_FULL);
	return 0;
}

static __always_inline int end(u64 pages)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 *began_ns = bpf_map_lookup_elem(&reclaims, &tid);

	if (!began_ns)
		return 0;
	u64 took_ns = bpf_ktime_get_ns() - *began_ns;
	struct memory_row *row = row_of(bpf_get_current_task_btf());

	bpf_map_delete_elem(&reclaims, &tid);
	if (!row)
		return 0;
	u32 slot = hist_slot(duration_units(took_ns));

	__sync_fetch_and_add(&row->reclaim_ns, took_ns);
	__sync_fetch_and_add(&row->reclaimed_pages, pages);
	if (slot < HIST_SLOTS)
		__sync_fetch_and_add(&row->slots[slot], 1);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int memory_direct_begin(u64 *context)
{
	return begin();
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int memory_direct_end(u64 *context)
{
	return end(context[0]);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int memory_group_begin(u64 *context)
{
	return begin();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int memory_group_end(u64 *context)
{
	return end(context[0]);
}

/* ---- OOM kills ---- */

/* The tracepoint at which a victim is chosen has different arguments in each kernel; signal->oom_mm is set until the process is gone. */
SEC("tp_btf/sched_process_exit")
int memory_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct signal_struct *all = task->signal;

	if (!all->oom_mm || all->live.counter)
		return 0;
	struct oom_victim victim = {.tgid = task->tgid, .start_ns = BPF_CORE_READ(task, group_leader, start_boottime)};
	u32 one = 1;

	if (bpf_map_update_elem(&oom_victims, &victim, &one, BPF_NOEXIST))
		return 0;
	struct memory_row *row = row_of(task);

	if (row)
		__sync_fetch_and_add(&row->oom_kills, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
