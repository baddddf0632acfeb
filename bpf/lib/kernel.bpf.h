/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The few kernel types the programs read, written by hand and relocated at load (CO-RE), and the includes that
 * every program needs. A dumped vmlinux.h would be 150,000 lines for the same twenty members.
 */
#ifndef GPUSTALL_KERNEL_BPF_H
#define GPUSTALL_KERNEL_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

typedef __u64 u64;
typedef __u32 u32;
typedef __u16 u16;
typedef __u8 u8;
typedef __s64 s64;
typedef __s32 s32;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one per level of nesting */
};

struct task_struct {
	int pid;
	int tgid;
	u64 start_boottime;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	char comm[16];
};

#pragma clang attribute pop

#endif
