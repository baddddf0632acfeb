// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long do NCCL calls take, how many bytes do they move, on which communicator, which rank is this process in it, and how late does
 *   it enter each collective?
 * Attach points: exported functions of libnccl 2.x, also inside libtorch_cuda.so, listed in exporter/kernel/operations.py.
 * Maps written: operations, errors (exporter/kernel/operation_rows.py); last_errors (end_rows.py); communicators, processes
 *   (process_rows.py); progress, frontiers (progress_rows.py); cadence (cadence_rows.py); intervals, feeding (thread_rows.py); events
 *   (events.py); threads, arrivals, counted_calls, process_numbers (programs only).
 * Dropped: records if a map is full or memory cannot be read, counted under DROP_IN_NCCL.
 * Cost: for each call, docs/measurements.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_NCCL
#include "lib/arguments.bpf.h"
#include "lib/call.bpf.h"
#include "lib/communicator.bpf.h"
#include "lib/cadence.bpf.h"
#include "lib/progress.bpf.h"
#include "lib/size.bpf.h"

static __always_inline u64 argument_at(struct pt_regs *regs, u32 position)
{
	u64 value = 0;

	if (!read_argument(regs, position, &value))
		drop(DROP_READ_FAULT);
	return value;
}

static __always_inline u64 argument(struct pt_regs *regs, u64 cookie, u32 field)
{
	return argument_at(regs, COOKIE_FIELD(cookie, field, 4));
}

/* ncclDataType_t -> bytes of an element; 0 for an unknown type. */
static __always_inline u32 element_bytes(u32 type)
{
	switch (type) {
	case 0: case 1:			 /* int8, uint8 */
	case 10: case 11: return 1;	 /* float8e4m3, float8e5m2 */
	case 6: case 9: return 2;	 /* float16, bfloat16 */
	case 2: case 3: case 7: return 4; /* int32, uint32, float32 */
	case 4: case 5: case 8: return 8; /* int64, uint64, float64 */
	default: return 0;
	}
}

/* ncclBcast calls ncclBroadcast: a call made by another NCCL call is part of it, and not counted again. */
static __always_inline bool is_inside_nccl(struct thread *thread)
{
	u32 depth = thread->depth; /* the call itself has been pushed */

	return depth >= 2 && depth <= CALL_DEPTH && call_api(thread->calls[depth - 2].cookie) == API_NCCL;
}

static __always_inline bool is_enqueuing(u32 shape)
{
	return shape == SHAPE_COLLECTIVE || shape == SHAPE_SEND_RECEIVE;
}

static __always_inline void remember_enqueued(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	bool is_inner = is_inside_nccl(thread);

	call->arguments[ENQUEUED_BYTES] =
		is_inner ? 0 : size_of(argument(regs, cookie, COOKIE_A), element_bytes(argument(regs, cookie, COOKIE_B)));
	call->arguments[ENQUEUED_COMMUNICATOR] = argument(regs, cookie, COOKIE_C);
	call->arguments[ENQUEUED_STREAM] = argument(regs, cookie, COOKIE_D);
	call->arguments[ENQUEUED_IS_INNER] = is_inner;
}

static __always_inline void remember_made(struct call *call, u64 where, u32 ranks, s32 rank, u64 hash)
{
	call->arguments[MADE_WHERE] = where;
	call->arguments[MADE_RANKS] = ranks;
	call->arguments[MADE_RANK] = (u64)rank;
	call->arguments[MADE_HASH] = hash;
}

static __always_inline void remember_split(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	struct communicator_row *parent = known_communicator(thread->process, argument(regs, cookie, COOKIE_A));

	remember_made(call, argument(regs, cookie, COOKIE_C), 0, RANK_UNKNOWN,
		      child_hash(parent, argument(regs, cookie, COOKIE_B)));
}

static __always_inline void remember_shrink(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;
	u64 excluded = argument(regs, cookie, COOKIE_B);
	u32 excluded_ranks = argument(regs, cookie, COOKIE_C);
	struct communicator_row *parent = known_communicator(thread->process, argument(regs, cookie, COOKIE_A));

	remember_made(call, argument(regs, cookie, COOKIE_D), parent ? parent->ranks - excluded_ranks : 0,
		      parent ? communicator_rank_after_shrink(parent->rank, excluded, excluded_ranks) : RANK_UNKNOWN,
		      child_hash(parent, ~0ULL));
}

