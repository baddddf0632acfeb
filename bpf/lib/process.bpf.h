/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A process gets a number of its own at its first traced call. All maps are keyed by that number, so a reused tgid is a new process.
 * Maps written: processes, read by exporter/kernel/process_rows.py; process_numbers and last_number, only read here; settings is
 * written by exporter/kernel/loader.py.
 */
#ifndef GPUSTALL_PROCESS_BPF_H
#define GPUSTALL_PROCESS_BPF_H

#include "events.bpf.h"
#include "places.bpf.h"
#include "share.bpf.h"
#include "../abi/process.h"
#include "../abi/settings.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* tgid */
	__type(value, struct process_number);
} process_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct process_row);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} last_number SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct settings);
} settings SEC(".maps");

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

#define NAMESPACE_LEVELS 32 /* MAX_PID_NS_LEVEL of include/linux/pid_namespace.h */

/*
 * The tid of a task in the exporter's pid namespace (for a group leader, its tgid); 0 if it is not in that namespace. The helper
 * bpf_get_ns_current_pid_tgid() fails for a task in a nested namespace, such as a pod's for an exporter on the node.
 */
static __noinline __attribute__((unused)) u32 visible_tid(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);

	for (u32 i = 0; i < NAMESPACE_LEVELS; i++) {
		struct upid *number = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      i * bpf_core_type_size(struct upid);

		if (!own || i > level)
			break;
		if (BPF_CORE_READ(number, ns, ns.inum) == own->pid_namespace)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

/* Whether a sidecar must ignore a task, because its pid namespace does not show it. Nothing may be recorded about it. */
static __always_inline bool is_outside(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	return own && own->is_confined && !visible_tid(task);
}

/* The number of the current process, assigned now if it has none; 0 if the map is full (counted). */
static __noinline __attribute__((unused)) u32 process_number(struct task_struct *task)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32, zero = 0;
	struct process_number *known = bpf_map_lookup_elem(&process_numbers, &tgid);
	u64 start_ns = BPF_CORE_READ(task, group_leader, start_boottime);

	if (known) {
		if (known->start_ns == start_ns)
			return known->number;
		/* The exit of the previous process with this tgid was missed. */
		bpf_map_delete_elem(&process_numbers, &tgid);
	}
	u64 *last = bpf_map_lookup_elem(&last_number, &zero);

	if (!last)
		return 0;
	struct process_number own = {.number = place_new_number(last), .start_ns = start_ns};
	struct process_row row = {
		.tgid = visible_tid(BPF_CORE_READ(task, group_leader)),
		.start_ns = start_ns,
		.cgroup_id = bpf_get_current_cgroup_id(),
	};

	BPF_CORE_READ_STR_INTO(&row.comm, task, group_leader, comm);
	if (!share_open(own.number) ||
	    bpf_map_update_elem(&processes, &own.number, &row, BPF_NOEXIST)) {
		place_give_back(own.number);
		share_close(own.number);
		drop(DROP_PROCESSES_FULL);
		return 0;
	}
	if (bpf_map_update_elem(&process_numbers, &tgid, &own, BPF_NOEXIST)) {
		/* Another thread of the process was faster, or the map is full. */
		bpf_map_delete_elem(&processes, &own.number);
		place_give_back(own.number);
		share_close(own.number);
		known = bpf_map_lookup_elem(&process_numbers, &tgid);
		if (known && known->start_ns == start_ns)
			return known->number;
		drop(DROP_PROCESSES_FULL);
		return 0;
	}
	if (place_is_held(own.number) && share_take(own.number, SHARE_FEEDING) != SHARE_GRANTED)
		place_give_back(own.number);
	event_send(EVENT_PROCESS_TRACKED, own.number);
	return own.number;
}

#endif
