/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Which lines of Python make slow calls: where a call took longer than its operation usually does, the frames above it are read as it
 * returns, and its time is added to those of the same stack. Nothing happens at other calls, in processes without Python, and on
 * kernels before 5.17.
 * Maps written: python_walks, only read here; call_sites, read by exporter/kernel/call_site_rows.py.
 */
#ifndef GPUSTALL_CALL_SITES_BPF_H
#define GPUSTALL_CALL_SITES_BPF_H

#define PYTHON_READ(target, bytes, address, task) bpf_probe_read_user(target, bytes, (void *)(address))
#include "maps.bpf.h"
#include "python.bpf.h"
#include "../abi/operation.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct call_site_key);
	__type(value, struct call_site_row);
} call_sites SEC(".maps");

/* A walk is larger than the stack, and a program for returns can be preempted by another on its CPU. */
struct slow_thread {
	struct python_walk walk;
	struct call_site_row row;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct slow_thread);
} python_walks SEC(".maps");

static __always_inline bool call_site_walk(struct slow_thread *slow, struct task_struct *task, u32 tgid)
{
	struct python_subject subject = {.task = task, .walk = &slow->walk};

	slow->walk.frames_max = CALL_SITE_FRAMES;
	_Pragma("clang loop unroll(full)") for (u32 place = 0; place < PYTHON_INTERPRETERS; place++) {
		if (!python_find_thread(&subject, tgid, place))
			continue;
		python_walk_frames(&subject, false);
		slow->row.place = place;
		if (slow->walk.count)
			return true;
	}
	return false;
}

/* A call of the current thread took longer than slow_ns. */
__noinline int call_site_note(struct operation_key *operation, u64 duration_ns, u64 slow_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_key first = {.tgid = visible_tid(BPF_CORE_READ(task, group_leader))};

	if (!HAS_BPF_LOOP || !operation || !bpf_map_lookup_elem(&interpreters, &first))
		return 0;
	struct slow_thread *slow = bpf_task_storage_get(&python_walks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!slow) {
		drop(DROP_THREAD_STORAGE);
		return 0;
	}
	if (!call_site_walk(slow, task, first.tgid))
		return 0;
	struct call_site_key key = {
		.process = operation->process,
		.operation = operation->operation,
		.stack = slow->walk.hash,
	};
	struct call_site_row *row = bpf_map_lookup_elem(&call_sites, &key);

	if (!row) {
		slow->row.tid = visible_tid(task);
		slow->row.tgid = first.tgid;
		slow->row.status = slow->walk.status;
		slow->row.frame_count = slow->walk.count;
		__builtin_memcpy(slow->row.frames, slow->walk.frames, sizeof(slow->row.frames));
		row = own_row(&call_sites, &key, &slow->row, key.process, SHARE_CALL_SITES, DROP_CALL_SITES_FULL);
	}
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->calls, 1);
	__sync_fetch_and_add(&row->total_ns, duration_ns);
	if (duration_ns > row->slowest_ns)
		row->slowest_ns = duration_ns;
	row->slow_ns = slow_ns;
	return 0;
}

#endif
