/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who caused a disk request? For pages that are written back it is the process that made the file dirty, whichever thread makes
 * the request. Else it is the current process. If that is a kernel thread, as for requests over a limit or to an encrypted disk,
 * it is the last process of the request's cgroup that made a request itself; else the cgroup.
 * Maps written: inode_writers, group_users, last_dirty (this file).
 * Dropped: writers and users, if 8,192 others came later (not counted): their requests are their cgroup's.
 */
#ifndef GPUSTALL_OWNER_BPF_H
#define GPUSTALL_OWNER_BPF_H

#include "cgroup.bpf.h"
#include "process.bpf.h"
#include "runs.bpf.h"
#include "thread.bpf.h"
#include "../abi/disk.h"

#define DISK_OUTSIDE (~0U) /* group of a task that is_outside() */
#define OPERATION_WRITES 1 /* odd numbers of enum req_op, in include/linux/blk_types.h */
#define ROOT_CGROUP 1	   /* number of the root of a hierarchy */
#define MAPPING_FLAGS 3	   /* include/linux/page-flags.h: anonymous memory, or no address of a mapping at all */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64); /* address of an inode */
	__type(value, struct disk_user);
} inode_writers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u64); /* cgroup of the io controller */
	__type(value, struct disk_user);
} group_users SEC(".maps");

/* The last pages that were made dirty on a CPU: a program that writes a file makes thousands of its pages dirty in a row. */
struct dirty {
	u64 inode;
	u64 task; /* its process id and thread id */
	u64 exec_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct dirty);
} last_dirty SEC(".maps");

static __always_inline struct disk_user user_of(struct task_struct *task)
{
	struct thread *thread = tracked_thread(task);
	struct disk_user user = {.group = thread ? thread->group : is_outside(task) ? DISK_OUTSIDE : 0};

	if (user.group != DISK_OUTSIDE)
		BPF_CORE_READ_STR_INTO(&user.comm, task, group_leader, comm);
	if (!user.group)
		user.tgid = task->tgid;
	return user;
}

static __always_inline bool is_kernel_thread(struct task_struct *task)
{
	return task->flags & PF_KTHREAD;
}

/* The cgroup that caused the request, even if the kernel writes the data back much later; NULL: unknown. */
static __always_inline struct cgroup *group_of_bio(struct bio *bio)
{
	return bio && bpf_core_field_exists(bio->bi_blkg) ? BPF_CORE_READ(bio, bi_blkg, blkcg, css.cgroup) : NULL;
}

/* Address of the inode whose page cache the first page belongs to; 0: anonymous memory, or none. */
static __always_inline u64 inode_of_bio(struct bio *bio)
{
	struct bio_vec *vector = BPF_CORE_READ(bio, bi_io_vec);
	u32 size = bpf_core_type_size(struct bio_vec), index = BPF_CORE_READ(bio, bi_iter.bi_idx);

	if (!vector)
		return 0;
	vector = (void *)vector + index * size;
	struct page *page = BPF_CORE_READ(vector, bv_page);

	if (!page)
		return 0;
	u64 head = BPF_CORE_READ(page, compound_head);

	if (head & 1)
		page = (void *)(head - 1);
	struct folio *folio = (void *)page;
	u64 mapping = (u64)(bpf_core_field_exists(folio->mapping) ? BPF_CORE_READ(folio, mapping) : BPF_CORE_READ(page, mapping));

	if (!mapping || mapping & MAPPING_FLAGS)
		return 0;
	return (u64)BPF_CORE_READ((struct address_space *)mapping, host);
}

/* The current task has made a page of the file dirty, or its inode. */
static __always_inline void owner_note_dirty(u64 inode)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 zero = 0;
	struct dirty *last = bpf_map_lookup_elem(&last_dirty, &zero);

	u64 id = bpf_get_current_pid_tgid();

	if (!last || is_kernel_thread(task))
		return;
	if (last->inode == inode && last->task == id && last->exec_id == task->self_exec_id)
		return;
	struct disk_user user = user_of(task);

	last->inode = inode;
	last->task = id;
	last->exec_id = task->self_exec_id;
	bpf_map_update_elem(&inode_writers, &inode, &user, BPF_ANY);
}

/* The current task makes a request of its own. */
static __always_inline void owner_note_request(struct disk_user *user, u64 group)
{
	struct disk_user *known = bpf_map_lookup_elem(&group_users, &group);

	if (!known || known->tgid != user->tgid || known->group != user->group)
		bpf_map_update_elem(&group_users, &group, user, BPF_ANY);
}

/* The task has become another program, whose first request may be over a limit, and so made by a kernel thread. */
static __always_inline void owner_note_exec(struct task_struct *task)
{
	u64 group = CONTROLLER_GROUP(task, io_cgrp_id);
	struct disk_user *known = bpf_map_lookup_elem(&group_users, &group);

	if (known && known->tgid == (u32)task->tgid)
		BPF_CORE_READ_STR_INTO(&known->comm, task, group_leader, comm);
}

/* Who caused a request that the current task makes. */
static __always_inline struct disk_user owner_of(struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u64 group = BPF_CORE_READ(group_of_bio(bio), kn, id), inode = BPF_CORE_READ(bio, bi_opf) & OPERATION_WRITES ? inode_of_bio(bio) : 0;
	struct disk_user *known = inode ? bpf_map_lookup_elem(&inode_writers, &inode) : NULL;

	if (!known && group > ROOT_CGROUP && is_kernel_thread(task))
		known = bpf_map_lookup_elem(&group_users, &group);
	if (known)
		return *known;
	struct disk_user user = user_of(task);

	if (group > ROOT_CGROUP) {
		if (is_kernel_thread(task))
			user.cgroup_id = group;
		else
			owner_note_request(&user, group);
	}
	return user;
}

#endif
