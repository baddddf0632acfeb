/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Whose is a control group, and may it have one more row of a table? Rows of groups are created by interrupts, timers and kernel threads,
 * so that the current task says nothing. The group itself does: who made it owns its directory.
 *
 * The owner is that of the outermost group on the path that user space knows as a container of traced processes. Else it is the user who
 * owns the outermost directory that is not root's: all below it was made by that user. Else root made all groups on the path, and each
 * pod, batch job, service, and user of the machine is an owner.
 * Maps written: owners, share_totals (share.bpf.h); rows of the caller's table, whose first member is the place of their owner.
 */
#ifndef GPUSTALL_GROUP_SHARE_BPF_H
#define GPUSTALL_GROUP_SHARE_BPF_H

#include "cgroup.bpf.h"
#include "drop.bpf.h"
#include "share.bpf.h"

#define GROUP_DEPTH 32 /* of a path that is searched; groups further down share one place */

/* systemd: below `user.slice` is a directory for each user, and below that one for each login. */
static __always_inline bool is_of_users(struct kernfs_node *folder)
{
	union {
		char text[16];
		u64 words[2];
	} name = {}, users = {.text = "user.slice"};

	bpf_probe_read_kernel_str(name.text, sizeof(name.text), BPF_CORE_READ(folder, name));
	return name.words[0] == users.words[0] && name.words[1] == users.words[1];
}

static __always_inline u32 place_of_key(u64 key)
{
	u32 *place = bpf_map_lookup_elem(&owner_places, &key);

	return place ? *place : key * 0x9e3779b97f4a7c15ULL >> 56;
}

/* The place in `owners` of the owner of a group, and in the upper half the user who made it. group: address of a struct cgroup, or 0. */
__noinline u64 share_of_group(u64 group)
{
	struct cgroup *own = (void *)group;
	struct kernfs_node *folder = own ? BPF_CORE_READ(own, kn) : NULL;
	bool is_unified = own && !BPF_CORE_READ(own, root, hierarchy_id); /* other hierarchies have other numbers */
	struct kernfs_node *root = NULL, *first = NULL, *second = NULL, *third = NULL;
	u64 user = 0, known = 0;

	_Pragma("clang loop unroll(disable)") for (int i = 0; i < GROUP_DEPTH && folder; i++)
	{
		u64 id = BPF_CORE_READ(folder, id);
		u32 uid = BPF_CORE_READ(folder, iattr, ia_uid.val);
		u32 *place = is_unified ? bpf_map_lookup_elem(&owner_places, &id) : NULL;

		if (place)
			known = *place + 1;
		if (uid)
			user = uid;
		third = second;
		second = first;
		first = root;
		root = folder;
		folder = folder_above(folder);
	}
	if (folder)
		return 0;
	if (known)
		return (known - 1) | user << 32;
	if (user)
		return place_of_key(SHARE_OF_USER | (BPF_CORE_READ(first, id) & 0x7fffffff) << 32 | user) | user << 32;
	if (third && !is_of_users(first))
		return place_of_key(BPF_CORE_READ(third, id));
	return place_of_key(BPF_CORE_READ(second ? second : first ? first : root, id));
}

/* The row of a group at `key`, or `empty` inserted there; NULL if its owner may have no more, or the map is full (counted). */
static __always_inline void *group_row(void *map, const void *key, const void *empty, struct cgroup *group, enum share_table table,
				       enum drop_reason reason)
{
	u32 *row = bpf_map_lookup_elem(map, key);

	if (row)
		return row;
	u64 owner = share_of_group((u64)group);
	u32 place = owner;
	struct owner_row *of_owner = bpf_map_lookup_elem(&owners, &place);

	if (!of_owner)
		return NULL; /* never: all places are there */
	if (!share_has_room(place, table)) {
		of_owner->user = owner >> 32;
		drop(reason);
		return NULL;
	}
	share_add(place, table, 1);
	bool is_new = !bpf_map_update_elem(map, key, empty, BPF_NOEXIST);

	row = bpf_map_lookup_elem(map, key);
	if (!is_new)
		share_add(place, table, -1); /* another CPU was faster, or the map is full */
	else if (row)
		*row = place;
	if (!row)
		drop(reason);
	return row;
}

#endif
