// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How many pages does the kernel allocate for a traced process? Loaded with --collector.memory.page-allocations alone.
 * Attach points: tp_btf mm_page_alloc.
 * Maps written: page_allocations (exporter/kernel/memory_rows.py).
 * Dropped: processes if the map is full, counted under DROP_IN_MEMORY. Failed allocations are not counted.
 * Cost: a few ns for each allocation of pages by any task, and a look-up more for a tracked thread; bpf/README.md.
 */
#define DROP_PROGRAM DROP_IN_MEMORY
#include "lib/maps.bpf.h"
#include "lib/thread.bpf.h"

/* Preallocated: this runs inside the allocator. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32); /* process number */
	__type(value, u64);
} page_allocations SEC(".maps");

SEC("tp_btf/mm_page_alloc")
int pages_alloc(u64 *context)
{
	struct thread *thread = tracked_thread(bpf_get_current_task_btf());

	if (!thread || !context[0])
		return 0;
	u32 process = thread->group;
	u64 pages = 1ULL << (context[1] & 31);
	u64 zero = 0, *sum = lookup_or_create(&page_allocations, &process, &zero, DROP_ALLOCATORS_FULL);

	if (sum)
		__sync_fetch_and_add(sum, pages);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