/* At entry: reads what is only there now, arguments and memory that the library is about to overwrite. */
static __always_inline void remember(struct thread *thread, struct pt_regs *regs, struct call *call)
{
	u64 cookie = call->cookie;

	switch (call_shape(cookie)) {
	case SHAPE_COLLECTIVE:
	case SHAPE_SEND_RECEIVE:
		remember_enqueued(thread, regs, call);
		break;
	case SHAPE_INIT_RANK:
		remember_made(call, argument(regs, cookie, COOKIE_A), argument(regs, cookie, COOKIE_B),
			      argument_at(regs, COOKIE_FIELD(cookie, COOKIE_C, 4) + BY_VALUE_REGISTERS),
			      communicator_id_hash(third_argument_by_value(regs)));
		break;
	case SHAPE_INIT_SCALABLE:
		remember_made(call, argument(regs, cookie, COOKIE_A), argument(regs, cookie, COOKIE_B),
			      argument(regs, cookie, COOKIE_C), communicator_id_hash(argument(regs, cookie, COOKIE_D)));
		break;
	case SHAPE_INIT_ALL:
		remember_made(call, argument(regs, cookie, COOKIE_A), argument(regs, cookie, COOKIE_B), 0,
			      communicator_private_hash(thread->process));
		break;
	case SHAPE_SPLIT:
		remember_split(thread, regs, call);
		break;
	case SHAPE_SHRINK:
		remember_shrink(thread, regs, call);
		break;
	case SHAPE_COMM_COUNT:
	case SHAPE_COMM_RANK:
		call->arguments[QUERIED_COMMUNICATOR] = argument(regs, cookie, COOKIE_A);
		call->arguments[QUERIED_WHERE] = argument(regs, cookie, COOKIE_B);
		break;
	case SHAPE_COMM_DESTROY:
	case SHAPE_COMM_ABORT:
		call->arguments[QUERIED_COMMUNICATOR] = argument(regs, cookie, COOKIE_A);
		break;
	}
}

static __always_inline u16 communicator_of(struct thread *thread, struct call *call)
{
	if (!is_enqueuing(call_shape(call->cookie)))
		return 0;
	return communicator_ordinal(thread->process, call->arguments[ENQUEUED_COMMUNICATOR]);
}

/* ncclCommInitAll makes one communicator per device of this process; rank i is the i-th of the array. */
static __always_inline void created_all(struct thread *thread, struct call *call)
{
	for (u32 i = 0; i < COMMUNICATOR_ORDINALS; i++) {
		if (i >= (u32)call->arguments[MADE_RANKS])
			return;
		communicator_created(thread->process, call->arguments[MADE_WHERE] + 8 * i, call->arguments[MADE_HASH], i,
				  call->arguments[MADE_RANKS]);
	}
}

static __always_inline void queried(struct thread *thread, struct call *call)
{
	struct communicator_row *row = known_communicator(thread->process, call->arguments[QUERIED_COMMUNICATOR]);
	s32 answer;

	if (!row || bpf_probe_read_user(&answer, sizeof(answer), (void *)call->arguments[QUERIED_WHERE]))
		return;
	if (call_shape(call->cookie) == SHAPE_COMM_RANK)
		row->rank = answer;
	else
		row->ranks = answer;
}

/* An operation was enqueued, or added to the group that enqueues it at its end. */
__noinline int nccl_enqueued(struct thread *thread, struct call *call, u64 now_ns)
{
	if (!thread || !call)
		return 0;
	u32 process = thread->process;
	struct communicator_row *communicator = known_communicator(process, call->arguments[ENQUEUED_COMMUNICATOR]);
	struct progress_row *row = communicator ? progress_row(process, communicator->ordinal) : NULL;

	if (!row)
		return 0;
	progress_enqueued(row, process, communicator->ordinal, call->arguments[ENQUEUED_STREAM], now_ns);
	cadence_add(process, beat_signature(call->cookie, call->arguments[ENQUEUED_BYTES], communicator->ordinal), now_ns);
	/* Not compared: sends and receives, which differ between ranks, and communicators that share a row. */
	if (call_shape(call->cookie) == SHAPE_COLLECTIVE && communicator->ordinal != COMMUNICATOR_OTHER)
		progress_arrive(row, process, communicator->hash, call->entry_ns);
	return 0;
}

