/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * How many rows of each table may the processes and control groups of one owner have? As many as are free, so that one owner gets half of a table, two get a
 * third each, and one that comes later always finds room. Only code that creates or deletes a row gets here.
 *
 * User space names the owner of each process. Until then, the cgroups and the user of a process lead to the
 * owner of earlier processes, or else to a place that a hash of both chooses.
 * Control groups are in group_share.bpf.h.
 * The functions are shallow: their callers are deep in the stack of kernel 6.1.
 * Maps written: process_shares, owners, share_totals, read by exporter/kernel/share_rows.py, which also writes owner_places.
 */
#ifndef GPUSTALL_SHARE_BPF_H
#define GPUSTALL_SHARE_BPF_H

#include "drop.bpf.h"
#include "../abi/share.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct process_share);
} process_shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHARE_OWNERS);
	__type(key, u32);
	__type(value, struct owner_row);
} owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct share_totals);
} share_totals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8 * SHARE_OWNERS); /* user space writes at most 8 keys of an owner */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* id of a cgroup, or user_key of struct process_share */
	__type(value, u32); /* place in `owners` */
} owner_places SEC(".maps");

static __always_inline struct share_totals *share_all(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&share_totals, &zero);
}

/* Adds `rows` to what an owner holds. */
static __always_inline int share_add(u32 owner, u32 table, s64 rows)
{
	struct owner_row *of_owner = bpf_map_lookup_elem(&owners, &owner);
	struct share_totals *all = share_all();

	if (!of_owner || !all || table >= SHARE_TABLES)
		return 0;
	__sync_fetch_and_add(&of_owner->used[table], rows);
	__sync_fetch_and_add(&all->used[table], rows);
	return 0;
}

/* Whether an owner may have one more row; if not, that is counted. */
static __always_inline u32 share_has_room(u32 owner, u32 table)
{
	struct owner_row *of_owner = bpf_map_lookup_elem(&owners, &owner);
	struct share_totals *all = share_all();

	if (!of_owner || !all || table >= SHARE_TABLES)
		return true;
	if (of_owner->used[table] < all->capacity[table] - all->used[table])
		return true;
	__sync_fetch_and_add(&of_owner->refused[table], 1);
	return false;
}

static __always_inline void share_book_to(struct process_share *own, u32 table, s32 rows)
{
	if (table >= SHARE_OF_GROUPS)
		return;
	__sync_fetch_and_add(&own->used[table], rows);
	share_add(own->owner, table, rows);
}

/* A row of a control group of this owner was deleted. Kernel 6.1 refuses the index of a table that is an argument, if this is inlined. */
__noinline int share_release(u32 owner, u32 table)
{
	return share_add(owner, table, -1);
}

/* The owner has no processes any more: its place is for another one. What its control groups hold stays until their rows are deleted. */
static __always_inline void share_clear(u32 owner)
{
	struct owner_row *of_owner = bpf_map_lookup_elem(&owners, &owner);

	if (!of_owner)
		return;
	__builtin_memset(of_owner->refused, 0, sizeof(of_owner->refused));
	__builtin_memset(of_owner->used, 0, SHARE_OF_GROUPS * sizeof(of_owner->used[0]));
}

/* Books rows that a process has created, or deleted if negative. */
__noinline int share_book(u32 process, u32 table, s32 rows)
{
	struct process_share *own = bpf_map_lookup_elem(&process_shares, &process);

	if (own)
		share_book_to(own, table, rows);
	return 0;
}

enum share_answer {
	SHARE_GRANTED,
	SHARE_REFUSED,
	SHARE_ENDED, /* the process has ended and been read for the last time: a row would stay for good */
};

/* Whether a process may create a row, which is then booked already. */
__noinline u32 share_take(u32 process, u32 table)
{
	struct process_share *own = bpf_map_lookup_elem(&process_shares, &process);

	if (!own)
		return SHARE_ENDED;
	if (!share_has_room(own->owner, table))
		return SHARE_REFUSED;
	share_book_to(own, table, 1);
	return SHARE_GRANTED;
}

/*
 * The user who answers for a task: its own, or the one who made the outermost user namespace around it. In a namespace a user has
 * thousands of ids.
 */
__noinline u32 share_user(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const struct cred *cred = BPF_CORE_READ(task, cred);
	struct user_namespace *space = BPF_CORE_READ(cred, user_ns), *parent;
	u32 uid = BPF_CORE_READ(cred, uid.val);

	_Pragma("clang loop unroll(disable)") for (int i = 0; i < 33; i++) { /* user namespaces nest 32 deep */
		parent = BPF_CORE_READ(space, parent);
		if (!parent)
			break;
		uid = BPF_CORE_READ(space, owner.val);
		space = parent;
	}
	return uid;
}

/* The place in `owners` of the current process. */
__noinline u32 share_place(struct process_share *own)
{
	if (!own)
		return 0;
	u64 key = own->user_key, hash = (own->group ^ key) * 0x9e3779b97f4a7c15ULL;
	u32 *place;

	_Pragma("clang loop unroll(disable)") for (int level = 1; level <= SHARE_LEVELS; level++)
	{
		u64 group = bpf_get_current_ancestor_cgroup_id(level);

		place = group ? bpf_map_lookup_elem(&owner_places, &group) : NULL;
		if (place)
			return *place;
	}
	place = bpf_map_lookup_elem(&owner_places, &key);
	return place ? *place : hash >> 56;
}

static const struct process_share empty_share;

/* A new process of the current task. Creates its row; 0 if its owner may have no more processes, or the table is full. */
__noinline u32 share_open(u32 process)
{
	struct process_share *own;

	if (bpf_map_update_elem(&process_shares, &process, &empty_share, BPF_NOEXIST))
		return 0;
	own = bpf_map_lookup_elem(&process_shares, &process);
	if (!own)
		return 0;
	own->uid = share_user();
	own->group = bpf_get_current_cgroup_id();
	own->user_key = SHARE_OF_USER | (bpf_get_current_ancestor_cgroup_id(1) & 0x7fffffff) << 32 | own->uid;
	own->owner = share_place(own);
	if (!share_has_room(own->owner, SHARE_PROCESSES))
		return 0;
	share_book_to(own, SHARE_PROCESSES, 1);
	return 1;
}

/* All that a process holds goes to another owner. A row that it creates at this very moment may stay with the old one. */
static __always_inline void share_move(struct process_share *own, u32 to, bool is_ended)
{
	u32 from = own->owner;

	own->owner = to;
	_Pragma("clang loop unroll(disable)") for (u32 table = 0; table < SHARE_OF_GROUPS; table++)
	{
		s32 rows = own->used[table];

		if (!rows)
			continue;
		share_add(from, table, -(s64)rows);
		if (!is_ended)
			share_add(to, table, rows);
	}
}

/* A process has no rows any more. */
__noinline int share_close(u32 process)
{
	struct process_share *own = bpf_map_lookup_elem(&process_shares, &process);

	if (!own)
		return 0;
	share_move(own, own->owner, true);
	bpf_map_delete_elem(&process_shares, &process);
	return 0;
}

#endif
