/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What disks do, for which processes, and which threads wait for them. Read by exporter/kernel/disk_rows.py. */
#ifndef GPUSTALL_ABI_DISK_H
#define GPUSTALL_ABI_DISK_H

#include "hist.h"

enum disk_direction {
	DISK_READ = 0,
	DISK_WRITE = 1,
	DISK_FLUSH = 2,
	DISK_DISCARD = 3,
	DISK_OTHER = 4,
};

struct disk_key {
	__u64 cgroup_id; /* that the request was made for; 0: unknown */
	__u32 device;	 /* the kernel's number: major << 20 | minor */
	__u32 direction;
};

struct disk_row {
	__u32 owner; /* place in `owners`; first, as lib/group_share.bpf.h writes it */
	__u32 padding;
	__u64 requests;
	__u64 errors;
	__u64 bytes;
	__u64 queue_ns;	 /* from the creation of requests to their dispatch to the device */
	__u64 device_ns; /* from dispatch to completion */
	__u64 queue_slots[HIST_SLOTS];
	__u64 device_slots[HIST_SLOTS];
};

/*
 * Who causes requests: a job (then tgid is 0), a process outside jobs, or DISK_OUTSIDE as group, without a name. cgroup_id: whose requests
 * a kernel thread makes for an unknown process; else 0.
 */
struct disk_user {
	__u32 group;
	__u32 tgid;
	__u64 cgroup_id;
	char comm[16];
};

struct disk_user_key {
	__u32 device;
	__u32 padding;
	struct disk_user user;
};

struct disk_use {
	__u64 requests;
	__u64 device_ns;
};

/* Sleeps of a job's threads that a request of the device ended; device 0: unknown device. */
struct disk_wait_key {
	__u32 process;
	__u32 device;
};

struct disk_wait {
	__u64 waits;
	__u64 wait_ns;
};

#endif
