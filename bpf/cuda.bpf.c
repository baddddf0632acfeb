// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do CUDA calls take, what do they copy and allocate, how do they fail, and which NCCL operations do they wait for?
 * Attach points: exported functions of libcudart (11, 12, 13) and libcuda, listed in exporter/kernel/operations.py.
 * Maps written: operations, errors, processes, allocations, progress, outputs; read by exporter/kernel/rows.py. And frontiers.
 * Lost: what a full map or unreadable memory keeps out, counted in `losses` under LOSS_IN_CUDA.
 * Cost per call: bpf/README.md, measured by `make bench`.
 */
#define LOSS_PROGRAM LOSS_IN_CUDA
#include "lib/call.bpf.h"
#include "lib/cadence.bpf.h"
#include "lib/progress.bpf.h"

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
enum { COPY_WHAT }; /* bytes and direction: the others are PENDING */
enum { ORDER_A, ORDER_B };
enum { DEVICE_PENDING };
enum { PENDING = 1 }; /* a struct frontier, of the calls that ask or wait */
_Static_assert(PENDING + FRONTIER_PAIRS <= CALL_ARGUMENTS, "struct frontier in call->arguments");

#define COPY_DIRECTION_BITS 3

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

static __always_inline struct frontier *pending_of(struct call *call)
{
	return (struct frontier *)&call->arguments[PENDING];
}

static __always_inline void remember_pending(struct thread *thread, struct call *call, struct frontier_key key)
{
	if (has_collectives(thread->process))
		find_pending(&key, pending_of(call));
	else
		*pending_of(call) = (struct frontier){};
}

static __always_inline u32 copy_direction(const struct call *call)
{
	return call->arguments[COPY_WHAT] & ((1 << COPY_DIRECTION_BITS) - 1);
}

/*
 * Only a copy to the host is sure to return no earlier than everything before it on the legacy stream is done: a small one to
 * the device is put aside and left to the GPU.
 */
static __always_inline bool is_synchronising_copy(const struct call *call)
{
	return role_of(call->cookie) == ROLE_COPY && copy_direction(call) == COPY_DEVICE_TO_HOST;
}

static __always_inline void remember_copy(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie, bytes = argument(regs, cookie, COOKIE_A);
	u32 direction = COOKIE_FIELD(cookie, COOKIE_B, 4) ? (u32)argument(regs, cookie, COOKIE_B) :
							    COOKIE_FIELD(cookie, COOKIE_DIRECTION, 4);

	if (call_shape(cookie) == SHAPE_COPY_2D)
		bytes *= argument(regs, cookie, COOKIE_C);
	if (direction > COPY_DIRECTIONS) /* no direction at all */
		direction = COPY_DIRECTIONS;
	call->arguments[COPY_WHAT] = bytes << COPY_DIRECTION_BITS | direction;
	if (is_synchronising_copy(call))
		remember_pending(thread, call, stream_key(thread->process, 0));
}

