/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * GPU memory and pinned host memory of a process: what lives, the peak, and frees of what is not known.
 * Maps written: allocations, pruned by exporter/kernel/tables.py; processes, read by exporter/kernel/process_rows.py; pinned.
 */
#ifndef GPUSTALL_ALLOCATION_BPF_H
#define GPUSTALL_ALLOCATION_BPF_H

#include "arguments.bpf.h"
#include "call.bpf.h"
#include "maps.bpf.h"
#include "pinned.bpf.h"
#include "size.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct allocation_key);
	__type(value, struct allocation);
} allocations SEC(".maps");

static __always_inline struct allocation_key allocation_at(struct thread *thread, struct call *call, u64 address)
{
	return (struct allocation_key){
		.process = thread->process,
		.is_handle = COOKIE_FIELD(call->cookie, COOKIE_HANDLE, 1),
		.address = address,
	};
}

/*
 * The entry is removed before the call runs, not after it: once the library has freed the address, another thread may get the same
 * address, and its new entry must stay.
 */
static __always_inline void take_allocation(struct thread *thread, struct call *call, u64 address)
{
	struct allocation_key key = allocation_at(thread, call, address);
	struct allocation *known = bpf_map_lookup_elem(&allocations, &key);

	call->arguments[FREE_ADDRESS] = address;
	call->arguments[FREE_BYTES] = known ? known->bytes : 0;
	call->arguments[FREE_KIND] = known ? known->kind : 0;
	call->arguments[FREE_IS_KNOWN] = known && delete_row(&allocations, &key, thread->process, SHARE_ALLOCATIONS);
}

static __always_inline void raise_peak(struct process_row *process, u64 live_bytes)
{
	u64 peak_bytes = process->peak_bytes;

	for (int i = 0; i < 4 && (s64)live_bytes > (s64)peak_bytes; i++) /* repeats if threads allocate at the same time */
		peak_bytes = __sync_val_compare_and_swap(&process->peak_bytes, peak_bytes, live_bytes);
}

static __always_inline void add_live(struct process_row *process, u32 kind, u64 bytes)
{
	u64 live_bytes;

	if (kind == ALLOCATION_PINNED) {
		__sync_fetch_and_add(&process->pinned_bytes, bytes);
		return;
	}
	if (kind == ALLOCATION_MANAGED)
		__sync_fetch_and_add(&process->managed_bytes, bytes);
	live_bytes = __sync_fetch_and_add(&process->allocated_bytes, bytes) + bytes - process->freed_bytes;
	raise_peak(process, live_bytes);
}

static __always_inline void take_live(struct process_row *process, u32 kind, u64 bytes)
{
	if (kind == ALLOCATION_PINNED) {
		__sync_fetch_and_add(&process->pinned_bytes, -bytes);
		return;
	}
	if (kind == ALLOCATION_MANAGED)
		__sync_fetch_and_add(&process->managed_bytes, -bytes);
	__sync_fetch_and_add(&process->freed_bytes, bytes);
}

static __always_inline u32 allocation_kind(u64 cookie)
{
	if (call_shape(cookie) == SHAPE_PIN || call_shape(cookie) == SHAPE_PIN_AT)
		return ALLOCATION_PINNED;
	return COOKIE_FIELD(cookie, COOKIE_MANAGED, 1) ? ALLOCATION_MANAGED : ALLOCATION_DEVICE;
}

static __always_inline void allocated(struct thread *thread, struct call *call, struct process_row *process)
{
	u64 address = call->arguments[ALLOCATE_WHERE];
	struct allocation own = {.bytes = call->arguments[ALLOCATE_BYTES], .kind = allocation_kind(call->cookie)};

	if (call_shape(call->cookie) != SHAPE_PIN_AT &&
	    bpf_probe_read_user(&address, sizeof(address), (void *)call->arguments[ALLOCATE_WHERE])) {
		drop(DROP_READ_FAULT);
		return;
	}
	if (!address) /* a request for zero bytes */
		return;
	if (own.bytes > SIZE_MOST || process->allocated_bytes > SIZE_SUM_MOST) {
		drop(DROP_IMPLAUSIBLE_SIZE);
		return;
	}
	struct allocation_key key = allocation_at(thread, call, address);
	struct allocation *stale = bpf_map_lookup_elem(&allocations, &key);

	if (stale) /* it was freed by a function that is not probed */
		take_live(process, stale->kind, stale->bytes);
	else
		__sync_fetch_and_add(&process->live_allocations, 1);
	if (stale ? bpf_map_update_elem(&allocations, &key, &own, BPF_EXIST) :
		    !create_row(&allocations, &key, &own, thread->process, SHARE_ALLOCATIONS, DROP_ALLOCATIONS_FULL)) {
		__sync_fetch_and_add(&process->live_allocations, -1);
		return;
	}
	add_live(process, own.kind, own.bytes);
	if (own.kind == ALLOCATION_PINNED)
		__sync_fetch_and_add(&process->pinned_blocks, pinned_each_block(thread->process, address, own.bytes, true));
}

static __always_inline void freed(struct thread *thread, struct call *call, struct process_row *process)
{
	u64 *arguments = call->arguments;

	if (arguments[FREE_IS_KNOWN]) {
		take_live(process, arguments[FREE_KIND], arguments[FREE_BYTES]);
		__sync_fetch_and_add(&process->live_allocations, -1);
		if (arguments[FREE_KIND] == ALLOCATION_PINNED)
			__sync_fetch_and_add(&process->pinned_blocks,
					     -(u64)pinned_each_block(thread->process, arguments[FREE_ADDRESS],
								arguments[FREE_BYTES], false));
	} else if (arguments[FREE_ADDRESS] && call_shape(call->cookie) == SHAPE_FREE) {
		/* freeing NULL does nothing but initialise the context */
		__sync_fetch_and_add(&process->unknown_frees, 1);
	}
}

/* A failed free has freed nothing: the removed entry goes back. */
static __always_inline void not_freed(struct thread *thread, struct call *call)
{
	struct allocation_key key = allocation_at(thread, call, call->arguments[FREE_ADDRESS]);
	struct allocation known = {.bytes = call->arguments[FREE_BYTES], .kind = call->arguments[FREE_KIND]};

	if (call->arguments[FREE_IS_KNOWN])
		create_row(&allocations, &key, &known, thread->process, SHARE_ALLOCATIONS, DROP_ALLOCATIONS_FULL);
}

#endif
