// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do CUDA calls take, what do they copy, allocate, launch and capture, how do they fail, and which NCCL operations do they
 *   wait for?
 * Attach points: exported functions of libcudart (11, 12, 13) and libcuda, listed in exporter/kernel/operations.py.
 * Maps written: operations, errors (exporter/kernel/operation_rows.py); last_errors (end_rows.py); processes (process_rows.py); copies,
 *   geometries, graph_rows, pinned (gpu_rows.py); progress, frontiers (progress_rows.py); cadence (cadence_rows.py); outputs
 *   (output_rows.py); exposures, intervals, feeding (thread_rows.py); events (events.py); allocations (pruned by tables.py); threads,
 *   graphs, capturing, counted_calls, process_numbers (programs only).
 * Dropped: records if a map is full or memory cannot be read, counted under DROP_IN_CUDA.
 * Cost: for each call, docs/measurements.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_CUDA
#include "lib/allocation.bpf.h"
#include "lib/arguments.bpf.h"
#include "lib/call.bpf.h"
#include "lib/cadence.bpf.h"
#include "lib/copies.bpf.h"
#include "lib/geometry.bpf.h"
#include "lib/graph.bpf.h"
#include "lib/maps.bpf.h"
#include "lib/pinned.bpf.h"
#include "lib/progress.bpf.h"
#include "lib/size.bpf.h"

_Static_assert(PENDING + FRONTIER_PAIRS <= CALL_ARGUMENTS, "struct frontier in call->arguments");

#define COPY_DESTINATION 1 /* position of the argument */

static __always_inline u64 argument(struct pt_regs *regs, u64 cookie, u32 field)
{
	u32 position = COOKIE_FIELD(cookie, field, 4);
	u64 value = 0;

	if (position && !read_argument(regs, position, &value))
		drop(DROP_READ_FAULT);
	return value;
}

static __always_inline struct frontier *pending_of(struct call *call)
{
	return (struct frontier *)&call->arguments[PENDING];
}

static __always_inline void remember_pending(struct thread *thread, struct call *call, struct frontier_key key)
{
	if (has_collectives(thread->process))
		frontier_find_pending(&key, pending_of(call));
	else
		*pending_of(call) = (struct frontier){};
}

/*
 * Only a copy to the host always returns after everything before it on the legacy stream is done: the driver may stage a small copy to
 * the GPU and return at once.
 */
static __always_inline bool is_synchronising_copy(const struct call *call)
{
	return role_of(call->cookie) == ROLE_COPY && copy_direction(call) == COPY_DEVICE_TO_HOST;
}

/* The kind of memory on the host's side; MEMORY_UNKNOWN for copies that have none. */
static __always_inline enum host_memory host_memory(struct thread *thread, struct pt_regs *regs, u64 cookie, u32 direction)
{
	struct process_row *row = bpf_map_lookup_elem(&processes, &thread->process);

	if (!row)
		return MEMORY_UNKNOWN;
	if (direction == COPY_HOST_TO_DEVICE)
		return memory_at(thread->process, row, argument(regs, cookie, COOKIE_D));
	if (direction == COPY_DEVICE_TO_HOST)
		return memory_at(thread->process, row, register_argument(regs, COPY_DESTINATION));
	return MEMORY_UNKNOWN;
}

static __always_inline bool is_staged_unknown(const struct thread *thread, const struct call *call)
{
	return thread->has_staged && copy_memory(call) == MEMORY_UNKNOWN;
}

static __always_inline void remember_copy(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	u64 bytes = size_of(argument(regs, cookie, COOKIE_A),
			    call_shape(cookie) == SHAPE_COPY_2D ? argument(regs, cookie, COOKIE_C) : 1);
	u32 direction = COOKIE_FIELD(cookie, COOKIE_B, 4) ? (u32)argument(regs, cookie, COOKIE_B) :
							    COOKIE_FIELD(cookie, COOKIE_DIRECTION, 4);

	if (direction > COPY_DIRECTIONS) /* not a cudaMemcpyKind */
		direction = COPY_DIRECTIONS;
	call->arguments[COPY_WHAT] = bytes << (COPY_DIRECTION_BITS + COPY_MEMORY_BITS) |
				     host_memory(thread, regs, cookie, direction) << COPY_DIRECTION_BITS | direction;
	if (is_synchronising_copy(call))
		remember_pending(thread, call, stream_key(thread->process, 0));
	else if (direction == COPY_DEVICE_TO_HOST && (copy_memory(call) == MEMORY_PAGEABLE || is_staged_unknown(thread, call)))
		call->cookie = with_role(cookie, ROLE_STAGED_COPY);
}

