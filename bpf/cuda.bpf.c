// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do CUDA calls take, what do they copy and allocate, and how do they fail?
 * Attach points: exported functions of libcudart (11, 12, 13) and libcuda, listed in exporter/kernel/operations.py.
 * Maps written: operations, errors, processes, allocations; read by exporter/kernel/rows.py.
 * Lost: what a full map or unreadable memory keeps out, counted in `losses` under LOSS_IN_CUDA.
 * Cost per call: bpf/README.md, measured by `make bench`.
 */
#define LOSS_PROGRAM LOSS_IN_CUDA
#include "lib/call.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct allocation_key);
	__type(value, u64); /* bytes */
} allocations SEC(".maps");

/* What remember() leaves in call->arguments for succeeded(), by shape. */
enum { ALLOCATE_WHERE, ALLOCATE_BYTES };
enum { FREE_ADDRESS, FREE_BYTES, FREE_IS_KNOWN };
enum { COPY_BYTES, COPY_DIRECTION };

static __always_inline u64 argument(struct pt_regs *regs, u64 cookie, u32 field)
{
	u32 position = COOKIE_FIELD(cookie, field, 4);
	u64 value = 0;

	if (position && !read_argument(regs, position, &value))
		lose(LOSS_READ_FAULT);
	return value;
}

static __always_inline struct allocation_key allocation_at(struct thread *thread, struct call *call, u64 address)
{
	return (struct allocation_key){
		.process = thread->process,
		.is_handle = COOKIE_FIELD(call->cookie, COOKIE_HANDLE, 1),
		.address = address,
	};
}

/*
 * The entry is taken out before the call, not after it: once the library has freed the address, another thread may be
 * given the same one, and its new entry must not be the one that is removed.
 */
static __always_inline void take_allocation(struct thread *thread, struct call *call, u64 address)
{
	struct allocation_key key = allocation_at(thread, call, address);
	u64 *bytes = bpf_map_lookup_elem(&allocations, &key);

	call->arguments[FREE_ADDRESS] = address;
	call->arguments[FREE_BYTES] = bytes ? *bytes : 0;
	call->arguments[FREE_IS_KNOWN] = bytes && !bpf_map_delete_elem(&allocations, &key);
}

static __always_inline void remember(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;

	switch (call_shape(cookie)) {
	case SHAPE_ALLOCATE:
		call->arguments[ALLOCATE_WHERE] = argument(regs, cookie, COOKIE_A);
		call->arguments[ALLOCATE_BYTES] = argument(regs, cookie, COOKIE_B);
		break;
	case SHAPE_FREE:
		take_allocation(thread, call, argument(regs, cookie, COOKIE_A));
		break;
	case SHAPE_COPY:
	case SHAPE_COPY_2D:
		call->arguments[COPY_BYTES] = argument(regs, cookie, COOKIE_A);
		call->arguments[COPY_DIRECTION] = COOKIE_FIELD(cookie, COOKIE_B, 4) ?
							  (u32)argument(regs, cookie, COOKIE_B) :
							  COOKIE_FIELD(cookie, COOKIE_DIRECTION, 4);
		if (call_shape(cookie) == SHAPE_COPY_2D)
			call->arguments[COPY_BYTES] *= argument(regs, cookie, COOKIE_C);
		break;
	}
}

static __always_inline u16 communicator_of(struct thread *thread, struct call *call)
{
	return 0;
}

static __always_inline void allocated(struct thread *thread, struct call *call, struct process_row *process)
{
	u64 address = 0, bytes = call->arguments[ALLOCATE_BYTES];

	if (bpf_probe_read_user(&address, sizeof(address), (void *)call->arguments[ALLOCATE_WHERE])) {
		lose(LOSS_READ_FAULT);
		return;
	}
	if (!address) /* zero bytes asked for */
		return;
	struct allocation_key key = allocation_at(thread, call, address);
	u64 *stale_bytes = bpf_map_lookup_elem(&allocations, &key);

	if (stale_bytes) /* it was freed in a way that is not hooked */
		__sync_fetch_and_add(&process->freed_bytes, *stale_bytes);
	if (bpf_map_update_elem(&allocations, &key, &bytes, BPF_ANY)) {
		lose(LOSS_ALLOCATIONS_FULL);
		return;
	}
	__sync_fetch_and_add(&process->allocated_bytes, bytes);
	if (!stale_bytes)
		__sync_fetch_and_add(&process->live_allocations, 1);
}

static __always_inline void freed(struct call *call, struct process_row *process)
{
	if (call->arguments[FREE_IS_KNOWN]) {
		__sync_fetch_and_add(&process->freed_bytes, call->arguments[FREE_BYTES]);
		__sync_fetch_and_add(&process->live_allocations, -1);
	} else if (call->arguments[FREE_ADDRESS]) { /* freeing NULL is a no-op that initialises the context */
		__sync_fetch_and_add(&process->unknown_frees, 1);
	}
}

static __always_inline void copied(struct call *call, struct process_row *process)
{
	u64 direction = call->arguments[COPY_DIRECTION];

	if (direction < COPY_DIRECTIONS)
		__sync_fetch_and_add(&process->copied_bytes[direction], call->arguments[COPY_BYTES]);
}

static __always_inline void succeeded(struct thread *thread, struct call *call, struct operation_row *row)
{
	u32 shape = call_shape(call->cookie);

	if (shape == SHAPE_PLAIN)
		return;
	struct process_row *process = bpf_map_lookup_elem(&processes, &thread->process);

	if (!process)
		return;
	if (shape == SHAPE_ALLOCATE)
		allocated(thread, call, process);
	else if (shape == SHAPE_FREE)
		freed(call, process);
	else
		copied(call, process);
}

/* A free that failed freed nothing: what was taken out goes back. */
static __always_inline void failed(struct thread *thread, struct call *call)
{
	if (call_shape(call->cookie) != SHAPE_FREE || !call->arguments[FREE_IS_KNOWN])
		return;
	struct allocation_key key = allocation_at(thread, call, call->arguments[FREE_ADDRESS]);

	if (bpf_map_update_elem(&allocations, &key, &call->arguments[FREE_BYTES], BPF_NOEXIST))
		lose(LOSS_ALLOCATIONS_FULL);
}

CALL_PROGRAMS(cuda)

char LICENSE[] SEC("license") = "Dual BSD/GPL";
