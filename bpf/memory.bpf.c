// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which control groups free memory before they may have some (direct reclaim), for how long, and whom does the kernel end for want of it?
 * Attach points: tp_btf mm_vmscan_direct_reclaim_begin, _end, mm_vmscan_memcg_reclaim_begin, _end, sched_process_exit.
 * Maps written: memory_groups, reclaims, oom_victims, losses; the first is read by exporter/kernel/memory_rows.py.
 * Lost: what is of a group beyond the table, and reclaims of more tasks at a time than there is room for, under LOSS_IN_MEMORY.
 * Cost: two look-ups for each direct reclaim of any task, two reads for the end of any thread; bpf/README.md.
 */
#define LOSS_PROGRAM LOSS_IN_MEMORY
#include "lib/cgroup.bpf.h"
#include "lib/hist.bpf.h"
#include "lib/loss.bpf.h"

/* All preallocated: where these programs run there is no memory to be had. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, u64); /* number of the group in the memory controller's hierarchy */
	__type(value, struct memory_row);
} memory_groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);   /* tid */
	__type(value, u64); /* when its reclaim began */
} reclaims SEC(".maps");

/* Of a process with many threads the last two may both find that nobody else is left. */
struct victim {
	u64 start_ns;
	u32 tgid;
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct victim);
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

/* Of the group that the task is in; NULL when there is no room for it. */
static __noinline struct memory_row *row_of(struct task_struct *task)
{
	struct kernfs_node *folder = NULL;

	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		folder = group_folder(BPF_CORE_READ(task, cgroups), bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	u64 number = folder ? BPF_CORE_READ(folder, id) : 0;
	struct memory_row *row = bpf_map_lookup_elem(&memory_groups, &number);

	if (row)
		return row;
	bool is_ours = !bpf_map_update_elem(&memory_groups, &number, &empty_row, BPF_NOEXIST);

	row = bpf_map_lookup_elem(&memory_groups, &number);
	if (!row)
		lose(LOSS_MEMORY_GROUPS_FULL);
	else if (is_ours)
		write_names(row, folder);
	return row;
}

/* ---- direct reclaim ---- */

static __always_inline int begin(void)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 now_ns = bpf_ktime_get_ns();

	if (bpf_map_update_elem(&reclaims, &tid, &now_ns, BPF_ANY))
		lose(LOSS_RECLAIMS_FULL);
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

/* ---- processes that are ended ---- */

/* The tracepoint at which a victim is chosen has other arguments in each kernel; that it was one is known until it is gone. */
SEC("tp_btf/sched_process_exit")
int memory_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct signal_struct *all = task->signal;

	if (!all->oom_mm || all->live.counter)
		return 0;
	struct victim victim = {.tgid = task->tgid, .start_ns = BPF_CORE_READ(task, group_leader, start_boottime)};
	u32 one = 1;

	if (bpf_map_update_elem(&oom_victims, &victim, &one, BPF_NOEXIST))
		return 0;
	struct memory_row *row = row_of(task);

	if (row)
		__sync_fetch_and_add(&row->oom_kills, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