#define LONGEST_ENQUEUE_NS 1000000

/* Whether a copy to memory of a process that is older than the exporter has waited: to enqueue one takes microseconds. */
static __always_inline bool is_long_copy_of_unknown(const struct call *call, u64 now_ns)
{
	u32 shape = call_shape(call->cookie);

	return (shape == SHAPE_COPY || shape == SHAPE_COPY_2D) && role_of(call->cookie) == ROLE_LAUNCH &&
	       copy_direction(call) == COPY_DEVICE_TO_HOST && copy_memory(call) == MEMORY_UNKNOWN &&
	       now_ns - call->entry_ns > LONGEST_ENQUEUE_NS;
}

static __always_inline void remember_launch(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	struct launch_size size;

	if (launch_size(regs, cookie, &size))
		geometry_add(thread->process, size.blocks, size.threads);
	else
		drop(DROP_READ_FAULT);
}

/* A destroyed graph is forgotten before the call runs, as an allocation: another thread may get its address. */
static __always_inline void remember_graph(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;

	call->arguments[GRAPH_A] = argument(regs, cookie, COOKIE_A);
	call->arguments[GRAPH_B] = argument(regs, cookie, COOKIE_B);
	if (call_shape(cookie) == SHAPE_GRAPH_DESTROY)
		graph_forget(thread->process, call->arguments[GRAPH_A]);
	else if (call_shape(cookie) == SHAPE_EXEC_DESTROY)
		graph_forget_executable(thread->process, call->arguments[GRAPH_A]);
}

/* At entry: reads what is only there now, arguments and memory that the library is about to overwrite. */
static __always_inline void remember(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	struct frontier_key key;

	switch (call_shape(cookie)) {
	case SHAPE_ALLOCATE:
	case SHAPE_PIN:
	case SHAPE_PIN_AT:
		call->arguments[ALLOCATE_WHERE] = argument(regs, cookie, COOKIE_A);
		call->arguments[ALLOCATE_BYTES] = argument(regs, cookie, COOKIE_B);
		break;
	case SHAPE_FREE:
	case SHAPE_UNPIN:
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
		call->arguments[POLLED] = argument(regs, cookie, COOKIE_A);
		remember_pending(thread, call, stream_key(thread->process, call->arguments[POLLED]));
		break;
	case SHAPE_EVENT_DONE:
		call->arguments[POLLED] = argument(regs, cookie, COOKIE_A);
		remember_pending(thread, call, event_key(thread->process, call->arguments[POLLED]));
		break;
	case SHAPE_DEVICE_DONE:
		call->arguments[DEVICE_PENDING] =
			has_collectives(thread->process) ? progress_pending(thread->process) : 0;
		break;
	case SHAPE_LAUNCH:
	case SHAPE_LAUNCH_SPREAD:
	case SHAPE_LAUNCH_CONFIG:
		remember_launch(thread, regs, cookie);
		break;
	case SHAPE_CAPTURE_BEGIN:
	case SHAPE_CAPTURE_END:
	case SHAPE_GRAPH_INSTANTIATE:
	case SHAPE_GRAPH_LAUNCH:
	case SHAPE_GRAPH_DESTROY:
	case SHAPE_EXEC_DESTROY:
		remember_graph(thread, regs, call);
		break;
	case SHAPE_STREAM_DESTROY: /* before the call runs, as an allocation */
	case SHAPE_EVENT_DESTROY:
		key = call_shape(cookie) == SHAPE_STREAM_DESTROY ?
			      stream_key(thread->process, argument(regs, cookie, COOKIE_A)) :
			      event_key(thread->process, argument(regs, cookie, COOKIE_A));
		capture_forget(&key);
		if (has_collectives(thread->process))
			frontier_forget(&key);
		break;
	}
}

