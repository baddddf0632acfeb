/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What all traced calls have in common: open the call at entry, match its return by stack pointer, record count, time and error.
 *
 * cuda.bpf.c and nccl.bpf.c combine these steps into their programs:
 *   entry:  call_thread(), call_open(), then what the subject has to read before the library runs, call_start()
 *   return: call_close(), call_record(), then what the subject makes of the result
 *   entry, where returns are not probed: call_count()
 * Maps written: counted_calls, only read here, and those of the headers below.
 */
#ifndef GPUSTALL_CALL_BPF_H
#define GPUSTALL_CALL_BPF_H

#include "call_sites.bpf.h"
#include "capture.bpf.h"
#include "echo.bpf.h"
#include "exposure.bpf.h"
#include "geometry.bpf.h"
#include "interval.bpf.h"
#include "operation.bpf.h"
#include "outputs.bpf.h"
#include "polling.bpf.h"
#include "registers.bpf.h"
#include "sampling.bpf.h"
#include "thread.bpf.h"

/* Of a non-blocking communicator: no failure. */
#define NCCL_IN_PROGRESS 7

/* For threads whose calls are only counted. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct counted_call);
} counted_calls SEC(".maps");

static __always_inline struct thread *known_thread(void)
{
	return bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
}

/* The first call of a thread. Its time as a worker of the job, if it was one, ends here. */
static __noinline void adopt_as_caller(struct thread *thread, struct task_struct *task, u32 process)
{
	if (thread->is_tracked)
		interval_end_worker(thread, bpf_ktime_get_ns());
	else
		account_begin(thread, task, STATE_ON_CPU);
	thread->group = process;
	thread->process = process;
	thread->is_inside = true;
}

/* The current thread with a process number, created if missing; NULL if that fails (counted). */
static __always_inline struct thread *call_thread(struct thread *thread)
{
	if (thread && thread->process)
		return thread;
	struct task_struct *task = bpf_get_current_task_btf();

	if (!thread && is_outside(task))
		return NULL;
	if (!thread)
		thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		drop(DROP_THREAD_STORAGE);
		return NULL;
	}
	u32 process = process_number(task);

	if (process)
		adopt_as_caller(thread, task, process);
	return process ? thread : NULL;
}

/* A call at the stack pointer of an open one is nested in it if it is a tail call from the runtime into the driver. */
static __always_inline bool is_tail_call(const struct call *caller, u64 cookie)
{
	return call_api(caller->cookie) == API_RUNTIME && call_api(cookie) == API_DRIVER;
}

__noinline int call_abandoned(struct thread *thread)
{
	if (!thread)
		return 0;
	thread->has_abandoned = true;
	if (thread->depth == 0)
		interval_end_abandoned(thread, bpf_ktime_get_ns());
	drop(DROP_ABANDONED);
	return 0;
}

/*
 * Removes calls that never returned (longjmp, an exception): those whose stack pointer is below that of the call now entered, and one at
 * the same stack pointer unless it is the caller. Returns true if the latter is the same call, arriving through another attachment.
 */
static __always_inline bool call_pop_abandoned(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	for (int i = 0; i < CALL_DEPTH; i++) {
		u32 top = thread->depth - 1;

		if (top >= CALL_DEPTH)
			return false;
		struct call *call = &thread->calls[top];

		if (call->stack_pointer > stack_pointer)
			return false;
		if (call->stack_pointer == stack_pointer) {
			if (is_tail_call(call, cookie))
				return false;
			if (is_echo(thread->process, call->cookie, &call->echoes, cookie))
				return true;
		}
		call->stack_pointer = 0;
		thread->depth = top;
		call_abandoned(thread);
	}
	return false;
}

/* A driver call made by the runtime is counted, but its time is part of the runtime call. */
static __always_inline bool is_nested(const struct thread *thread, u32 api)
{
	u32 top = thread->depth - 1;

	return api == API_DRIVER && top < CALL_DEPTH && call_api(thread->calls[top].cookie) == API_RUNTIME;
}

static __always_inline void count_operation(u32 process, u64 cookie)
{
	struct operation_key key = {.process = process, .operation = (u16)cookie};
	struct operation_row *row = operation_row(&key);

	if (row)
		__sync_fetch_and_add(&row->untimed, 1);
}

/* A probe hit without timing. */
static __always_inline void count_hit(struct thread *thread)
{
	if (++thread->counted >= HITS_PER_UPDATE)
		sampling_add_hits(thread);
}

