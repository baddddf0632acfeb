// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How many pages does a traced process have the kernel allocate? Loaded only when it is asked for.
 * Attach points: tp_btf mm_page_alloc.
 * Maps written: page_allocations, losses; the first is read by exporter/kernel/memory_rows.py.
 * Lost: what is of a process beyond the table, under LOSS_IN_MEMORY. Failed allocations are none.
 * Cost: a few ns for each allocation of pages by any task, and a look-up more by a tracked thread; bpf/README.md.
 */
#define LOSS_PROGRAM LOSS_IN_MEMORY
#include "lib/loss.bpf.h"
#include "lib/thread.bpf.h"

/* Preallocated: this runs wherever memory is allocated. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32); /* process number */
	__type(value, u64);
} page_allocations SEC(".maps");

SEC("tp_btf/mm_page_alloc")
int pages_alloc(u64 *context)
{
	struct thread *thread = watched(bpf_get_current_task_btf());

	if (!thread || !context[0])
		return 0;
	u32 process = thread->group;
	u64 pages = 1ULL << (context[1] & 31);
	u64 *sum = bpf_map_lookup_elem(&page_allocations, &process);

	if (sum)
		__sync_fetch_and_add(sum, pages);
	else if (bpf_map_update_elem(&page_allocations, &process, &pages, BPF_NOEXIST))
		lose(LOSS_ALLOCATORS_FULL);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