static __always_inline void copied(struct thread *thread, struct call *call, struct process_row *process, u64 now_ns)
{
	u32 direction = copy_direction(call);
	u64 bytes = copy_bytes(call);
	struct copy_key key = {.process = thread->process, .direction = direction, .memory = copy_memory(call)};

	if (direction == COPY_HOST_TO_DEVICE)
		cadence_add(thread->process, beat_signature(call->cookie, bytes, 0), now_ns);
	else if (direction == COPY_DEVICE_TO_HOST && !may_be_capturing(thread->process))
		output_copied(thread, now_ns);
	if (role_of(call->cookie) == ROLE_STAGED_COPY)
		output_synchronised(thread->process, now_ns);
	if (direction == COPY_HOST_TO_DEVICE || direction == COPY_DEVICE_TO_HOST) {
		key.is_blocking = role_of(call->cookie) == ROLE_COPY || key.memory == MEMORY_PAGEABLE;
		copies_add(&key, bytes, now_ns - call->entry_ns);
	}

	if (direction < COPY_DIRECTIONS)
		size_add(&process->copied_bytes[direction], bytes);
}

/* A query returned 0, or a call that waits returned. */
static __always_inline void pending_complete(struct thread *thread, struct call *call, u64 now_ns)
{
	struct frontier *pending = pending_of(call);
	u64 any = 0;

	for (int i = 0; i < FRONTIER_PAIRS; i++)
		any |= pending->ahead[i];
	if (any)
		progress_found_complete(pending, thread->process, role_of(call->cookie) == ROLE_QUERY ? 0 : now_ns - call->entry_ns,
			   now_ns);
}

/* A call returned 0 that orders streams and events, or finds them complete. */
static __always_inline void ordered(struct thread *thread, struct call *call, u64 now_ns)
{
	u64 *arguments = call->arguments;
	u32 process = thread->process;

	switch (call_shape(call->cookie)) {
	case SHAPE_EVENT_RECORD:
		capture_join(process, FRONTIER_EVENT, arguments[ORDER_A], FRONTIER_STREAM, arguments[ORDER_B]);
		if (has_collectives(process))
			frontier_record(process, arguments[ORDER_A], arguments[ORDER_B]);
		break;
	case SHAPE_STREAM_WAIT:
		capture_join(process, FRONTIER_STREAM, arguments[ORDER_A], FRONTIER_EVENT, arguments[ORDER_B]);
		if (has_collectives(process))
			frontier_wait(process, arguments[ORDER_A], arguments[ORDER_B]);
		break;
	case SHAPE_STREAM_DONE:
	case SHAPE_EVENT_DONE:
		pending_complete(thread, call, now_ns);
		break;
	case SHAPE_DEVICE_DONE:
		if (arguments[DEVICE_PENDING])
			progress_device_done(arguments[DEVICE_PENDING], process, call->entry_ns, now_ns);
		break;
	}
}

/* A call on graphs returned 0. */
static __always_inline void graph_succeeded(struct thread *thread, struct call *call, u64 now_ns)
{
	u64 a = call->arguments[GRAPH_A], b = call->arguments[GRAPH_B];

	switch (call_shape(call->cookie)) {
	case SHAPE_CAPTURE_BEGIN:
		graph_begin_capture(thread->process, a, now_ns);
		break;
	case SHAPE_CAPTURE_END:
		graph_end_capture(thread->process, a, b, now_ns);
		break;
	case SHAPE_GRAPH_INSTANTIATE:
		graph_instantiated(thread->process, b, a, now_ns - call->entry_ns);
		break;
	case SHAPE_GRAPH_LAUNCH:
		graph_launched(thread->process, a, b);
		break;
	}
}

