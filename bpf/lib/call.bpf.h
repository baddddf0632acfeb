/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What every traced call has in common: open it at entry, match its return by stack pointer, book count, time and error.
 *
 * A subject (cuda, nccl) defines four hooks, and CALL_PROGRAMS() makes its programs of them:
 *   remember()         at entry: what is only there now (arguments, memory that is about to be overwritten)
 *   communicator_of()  at return: the ordinal of the communicator the call used, or 0
 *   succeeded()        at return, when the call did not fail; its code may still say that something is not ready
 *   failed()           at return, when it did; its error code is booked already
 * Maps written: those of the headers included. Reader: exporter/kernel/rows.py.
 */
#ifndef GPUSTALL_CALL_BPF_H
#define GPUSTALL_CALL_BPF_H

#include "capture.bpf.h"
#include "echo.bpf.h"
#include "exposure.bpf.h"
#include "interval.bpf.h"
#include "operation.bpf.h"
#include "outputs.bpf.h"
#include "registers.bpf.h"
#include "sampling.bpf.h"
#include "tail.bpf.h"
#include "thread.bpf.h"

/* Not failures: cudaErrorNotReady of a query, ncclInProgress of a communicator that does not block. */
#define CUDA_NOT_READY 600
#define NCCL_IN_PROGRESS 7

/* Of threads whose calls are only counted. */
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

/* The first call of a thread. What it did before, as a worker of the job or nothing at all, ends here. */
static __noinline void adopt_as_caller(struct thread *thread, struct task_struct *task, u32 process)
{
	if (thread->is_tracked) {
		struct states states = {};
		struct interval_row *row = interval_row(thread->group, INTERVAL_WORKER);

		settle(thread, bpf_ktime_get_ns(), &states);
		if (row)
			add_states(row->states_ns, &states);
	} else {
		begin_account(thread, task, STATE_ON_CPU);
	}
	thread->group = process;
	thread->process = process;
	thread->is_inside = true;
}

/* The state of the current thread with its process number, made if missing; NULL when it cannot be had (counted). */
static __always_inline struct thread *numbered_thread(struct thread *thread)
{
	if (thread && thread->process)
		return thread;
	struct task_struct *task = bpf_get_current_task_btf();

	if (!thread && is_outside(task))
		return NULL;
	if (!thread)
		thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		lose(LOSS_THREAD_STORAGE);
		return NULL;
	}
	u32 process = process_number(task);

	if (process)
		adopt_as_caller(thread, task, process);
	return process ? thread : NULL;
}

/* At the same stack pointer a frame is the caller's if it is of a shallower layer: a tail call from the runtime into the driver. */
static __always_inline bool is_tail_call(const struct call *caller, u64 cookie)
{
	return call_api(caller->cookie) == API_RUNTIME && call_api(cookie) == API_DRIVER;
}

__noinline int abandoned(struct thread *thread)
{
	if (!thread)
		return 0;
	thread->has_abandoned = true;
	if (thread->depth == 0)
		end_abandoned(thread, bpf_ktime_get_ns());
	lose(LOSS_ABANDONED);
	return 0;
}

/*
 * A frame whose stack pointer lies below that of the call now entered was left without a return (longjmp, an exception). So
 * was one at the same stack pointer, unless it is the caller's, or that of the very call. Returns whether it is the latter.
 */
static __always_inline bool drop_abandoned(struct thread *thread, u64 stack_pointer, u64 cookie)
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
		thread->depth = top;
		abandoned(thread);
	}
	return false;
}

/* A driver call made by the runtime is counted, but its time is part of the runtime call's. */
static __always_inline bool is_nested(const struct thread *thread, u32 api)
{
	u32 top = thread->depth - 1;

	return api == API_DRIVER && top < CALL_DEPTH && call_api(thread->calls[top].cookie) == API_RUNTIME;
}

static __always_inline void count_call(u32 process, u64 cookie)
{
	struct operation_key key = {.process = process, .operation = (u16)cookie};
	struct operation_row *row = operation_row(&key);

	if (row)
		__sync_fetch_and_add(&row->untimed, 1);
}

/* A probe was hit that timed nothing. */
static __always_inline void count_hit(struct thread *thread)
{
	if (++thread->counted >= COUNTED_TOGETHER)
		add_hits(thread);
}

static __always_inline void count_untimed(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	count_call(thread->process, cookie);
	note_counted(&thread->last_counted, thread->entered, stack_pointer, cookie);
	count_hit(thread);
}

/* Whether this call is on record already, seen through another attachment. Those that were left without a return are dropped. */
static __always_inline bool is_on_record(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	return drop_abandoned(thread, stack_pointer, cookie) ||
	       is_counted(&thread->last_counted, thread->process, thread->entered, stack_pointer, cookie);
}

