/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The control group of a task for one controller: on cgroup v1 its place in the controller's own hierarchy, on v2 the nearest group
 * for which the controller is enabled. The same in Python: exporter/host/cgroups.py.
 */
#ifndef GPUSTALL_CGROUP_BPF_H
#define GPUSTALL_CGROUP_BPF_H

#include "kernel.bpf.h"

/* NULL: unknown. */
static __always_inline struct cgroup *group_of(struct css_set *set, u32 controller)
{
	struct cgroup_subsys_state *state = NULL;
	u32 offset = bpf_core_field_offset(struct css_set, subsys) + 8 * controller;

	if (bpf_probe_read_kernel(&state, sizeof(state), (void *)set + offset) || !state)
		return NULL;
	return BPF_CORE_READ(state, cgroup);
}

/* The number of a group is the id of kernfs, on 64-bit machines the inode number of its directory; 0: unknown. */
static __always_inline u64 group_number(struct css_set *set, u32 controller)
{
	struct cgroup *group = group_of(set, controller);

	return group ? BPF_CORE_READ(group, kn, id) : 0;
}

static __always_inline struct kernfs_node *folder_above(struct kernfs_node *folder)
{
	return bpf_core_field_exists(folder->__parent) ? BPF_CORE_READ(folder, __parent) : BPF_CORE_READ(folder, parent);
}

/* controller: cpu_cgrp_id and the like. 0 on a kernel built without it. */
#define CONTROLLER_GROUP(task, controller)                                                                                    \
	(bpf_core_enum_value_exists(enum cgroup_subsys_id, controller)                                                        \
		 ? group_number(BPF_CORE_READ(task, cgroups), bpf_core_enum_value(enum cgroup_subsys_id, controller))         \
		 : 0)

#endif
