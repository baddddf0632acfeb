/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * For which disk did a thread sleep? The completion of a request wakes its waiters before anything else happens: the last completion
 * on this CPU, in the same context and a moment ago, is the one that ended the sleep.
 * Maps written: disk_waits, read by exporter/kernel/disk_rows.py; completions, by block.bpf.c and read here.
 */
#ifndef GPUSTALL_DISK_BPF_H
#define GPUSTALL_DISK_BPF_H

#include "account.bpf.h"
#include "maps.bpf.h"
#include "../abi/disk.h"

#define COMPLETION_NS 1000000 /* a request of many pages wakes its last waiter this much later at most */

/* The last request that was completed on a CPU. */
struct completion {
	u64 at_ns; /* 0: none yet, or block.bpf.c is not loaded */
	u64 task;  /* that was running, or was interrupted */
	u32 device;
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct completion);
} completions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096); /* preallocated: written by scheduler programs */
	__type(key, struct disk_wait_key);
	__type(value, struct disk_wait);
} disk_waits SEC(".maps");

static const struct disk_wait empty_disk_wait;

/* `thread` sleeps for a disk or a page, and is about to be woken by the current task or by an interrupt on top of it. */
__noinline int disk_book_wait(struct thread *thread, u64 now_ns)
{
	u32 zero = 0;
	struct completion *last = bpf_map_lookup_elem(&completions, &zero);

	if (!thread || !last || !last->at_ns)
		return 0;
	bool is_it = last->task == bpf_get_current_task() && elapsed_ns(last->at_ns, now_ns) < COMPLETION_NS;
	struct disk_wait_key key = {.process = thread->group, .device = is_it ? last->device : 0};
	struct disk_wait *row = own_row(&disk_waits, &key, &empty_disk_wait, key.process, SHARE_DISK_WAITS, DROP_DISK_WAITS_FULL);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->waits, 1);
	__sync_fetch_and_add(&row->wait_ns, elapsed_ns(thread->account.sleep_ns, now_ns));
	return 0;
}

#endif