/* The head of cudaLaunchConfig_t and of CUlaunchConfig. */
struct launch_config {
	u32 grid[3];
	u32 block[3];
	u64 shared_bytes; /* the driver's has 32 bits of it, and padding */
	u64 stream;
};

/* The stream that a kernel is launched on; 0 where it cannot be read. */
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

/* Work is given to the GPU, or put into a graph. */
static __always_inline void launched(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	struct feeding_row *row = feeding_row(thread->process);

	if (!row)
		return;
	if (is_kernel_launch(cookie)) {
		if (is_nested(thread, call_api(cookie))) /* the outer call has told */
			return;
		if (row->open_captures && captured_kernels(thread->process, launch_stream(regs, cookie), 1))
			return;
		__sync_fetch_and_add(&row->kernels, 1);
	}
	if (row->is_dry)
		row->is_dry = false;
}

/* What the call says about its thread, and about the GPU. */
static __always_inline void note_role(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	enum call_role role = role_of(cookie);

	if (role == ROLE_LAUNCH || role == ROLE_SYNC || role == ROLE_EVENT_SYNC)
		thread->is_step = true;
	if (role == ROLE_LAUNCH)
		launched(thread, regs, cookie);
}

/* Opens a call and returns its frame for remember(); NULL when its return is of no interest. */
static __always_inline struct call *call_enter(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	u64 stack_pointer = STACK_POINTER(regs);

	if (is_on_record(thread, stack_pointer, cookie)) {
		count_hit(thread);
		return NULL;
	}
	thread->entered++;
	note_role(thread, regs, cookie);
	note_work(thread, cookie);
	if (is_nested(thread, call_api(cookie)) || is_sampled_out(thread, stack_pointer, cookie)) {
		count_untimed(thread, stack_pointer, cookie);
		return NULL;
	}
	u32 depth = thread->depth;

	if (depth >= CALL_DEPTH) {
		lose(LOSS_NESTING);
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
 * Closes the call that this return belongs to; NULL when none does: the exporter came late, the call was nested or too
 * deep, or this is the child of a fork returning through its parent's frame. The frame stays readable until the next entry.
 */
static __always_inline struct call *call_leave(struct thread *thread, struct pt_regs *regs)
{
	u64 stack_pointer = STACK_POINTER(regs) - RETURN_POPS;

	for (int i = 0; i < CALL_DEPTH; i++) {
		u32 top = thread->depth - 1 - i;

		if (top >= CALL_DEPTH)
			return NULL;
		if (thread->calls[top].stack_pointer == stack_pointer) {
			for (int above = 0; above < i; above++)
				abandoned(thread);
			thread->depth = top;
			return &thread->calls[top];
		}
	}
	return NULL;
}

/* The outermost call returned, and has been asleep or waiting for a CPU, or took long. */
__noinline int end_switched_call(struct thread *thread, struct call *call, struct operation_key *key, struct operation_row *row,
			u64 now_ns)
{
	if (!thread || !call || !key)
		return 0;
	u64 duration_ns = now_ns - call->entry_ns;
	struct states states = {};
	bool has_slept = thread->account.sleep_ns > thread->mark_ns;
	enum call_role role = role_of(call->cookie);

	settle(thread, now_ns, &states);
	if (!row)
		return 0;
	add_states(row->states_ns, &states);
	if (duration_ns >> TAIL_FIRST_OCTAVE)
		add_tail(key, duration_ns, &states);
	if (role != ROLE_SYNC && role != ROLE_EVENT_SYNC && role != ROLE_COPY)
		return 0;
	u64 exposed_ns = expose(thread, key, &states, duration_ns, has_slept, now_ns);

	if (role != ROLE_EVENT_SYNC && thread->is_step)
		waited(thread->process, elapsed_ns(exposed_ns, duration_ns));
	else
		waited_within(thread->process);
	return 0;
}

/* The outermost call returned: its time is booked and a gap begins. */
static __always_inline void end_call(struct thread *thread, struct call *call, struct operation_key *key,
				     struct operation_row *row, u64 now_ns)
{
	u32 zero = 0, state;
	u64 ns;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);
	enum call_role role = role_of(call->cookie);
	bool is_simple = role == ROLE_LAUNCH || role == ROLE_QUERY || role == ROLE_OTHER;

	if (is_simple && (now_ns - call->entry_ns) >> TAIL_FIRST_OCTAVE == 0 && row &&
	    settle_unswitched(thread, now_ns, &state, &ns))
		__sync_fetch_and_add(&row->states_ns[state], ns);
	else
		end_switched_call(thread, call, key, row, now_ns);
	thread->idle_at_ns = own ? now_ns + own->idle_ns : 0;
}

static __always_inline bool is_failure(u64 cookie, s32 code)
{
	return code && code != (call_api(cookie) == API_NCCL ? NCCL_IN_PROGRESS : CUDA_NOT_READY);
}

static __always_inline void remember(struct thread *thread, struct pt_regs *regs, struct call *call);
static __always_inline u16 communicator_of(struct thread *thread, struct call *call);
static __always_inline void succeeded(struct thread *thread, struct call *call, struct operation_row *row, s32 code,
				      u64 now_ns);
static __always_inline void failed(struct thread *thread, struct call *call);

/* Returns 1 when the return of this call need not be seen: a session then skips it. */
static __always_inline int on_enter(struct pt_regs *regs, struct thread *known)
{
	struct thread *thread = numbered_thread(known);

	if (!thread)
		return 1;
	struct call *call = call_enter(thread, regs, bpf_get_attach_cookie(regs));

	if (!call)
		return 1;
	remember(thread, regs, call);
	u64 now_ns = bpf_ktime_get_ns(); /* late: what this program itself took is not the call's */

	call->entry_ns = now_ns;
	if (thread->depth == 1) {
		note_pause(thread, now_ns);
		end_gap(thread, now_ns);
	}
	if (++thread->timed >= COUNTED_TOGETHER)
		add_hits(thread);
	return 0;
}

static __always_inline int on_exit(struct pt_regs *regs, struct thread *thread, u64 now_ns)
{
	struct call *call = thread ? call_leave(thread, regs) : NULL;

	if (!call)
		return 0;
	u64 duration_ns = now_ns - call->entry_ns;
	struct operation_key key = {
		.process = thread->process,
		.operation = (u16)call->cookie,
		.communicator = communicator_of(thread, call),
	};
	struct operation_row *row = operation_row(&key);
	s32 code = (s32)RETURN_VALUE(regs);

	if (thread->depth == 0)
		end_call(thread, call, &key, row, now_ns);
	if (!row)
		return 0;
	offer_exemplar(&row->slowest, duration_ns, now_ns);
	add_duration(row, duration_ns);
	if (is_failure(call->cookie, code)) {
		add_error(&key, code);
		failed(thread, call);
	} else {
		succeeded(thread, call, row, code, now_ns);
	}
	return 0;
}

/*
 * Where returns are not probed a call counts as it begins, and nothing of it stays open. The thread is not accounted for: its
 * waits for the GPU would be taken for gaps.
 */
static __always_inline int on_count(struct pt_regs *regs, u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 process = is_outside(task) ? 0 : process_number(task);

	if (!process)
		return 0;
	struct feeding_row *row = feeding_row(process);
	struct counted_call *last = bpf_task_storage_get(&counted_calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	bool is_new = !last || !is_counted(last, process, 0, STACK_POINTER(regs), cookie);

	if (is_new)
		count_call(process, cookie);
	if (is_new && last)
		note_counted(last, 0, STACK_POINTER(regs), cookie);
	if (row)
		__sync_fetch_and_add(&row->counted_calls, 1);
	return 0;
}

extern bool bpf_session_is_return(void) __ksym __weak;

/*
 * Whether a session program runs for a return. The kernel would tell at 21 ns a time; where the stack pointer tells, and
 * every open call of the thread is still on record, it is a return exactly when it stands where an open call will return to.
 */
static __always_inline bool is_return(struct thread *thread, struct pt_regs *regs)
{
	/* A thread without a number has made no call, but may be the child of a fork that returns through its parent's. */
	if (!STACK_TELLS_RETURNS || !thread || !thread->process || thread->has_abandoned)
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

static __always_inline int on_session(struct pt_regs *regs)
{
	struct thread *thread = known_thread();

	if (is_return(thread, regs))
		return on_exit(regs, thread, bpf_ktime_get_ns());
	return on_enter(regs, thread);
}

/*
 * `subject`_session: entry and return in one program (kernel 6.13 and later).
 * `subject`_enter, `subject`_exit: the same in two, for uprobe_multi links and for one perf event per function.
 * `subject`_count: entry alone, where a return probe could hurt the process (exporter/kernel/hazards.py).
 * User space loads either the first, or the next two, or the last.
 */
#define CALL_PROGRAMS(subject)                                             \
	SEC("uprobe")                                                      \
	int subject##_session(struct pt_regs *regs)                        \
	{                                                                  \
		return on_session(regs);                                   \
	}                                                                  \
	SEC("uprobe")                                                      \
	int subject##_enter(struct pt_regs *regs)                          \
	{                                                                  \
		on_enter(regs, known_thread());                            \
		return 0;                                                  \
	}                                                                  \
	SEC("uretprobe")                                                   \
	int subject##_exit(struct pt_regs *regs)                           \
	{                                                                  \
		return on_exit(regs, known_thread(), bpf_ktime_get_ns());  \
	}                                                                  \
	SEC("uprobe")                                                      \
	int subject##_count(struct pt_regs *regs)                          \
	{                                                                  \
		return on_count(regs, bpf_get_attach_cookie(regs));              \
	}

#endif