/* A communicator is destroyed after its work is complete. Unknown for communicators that share a row. */
static __always_inline void destroyed(u32 process, u64 address, u64 now_ns)
{
	struct communicator_row *communicator = known_communicator(process, address);
	struct progress_row *row = communicator && communicator->ordinal != COMMUNICATOR_OTHER ?
					   known_progress(process, communicator->ordinal) : NULL;

	if (row)
		progress_complete(row, row->enqueued, now_ns);
	if (communicator)
		arrivals_forget(process, communicator->hash);
	communicator_forget(process, address);
}

static __always_inline void succeeded(struct thread *thread, struct call *call, struct operation_row *row, u64 now_ns)
{
	switch (call_shape(call->cookie)) {
	case SHAPE_COLLECTIVE:
	case SHAPE_SEND_RECEIVE:
		size_add(&row->bytes, call->arguments[ENQUEUED_BYTES]);
		if (!call->arguments[ENQUEUED_IS_INNER] &&
		    !is_captured(thread->process, call->arguments[ENQUEUED_STREAM]))
			nccl_enqueued(thread, call, now_ns);
		break;
	case SHAPE_INIT_RANK:
	case SHAPE_INIT_SCALABLE:
	case SHAPE_SPLIT:
	case SHAPE_SHRINK:
		communicator_created(thread->process, call->arguments[MADE_WHERE], call->arguments[MADE_HASH],
				  call->arguments[MADE_RANK], call->arguments[MADE_RANKS]);
		break;
	case SHAPE_INIT_ALL:
		created_all(thread, call);
		break;
	case SHAPE_COMM_COUNT:
	case SHAPE_COMM_RANK:
		queried(thread, call);
		break;
	case SHAPE_COMM_DESTROY:
		destroyed(thread->process, call->arguments[QUERIED_COMMUNICATOR], now_ns);
		break;
	case SHAPE_COMM_ABORT:
		communicator_forget(thread->process, call->arguments[QUERIED_COMMUNICATOR]);
		break;
	}
}

/* Returns 1 if the return of this call need not be probed: a session then skips it. */
static __always_inline int nccl_entered(struct pt_regs *regs, struct thread *known)
{
	struct thread *thread = call_thread(known);
	struct call *call = thread ? call_open(thread, regs, bpf_get_attach_cookie(regs)) : NULL;

	if (!call)
		return 1;
	remember(thread, regs, call);
	call_start(thread, call);
	return 0;
}

static __always_inline int nccl_returned(struct pt_regs *regs, struct thread *thread)
{
	u64 now_ns = bpf_ktime_get_ns();
	struct call *call = thread ? call_close(thread, regs) : NULL;

	if (!call)
		return 0;
	struct operation_row *row = call_record(thread, call, communicator_of(thread, call), now_ns);
	s32 code = (s32)RETURN_VALUE(regs);

	if (!row)
		return 0;
	if (is_failure(call->cookie, code))
		call_failed(thread, call, code);
	else
		succeeded(thread, call, row, now_ns);
	return 0;
}

#ifdef SESSION

/* Entry and return in one program, from kernel 6.13 on. User space loads this one, or enter and exit, or count. */
SEC("uprobe")
int nccl_session(struct pt_regs *regs)
{
	struct thread *thread = known_thread();

	return call_is_return(thread, regs) ? nccl_returned(regs, thread) : nccl_entered(regs, thread);
}

#else

/* The same in two programs, for uprobe_multi links and for one perf event per function. */
SEC("uprobe")
int nccl_enter(struct pt_regs *regs)
{
	nccl_entered(regs, known_thread());
	return 0;
}

SEC("uretprobe")
int nccl_exit(struct pt_regs *regs)
{
	return nccl_returned(regs, known_thread());
}

/* Entry alone, where a return probe could kill the process (exporter/kernel/hazards.py). */
SEC("uprobe")
int nccl_count(struct pt_regs *regs)
{
	call_count(regs, bpf_get_attach_cookie(regs));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#endif