static __always_inline void succeeded(struct thread *thread, struct call *call, u64 now_ns)
{
	struct process_row *process;

	switch (call_shape(call->cookie)) {
	case SHAPE_ALLOCATE:
	case SHAPE_PIN:
	case SHAPE_PIN_AT:
		process = bpf_map_lookup_elem(&processes, &thread->process);
		if (process)
			allocated(thread, call, process);
		break;
	case SHAPE_FREE:
	case SHAPE_UNPIN:
		process = bpf_map_lookup_elem(&processes, &thread->process);
		if (process)
			freed(thread, call, process);
		break;
	case SHAPE_COPY:
	case SHAPE_COPY_2D:
		process = bpf_map_lookup_elem(&processes, &thread->process);
		if (process)
			copied(thread, call, process, now_ns);
		if (is_synchronising_copy(call)) {
			pending_complete(thread, call, now_ns);
			output_synchronised(thread->process, now_ns);
		}
		break;
	case SHAPE_CAPTURE_BEGIN:
	case SHAPE_CAPTURE_END:
	case SHAPE_GRAPH_INSTANTIATE:
	case SHAPE_GRAPH_LAUNCH:
		graph_succeeded(thread, call, now_ns);
		break;
	default:
		ordered(thread, call, now_ns);
		if (role_of(call->cookie) == ROLE_SYNC || role_of(call->cookie) == ROLE_EVENT_SYNC)
			output_synchronised(thread->process, now_ns);
	}
}

/* The call failed; its error code is recorded already. */
static __always_inline void failed(struct thread *thread, struct call *call)
{
	struct process_row *process;

	switch (call_shape(call->cookie)) {
	case SHAPE_FREE:
	case SHAPE_UNPIN:
		not_freed(thread, call);
		break;
	case SHAPE_ALLOCATE:
		process = bpf_map_lookup_elem(&processes, &thread->process);
		if (process)
			process->refused_bytes = call->arguments[ALLOCATE_BYTES] < SIZE_MOST ? call->arguments[ALLOCATE_BYTES] : SIZE_MOST;
		break;
	case SHAPE_CAPTURE_END: /* a failed end also ends the capture */
		graph_end_capture(thread->process, call->arguments[GRAPH_A], 0, bpf_ktime_get_ns());
		break;
	}
}

/* Returns 1 if the return of this call need not be probed: a session then skips it. */
static __always_inline int cuda_entered(struct pt_regs *regs, struct thread *known)
{
	struct thread *thread = call_thread(known);
	struct call *call = thread ? call_open(thread, regs, bpf_get_attach_cookie(regs)) : NULL;

	if (!call)
		return 1;
	remember(thread, regs, call);
	call_start(thread, call);
	return 0;
}

static __always_inline int cuda_returned(struct pt_regs *regs, struct thread *thread)
{
	u64 now_ns = bpf_ktime_get_ns();
	struct call *call = thread ? call_close(thread, regs) : NULL;

	if (!call)
		return 0;
	if (is_long_copy_of_unknown(call, now_ns)) {
		call->cookie = with_role(call->cookie, ROLE_STAGED_COPY);
		thread->has_staged = true;
	}
	struct operation_row *row = call_record(thread, call, 0, now_ns);
	s32 code = (s32)RETURN_VALUE(regs);

	if (!row)
		return 0;
	if (role_of(call->cookie) == ROLE_QUERY && thread->depth == 0)
		poll_returned(thread, call, code, now_ns);
	if (is_failure(call->cookie, code)) {
		call_failed(thread, call, code);
		failed(thread, call);
	} else if (!code) {
		succeeded(thread, call, now_ns);
	}
	return 0;
}

#ifdef SESSION

/* Entry and return in one program, from kernel 6.13 on. User space loads this one, or enter and exit, or count. */
SEC("uprobe")
int cuda_session(struct pt_regs *regs)
{
	struct thread *thread = known_thread();

	return call_is_return(thread, regs) ? cuda_returned(regs, thread) : cuda_entered(regs, thread);
}

#else

/* The same in two programs, for uprobe_multi links and for one perf event per function. */
SEC("uprobe")
int cuda_enter(struct pt_regs *regs)
{
	cuda_entered(regs, known_thread());
	return 0;
}

SEC("uretprobe")
int cuda_exit(struct pt_regs *regs)
{
	return cuda_returned(regs, known_thread());
}

/* Entry alone, where a return probe could kill the process (exporter/kernel/hazards.py). */
SEC("uprobe")
int cuda_count(struct pt_regs *regs)
{
	call_count(regs, bpf_get_attach_cookie(regs));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#endif