static __always_inline void remember(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	struct frontier_key key;

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
		remember_copy(thread, regs, call);
		break;
	case SHAPE_EVENT_RECORD:
	case SHAPE_STREAM_WAIT:
		call->arguments[ORDER_A] = argument(regs, cookie, COOKIE_A);
		call->arguments[ORDER_B] = argument(regs, cookie, COOKIE_B);
		break;
	case SHAPE_STREAM_DONE:
		remember_pending(thread, call, stream_key(thread->process, argument(regs, cookie, COOKIE_A)));
		break;
	case SHAPE_EVENT_DONE:
		remember_pending(thread, call, event_key(thread->process, argument(regs, cookie, COOKIE_A)));
		break;
	case SHAPE_DEVICE_DONE:
		call->arguments[DEVICE_PENDING] =
			has_collectives(thread->process) ? pending_communicators(thread->process) : 0;
		break;
	case SHAPE_CAPTURE_END: /* whether it fails or not */
		unmark(thread->process, IS_CAPTURING);
		break;
	case SHAPE_STREAM_DESTROY: /* like the address of an allocation: before another thread is given it */
	case SHAPE_EVENT_DESTROY:
		if (!has_collectives(thread->process))
			break;
		key = call_shape(cookie) == SHAPE_STREAM_DESTROY ?
			      stream_key(thread->process, argument(regs, cookie, COOKIE_A)) :
			      event_key(thread->process, argument(regs, cookie, COOKIE_A));
		forget_frontier(&key);
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

static __always_inline void copied(struct thread *thread, struct call *call, struct process_row *process, u64 now_ns)
{
	u32 direction = copy_direction(call);
	u64 bytes = call->arguments[COPY_WHAT] >> COPY_DIRECTION_BITS;

	if (direction == COPY_HOST_TO_DEVICE)
		add_beat(thread->process, beat_signature(call->cookie, bytes, 0), now_ns);
	else if (direction == COPY_DEVICE_TO_HOST && !is_capturing(thread->process))
		copied_out(thread, now_ns);

	if (direction < COPY_DIRECTIONS)
		__sync_fetch_and_add(&process->copied_bytes[direction], bytes);
}

/* A call that asks returned 0, or one that waits returned. */
static __always_inline void pending_done(struct thread *thread, struct call *call, u64 now_ns)
{
	struct frontier *pending = pending_of(call);
	u64 any = 0;

	for (int i = 0; i < FRONTIER_PAIRS; i++)
		any |= pending->ahead[i];
	if (any)
		found_done(pending, thread->process, role_of(call->cookie) == ROLE_QUERY ? 0 : now_ns - call->entry_ns,
			   now_ns);
}

/* A call returned 0 that puts streams and events in order, or finds them done. */
static __always_inline void ordered(struct thread *thread, struct call *call, u64 now_ns)
{
	u64 *arguments = call->arguments;
	u32 process = thread->process;

	switch (call_shape(call->cookie)) {
	case SHAPE_EVENT_RECORD:
		if (has_collectives(process))
			record_event(process, arguments[ORDER_A], arguments[ORDER_B]);
		break;
	case SHAPE_STREAM_WAIT:
		if (has_collectives(process))
			wait_for_event(process, arguments[ORDER_A], arguments[ORDER_B]);
		break;
	case SHAPE_STREAM_DONE:
	case SHAPE_EVENT_DONE:
		pending_done(thread, call, now_ns);
		break;
	case SHAPE_CAPTURE_BEGIN:
		mark(process, IS_CAPTURING);
		break;
	case SHAPE_DEVICE_DONE:
		if (arguments[DEVICE_PENDING])
			device_done(arguments[DEVICE_PENDING], process, call->entry_ns, now_ns);
		break;
	}
}

static __always_inline void succeeded(struct thread *thread, struct call *call, struct operation_row *row, s32 code,
				      u64 now_ns)
{
	u32 shape = call_shape(call->cookie);

	if (shape == SHAPE_PLAIN || code)
		return;
	if (shape >= SHAPE_EVENT_RECORD) {
		ordered(thread, call, now_ns);
		if (role_of(call->cookie) == ROLE_SYNC || role_of(call->cookie) == ROLE_EVENT_SYNC)
			synchronised(thread->process, now_ns);
		return;
	}
	struct process_row *process = bpf_map_lookup_elem(&processes, &thread->process);

	if (!process)
		return;
	if (shape == SHAPE_ALLOCATE)
		allocated(thread, call, process);
	else if (shape == SHAPE_FREE)
		freed(call, process);
	else
		copied(thread, call, process, now_ns);
	if ((shape == SHAPE_COPY || shape == SHAPE_COPY_2D) && is_synchronising_copy(call)) {
		pending_done(thread, call, now_ns);
		synchronised(thread->process, now_ns);
	}
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
