/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Facts that user space gives the programs once, in the only entry of the map `settings`. Written by exporter/kernel/loader.py. */
#ifndef GPUSTALL_ABI_SETTINGS_H
#define GPUSTALL_ABI_SETTINGS_H

#include <linux/types.h>

enum settings_limits {
	GPU_MAJORS = 4,
	HASH_KEY_WORDS = 2,
};

struct settings {
	__u32 pid_namespace; /* inode number of the exporter's own */
	__u32 are_launches_probed; /* 0: when the GPU runs dry is unknown */
	__u64 idle_ns;	     /* the part of a gap beyond this length is idle */
	__s64 preempt_count_offset; /* from this CPU's run queue to its preemption count, in the per-CPU section; 0: unknown */
	__u32 is_cpu_cgroup_v1;	    /* the cpu controller has a hierarchy of its own */
	__u32 gpu_majors[GPU_MAJORS]; /* device numbers of the GPU driver; 0: none */
	__u32 is_confined; /* the pid namespace is not the machine's: tasks outside it are ignored */
	__u64 loaded_ns;   /* when the programs were loaded, CLOCK_BOOTTIME */
	__u32 exporter_tgid; /* in the exporter's own pid namespace */
	__u32 padding;
	__u64 hash_key[HASH_KEY_WORDS]; /* of the hashes of communicators; 0: none, so that every node makes the same */
};

#endif
