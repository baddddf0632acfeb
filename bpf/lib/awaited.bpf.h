/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Who ended a sleep: who released the lock, wrote to the pipe or read from it, or was the child. The reader of a pipe is also known from
 * writes that woke it: one that has been stopped, or computes, wakes no writer.
 * Maps written: awaited, read by exporter/kernel/awaited_rows.py; readers, also read by threads.bpf.c.
 */
#ifndef GPUSTALL_AWAITED_BPF_H
#define GPUSTALL_AWAITED_BPF_H

#include "account.bpf.h"
#include "blocked.bpf.h"
#include "maps.bpf.h"
#include "readers.bpf.h"
#include "waker.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH); /* names are chosen by programs, which may use many */
	__uint(max_entries, 4096);
	__type(key, struct awaited_key);
	__type(value, u64);
} awaited SEC(".maps");

/* A descriptor of a task, by its address: global functions, which are verified once, take no pointers to tasks. */
struct written {
	u64 task;
	u64 descriptor;
};

__noinline int awaited_identify(struct output_key *key, struct written *written)
{
	struct file *file = written ? file_of((void *)written->task, written->descriptor) : NULL;

	if (!key || !file)
		return 0;
	key->inode = BPF_CORE_READ(file, f_inode, i_ino);
	key->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
	return 0;
}

/* `task`, by its address, as a thread of process `tgid` sees it. */
struct other {
	u64 task;
	u32 tgid;
	u32 is_of_job;
};

/* Describes a task; not a thread of the kernel, which only passes on what another task does. */
__noinline int awaited_describe(struct awaited_by *by, struct other *other)
{
	struct task_struct *task = other ? (void *)other->task : NULL;

	if (!by || !other || BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return 0;
	if ((u32)BPF_CORE_READ(task, tgid) == other->tgid) {
		by->kind = AWAITED_THREAD;
		BPF_CORE_READ_STR_INTO(&by->comm, task, comm);
		return 0;
	}
	if (is_outside(task)) {
		by->kind = AWAITED_OUTSIDE;
		return 0;
	}
	by->kind = other->is_of_job ? AWAITED_WORKER : AWAITED_PROCESS;
	by->tgid = BPF_CORE_READ(task, tgid);
	BPF_CORE_READ_STR_INTO(&by->comm, task, group_leader, comm);
	return 0;
}

static __always_inline bool is_writer(u32 class)
{
	return class == BY_WRITTEN || class == BY_SPLICED;
}

static __always_inline u64 written_descriptor(struct task_struct *task, u32 class)
{
	return class == BY_SPLICED ? THIRD_ARGUMENT(task) : FIRST_ARGUMENT(task);
}

/* `current`, a thread of a job, is about to wake `task`: remembers it as the reader if it does so by writing to a pipe or terminal. */
static __always_inline void awaited_note_reader(struct task_struct *current, struct task_struct *task, u32 is_of_job)
{
	struct output_key key = {};
	struct awaited_by by = {};
	struct other reader = {.task = (u64)task, .tgid = current->tgid, .is_of_job = is_of_job};
	u32 class = sleep_class_of(current);

	if (!is_writer(class) || is_writer(sleep_class_of(task)) || !is_by_current(current, false))
		return;
	struct written written = {.task = (u64)current, .descriptor = written_descriptor(current, class)};

	awaited_identify(&key, &written);
	awaited_describe(&by, &reader);
	if (key.inode && by.kind)
		bpf_map_update_elem(&readers, &key, &by, BPF_ANY);
}

/* `thread`, of `current`, is about to sleep. */
static __always_inline void awaited_begin(struct thread *thread, struct task_struct *current, u32 state)
{
	u32 class = sleep_class_of(current);

	if (state == STATE_LOCK) {
		thread->account.is_for_file = class == BY_FILE_LOCK;
		thread->account.is_for_signal = is_for_signal(current);
	}
	if (state != STATE_OUTPUT)
		return;
	struct written written = {.task = (u64)current, .descriptor = written_descriptor(current, class)};

	thread->account.output.inode = 0;
	if (is_writer(class))
		awaited_identify(&thread->account.output, &written);
}

static __always_inline bool is_awaiting(const struct thread *thread)
{
	u32 state = thread->account.state;

	return state == STATE_OUTPUT || (thread->is_step && (state == STATE_LOCK || state == STATE_PIPE || state == STATE_CHILD));
}

/* `thread` is about to be woken: books its sleep. by: the waker, if the thread waited for it. */
__noinline int awaited_book(struct thread *thread, struct awaited_by *by, u64 now_ns)
{
	if (!thread || !by)
		return 0;
	struct account *account = &thread->account;
	struct awaited_key key = {.process = thread->group, .state = account->state};
	struct output_key output = account->output;
	struct awaited_by waker = *by; /* on the stack, as kernel 6.1 wants the value of a map */

	key.by = waker;

	if (account->state == STATE_OUTPUT && output.inode) {
		struct awaited_by *reader = waker.kind ? NULL : bpf_map_lookup_elem(&readers, &output);

		if (waker.kind)
			bpf_map_update_elem(&readers, &output, &waker, BPF_ANY);
		else if (reader)
			key.by = *reader;
	}
	bool is_of_job = key.by.kind == AWAITED_THREAD || key.by.kind == AWAITED_WORKER;

	if (!key.by.kind || (is_of_job && !thread->is_step)) /* a worker that hands its data to the job */
		return 0;
	u64 zero = 0, *slept_ns = lookup_or_create(&awaited, &key, &zero, DROP_AWAITED_FULL);

	if (slept_ns)
		__sync_fetch_and_add(slept_ns, elapsed_ns(account->sleep_ns, now_ns));
	return 0;
}

#endif