static __always_inline void count_untimed(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	count_operation(thread->process, cookie);
	note_counted(&thread->last_counted, thread->entered, stack_pointer, cookie);
	if (role_of(cookie) != ROLE_QUERY || !thread->polls) /* as in call_start() */
		count_hit(thread);
}

/* Whether this call has already arrived through another attachment. Removes calls that never returned. */
static __always_inline bool is_on_record(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	return call_pop_abandoned(thread, stack_pointer, cookie) ||
	       is_counted(&thread->last_counted, thread->process, thread->entered, stack_pointer, cookie);
}

/* The stream that a kernel is launched on; 0 if it cannot be read. */
static __always_inline u64 launch_stream(struct pt_regs *regs, u64 cookie)
{
	u64 stream = 0, config;

	if (call_shape(cookie) != SHAPE_LAUNCH_CONFIG) {
		read_argument(regs, COOKIE_FIELD(cookie, COOKIE_B, 4), &stream);
		return stream;
	}
	read_argument(regs, COOKIE_FIELD(cookie, COOKIE_A, 4), &config);
	config += __builtin_offsetof(struct launch_config, stream);
	return bpf_probe_read_user(&stream, sizeof(stream), (void *)config) ? 0 : stream;
}

/* Work is enqueued, or captured into a graph. */
static __always_inline void note_launch(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	struct feeding_row *row = feeding_row(thread->process);

	if (!row)
		return;
	if (is_kernel_launch(cookie)) {
		if (is_nested(thread, call_api(cookie))) /* the outer call was counted */
			return;
		if (row->open_captures && capture_add_kernels(thread->process, launch_stream(regs, cookie), 1))
			return;
		__sync_fetch_and_add(&row->kernels, 1);
	}
	if (row->is_dry)
		row->is_dry = false;
}

/* Updates thread and process by the role of the call. */
static __always_inline void call_note_role(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	enum role role = role_of(cookie);

	if (role == ROLE_LAUNCH || role == ROLE_SYNC || role == ROLE_EVENT_SYNC)
		thread->is_step = true;
	if (role != ROLE_QUERY && thread->polls)
		poll_given_up(thread);
	if (role == ROLE_LAUNCH)
		note_launch(thread, regs, cookie);
}

/* Opens a call; NULL if its return need not be probed. */
static __always_inline struct call *call_open(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	u64 stack_pointer = STACK_POINTER(regs);

	if (is_on_record(thread, stack_pointer, cookie)) {
		count_hit(thread);
		return NULL;
	}
	thread->entered++;
	call_note_role(thread, regs, cookie);
	output_note_work(thread, cookie);
	if (is_nested(thread, call_api(cookie)) || is_sampled_out(thread, stack_pointer, cookie)) {
		count_untimed(thread, stack_pointer, cookie);
		return NULL;
	}
	u32 depth = thread->depth;

	if (depth >= CALL_DEPTH) {
		drop(DROP_NESTING);
		return NULL;
	}
	thread->depth = depth + 1;

	struct call *call = &thread->calls[depth];

	call->stack_pointer = stack_pointer;
	call->cookie = cookie;
	call->echoes = 0;
	return call;
}

/*
 * Closes the call that this return belongs to. NULL if there is none: the call began before the probes were attached, was nested or too
 * deep, or this is the child of a fork that returns through its parent's frame. The call stays readable until the next entry.
 */
static __always_inline struct call *call_close(struct thread *thread, struct pt_regs *regs)
{
	u64 stack_pointer = STACK_POINTER(regs) - RETURN_POPS;

	for (int i = 0; i < CALL_DEPTH; i++) {
		u32 top = thread->depth - 1 - i;

		if (top >= CALL_DEPTH)
			return NULL;
		if (thread->calls[top].stack_pointer == stack_pointer) {
			for (int above = 1; above <= i; above++) {
				thread->calls[(top + above) & (CALL_DEPTH - 1)].stack_pointer = 0;
				call_abandoned(thread);
			}
			thread->depth = top;
			return &thread->calls[top];
		}
	}
	return NULL;
}

/* The outermost call returned, and may have slept or waited for a CPU. */
__noinline int call_end_switched(struct thread *thread, struct call *call, struct operation_key *key, struct operation_row *row,
			u64 now_ns)
{
	if (!thread || !call || !key)
		return 0;
	u64 duration_ns = now_ns - call->entry_ns;
	struct states states = {};
	u64 began_ns = thread->mark_ns;
	enum role role = role_of(call->cookie);

	interval_settle(thread, now_ns, &states);
	if (!row)
		return 0;
	add_states(row->states_ns, &states);
	if (!is_wait(role))
		return 0;
	struct delay delay = delay_of(&thread->account, &states, began_ns, now_ns);

	exposure_book(thread, key->operation, &delay, elapsed_ns(delay.exact_ns, duration_ns), now_ns, role != ROLE_EVENT_SYNC);
	return 0;
}

