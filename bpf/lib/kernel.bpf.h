/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The few kernel types that the programs read, written by hand and relocated at load (CO-RE), and the includes that every program
 * needs. A generated vmlinux.h would be 150,000 lines for the same members.
 */
#ifndef GPUSTALL_KERNEL_BPF_H
#define GPUSTALL_KERNEL_BPF_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

typedef __u64 u64;
typedef __u32 u32;
typedef __u16 u16;
typedef __u8 u8;
typedef __s64 s64;
typedef __s32 s32;

#define SECOND_NS 1000000000ULL

/* Since 5.17. The verifier never looks at what a constant condition leaves out. */
#define HAS_BPF_LOOP bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct mm_struct;

struct signal_struct {
	atomic_t live;
	int group_exit_code;	  /* if all threads were ended at once */
	struct mm_struct *oom_mm; /* set if the process is killed for lack of memory */
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

struct user_namespace;

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct user_namespace *s_user_ns;
};

struct inode {
	unsigned short i_mode;
	u32 i_rdev;
	struct super_block *i_sb;
	unsigned long i_ino;
	u32 i_generation;
	s64 i_size;
	s64 i_ctime_sec; /* 6.11 */
	u32 i_ctime_nsec;
};

struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
};

struct inode___before_6_11 { /* and since 6.6 */
	struct timespec64 __i_ctime;
};

struct inode___before_6_6 {
	struct timespec64 i_ctime;
};

struct pipe_inode_info {
	unsigned int head;
	unsigned int tail;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	u32 val;
} kuid_t;

struct kernfs_iattrs {
	kuid_t ia_uid;
};

struct kernfs_node {
	u64 id;
	struct kernfs_iattrs *iattr; /* NULL: as created by root */
	const char *name;
	struct kernfs_node *parent;
	struct kernfs_node *__parent; /* the name of `parent` since 6.15 */
};

struct cgroup_root {
	int hierarchy_id; /* 0: the unified one */
};

struct cgroup {
	struct cgroup_root *root;
	struct kernfs_node *kn;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

enum cgroup_subsys_id {
	cpu_cgrp_id = 1, /* relocated: a kernel built with other controllers has other numbers */
	io_cgrp_id = 3,
	memory_cgrp_id = 4,
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct inode;

struct address_space {
	struct inode *host;
};

struct folio { /* 5.16; the first page of it before */
	struct address_space *mapping;
};

struct page {
	unsigned long compound_head; /* address of the first page, plus 1, in any other page of a folio */
	struct address_space *mapping;
};

struct bio_vec {
	struct page *bv_page;
};

struct bvec_iter {
	unsigned int bi_idx;
};

struct bio {
	u32 bi_opf;
	struct bvec_iter bi_iter;
	struct blkcg_gq *bi_blkg; /* with CONFIG_BLK_CGROUP */
	struct bio_vec *bi_io_vec;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk; /* NULL for a device that is no disk */
};

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len; /* bytes not yet completed */
	struct bio *bio;
	u64 start_time_ns;
	u64 io_start_time_ns; /* dispatch to the device */
};

struct css_set {
	struct cgroup_subsys_state *subsys[2];
	struct cgroup *dfl_cgrp;
};

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr; /* not on a kernel without IPv6 */
};

struct sock_cgroup_data {
	struct cgroup *cgroup; /* with CONFIG_SOCK_CGROUP_DATA */
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
};

struct request_sock { /* a connection that is being opened */
	struct sock_common __req_common;
};

struct socket {
	short type;
	struct sock *sk;
};

struct sk_buff {
	char cb[48];
};

struct trace_event_raw_tcp_retransmit_skb { /* 6.18; before, the event has no record type of its own */
	int err;
};

struct tcp_skb_cb { /* in sk_buff.cb */
	u16 tcp_gso_segs;
};

struct task_struct;

struct rq {
	struct task_struct *curr;
	u64 clock;
	u64 clock_pelt;
	unsigned long lost_idle_time;
	u64 prev_steal_time_rq; /* with CONFIG_PARAVIRT_TIME_ACCOUNTING */
};

struct cfs_rq {
	struct rq *rq;
	u64 throttled_clock_self;
	u64 throttled_clock_self_time; /* 6.6 */
	u64 throttled_clock_pelt;
	u64 throttled_clock_pelt_time; /* 5.19 */
	int throttle_count;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};

struct thread_info {
	u32 cpu;
};

struct bpf_local_storage;

struct return_instance {
	unsigned long stack; /* stack pointer at the entry of a function whose return is probed */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances; /* the innermost one */
};

struct cpumask;

struct user_namespace {
	struct user_namespace *parent;
	kuid_t owner;
	int level; /* 0: of the machine */
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

/* The registers of a task that is not on a CPU. */
struct thread_struct {
	unsigned long fsbase; /* x86-64: where thread-local storage is, and pthread_self() */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	unsigned int __state; /* 0: it can run */
	int on_cpu; /* not on a kernel for one CPU */
	struct sched_entity se;
	struct sched_info sched_info;
	const struct cpumask *cpus_ptr; /* CPUs that it may use */
	unsigned int in_iowait : 1;
	unsigned int in_memstall : 1;
	unsigned long jobctl;
	int exit_code; /* as wait(2) returns it */
	int pid, tgid;
	unsigned long nvcsw, nivcsw; /* switches away from it */
	u64 start_time; /* CLOCK_MONOTONIC */
	u64 start_boottime;
	u64 self_exec_id; /* how often it has become another program */
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	const struct cred *cred;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct uprobe_task *utask;
	struct files_struct *files;
	struct css_set *cgroups;
	struct bpf_local_storage *bpf_storage;
	char comm[16];
	struct thread_struct thread;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#define VM_EXEC 0x4 /* include/linux/mm.h; the same on every architecture */

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_flags;
	struct file *vm_file;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

#pragma clang attribute pop

#endif