/* The outermost call returned: books its time and begins a gap. */
static __always_inline void call_book(struct thread *thread, struct call *call, struct operation_key *key,
				     struct operation_row *row, u64 now_ns)
{
	u32 zero = 0, state;
	u64 ns;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);
	enum role role = role_of(call->cookie);

	if (!is_wait(role) && row && interval_settle_unswitched(thread, now_ns, &state, &ns))
		__sync_fetch_and_add(&row->states_ns[state], ns);
	else
		call_end_switched(thread, call, key, row, now_ns);
	thread->idle_at_ns = own ? now_ns + own->idle_ns : 0;
}

static __always_inline bool is_failure(u64 cookie, s32 code)
{
	return code && code != (call_api(cookie) == API_NCCL ? NCCL_IN_PROGRESS : CUDA_NOT_READY);
}

static __always_inline void call_failed(struct thread *thread, const struct call *call, s32 code)
{
	operation_add_error(thread->process, call->cookie, code);
	thread->failed_ns = call->entry_ns;
	thread->failure = code;
}

/* The program is done with the entry of a call. The clock starts here, so that the program's own time is not the call's. */
static __always_inline void call_start(struct thread *thread, struct call *call)
{
	u64 now_ns = bpf_ktime_get_ns();

	call->entry_ns = now_ns;
	if (thread->depth == 1) {
		output_note_pause(thread, now_ns);
		if (poll_goes_on(thread, call))
			return; /* no hit: it takes time in which the thread waits, and the number of queries says nothing of its work */
		interval_end_gap(thread, now_ns);
	}
	if (++thread->timed >= HITS_PER_UPDATE)
		sampling_add_hits(thread);
}

/* Records a call that returned at `now_ns`. Returns the row of its operation; NULL if there is no room for one (counted). */
static __always_inline struct operation_row *call_record(struct thread *thread, struct call *call, u16 communicator, u64 now_ns)
{
	u64 duration_ns = now_ns - call->entry_ns;
	struct operation_key key = {
		.process = thread->process,
		.operation = (u16)call->cookie,
		.communicator = communicator,
	};
	struct operation_row *row = operation_row(&key);

	if (thread->depth == 0)
		call_book(thread, call, &key, row, now_ns);
	else if (thread->depth < CALL_DEPTH)
		thread->ended_ns[thread->depth] = now_ns;
	if (!row)
		return NULL;
	if (operation_offer_exemplar(&row->slowest, duration_ns, now_ns))
		operation_set_slow(row);
	if (duration_ns > row->slow_ns)
		call_site_note(&key, duration_ns, row->slow_ns);
	operation_add_duration(row, duration_ns);
	return row;
}

/*
 * A call whose return is not probed: counts as it begins, and stays open nowhere. The thread's time is not booked, because its waits for
 * the GPU would look like gaps.
 */
static __always_inline void call_count(struct pt_regs *regs, u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 process = is_outside(task) ? 0 : process_number(task);

	if (!process)
		return;
	struct feeding_row *row = feeding_row(process);
	struct counted_call *last = bpf_task_storage_get(&counted_calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	bool is_new = !last || !is_counted(last, process, 0, STACK_POINTER(regs), cookie);

	if (is_new)
		count_operation(process, cookie);
	if (is_new && last)
		note_counted(last, 0, STACK_POINTER(regs), cookie);
	if (row)
		__sync_fetch_and_add(&row->counted_calls, 1);
}

#ifdef SESSION

extern bool bpf_session_is_return(void) __ksym;

/*
 * Whether a session program runs for a return. Asking the kernel costs 21 ns each time. On x86-64, if every open call of the thread is
 * on record, it is a return exactly when the stack pointer is where an open call returns to.
 */
static __always_inline bool call_is_return(struct thread *thread, struct pt_regs *regs)
{
	/* A thread without a number has made no call, but may be the child of a fork that returns through its parent's frame. */
	if (!STACK_SHOWS_RETURNS || !thread || !thread->process || thread->has_abandoned)
		return bpf_session_is_return();
	u64 stack_pointer = STACK_POINTER(regs) - RETURN_POPS;

	for (int i = 0; i < CALL_DEPTH; i++) {
		u32 top = thread->depth - 1 - i;

		if (top >= CALL_DEPTH)
			return false;
		if (thread->calls[top].stack_pointer == stack_pointer)
			return true;
	}
	return false;
}

#endif
#endif
