// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which single calls does a job make, and what do its threads do in between? Loaded and attached only while a recording runs.
 * Attach points: entries of the functions that cuda.bpf.c and nccl.bpf.c trace; tp_btf sched_switch, sched_waking.
 * Maps written: recorded_events, recorded_rows (exporter/kernel/call_recording.py); recorded_settings is only read. The
 *   maps of the other objects are only read, but for threads: the size of launches, and that a call has been recorded.
 * Dropped: events for which the ring has no room, and those over the bound of a process, counted in recorded_rows.
 * Cost: docs/record.md, measured by `make bench`.
 */
#define DROP_PROGRAM DROP_IN_CUDA
#include "lib/account.bpf.h"
#include "lib/arguments.bpf.h"
#include "lib/capture.bpf.h"
#include "lib/communicator.bpf.h"
#include "lib/geometry.bpf.h"
#include "lib/progress.bpf.h"
#include "lib/registers.bpf.h"
#include "lib/waker.bpf.h"
#include "abi/recorded.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024); /* sized by exporter/kernel/call_recording.py */
} recorded_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); /* preallocated: written by scheduler programs */
	__type(key, u32);	   /* process number */
	__type(value, struct recorded_row);
} recorded_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct recorded_setting);
} recorded_settings SEC(".maps");

static const struct recorded_row empty_recorded;

static __always_inline struct recorded_setting *recorded_setting(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&recorded_settings, &zero);
}

/* The row of a process that is recorded; NULL for others. */
static __always_inline struct recorded_row *recorded_row(u32 process, const struct recorded_setting *setting)
{
	struct recorded_row *row = bpf_map_lookup_elem(&recorded_rows, &process);

	if (row || setting->is_filtered)
		return row;
	bpf_map_update_elem(&recorded_rows, &process, &empty_recorded, BPF_NOEXIST);
	return bpf_map_lookup_elem(&recorded_rows, &process);
}

/* Whether the process has events left in this span. Two CPUs that begin a span at the same time grant a few more. */
static __always_inline bool is_within_bound(struct recorded_row *row, const struct recorded_setting *setting, u64 now_ns)
{
	u64 span = now_ns >> RECORDED_SPAN_BITS;

	if (row->span != span) {
		row->span = span;
		row->in_span = 0;
	}
	if (__sync_fetch_and_add(&row->in_span, 1) < setting->most_in_span)
		return true;
	__sync_fetch_and_add(&row->left_out, 1);
	return false;
}

/* Numbers of a thread in the exporter's pid namespace. */
static __always_inline u32 shown_tid(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	return own && own->is_confined ? visible_tid(task) : (u32)BPF_CORE_READ(task, pid);
}

static __always_inline u32 shown_tgid(struct task_struct *task)
{
	u32 zero = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);

	return own && own->is_confined ? visible_tid(BPF_CORE_READ(task, group_leader)) : (u32)BPF_CORE_READ(task, tgid);
}

/* ---- calls ---- */

/* A launch begins: keeps its size, which is in registers only now, where the call will be. */
static __always_inline void note_launch_size(struct thread *thread, struct pt_regs *regs, u64 cookie)
{
	u32 place = thread->depth;
	struct launch_size size;

	if (place >= CALL_DEPTH)
		return;
	struct call *call = &thread->calls[place];

	if (!launch_size(regs, cookie, &size))
		size = (struct launch_size){};
	call->arguments[LAUNCH_BLOCKS] = size.blocks;
	call->arguments[LAUNCH_THREADS] = size.threads;
	call->arguments[LAUNCH_ENTERED] = STACK_POINTER(regs);
}

static __always_inline void describe_collective(struct recorded_call *event, struct thread *thread, const struct call *call)
{
	struct communicator_row *communicator = known_communicator(thread->process, call->arguments[ENQUEUED_COMMUNICATOR]);

	event->amount = call->arguments[ENQUEUED_BYTES];
	if (!communicator)
		return;
	event->communicator = communicator->ordinal;
	event->detail = communicator->hash;
	if (event->code || call_shape(call->cookie) != SHAPE_COLLECTIVE || communicator->ordinal == COMMUNICATOR_OTHER ||
	    call->arguments[ENQUEUED_IS_INNER] || is_captured(thread->process, call->arguments[ENQUEUED_STREAM]))
		return;
	struct progress_row *row = known_progress(thread->process, communicator->ordinal);

	event->sequence = row ? row->collectives : 0;
}

static __always_inline void describe_call(struct recorded_call *event, struct thread *thread, const struct call *call)
{
	switch (call_shape(call->cookie)) {
	case SHAPE_COPY:
	case SHAPE_COPY_2D:
		event->amount = copy_bytes(call);
		event->detail = copy_direction(call) | copy_memory(call) << 8;
		break;
	case SHAPE_ALLOCATE:
	case SHAPE_PIN:
	case SHAPE_PIN_AT:
		event->amount = call->arguments[ALLOCATE_BYTES];
		break;
	case SHAPE_FREE:
	case SHAPE_UNPIN:
		event->amount = call->arguments[FREE_BYTES];
		break;
	case SHAPE_LAUNCH:
	case SHAPE_LAUNCH_SPREAD:
	case SHAPE_LAUNCH_CONFIG:
		if (call->arguments[LAUNCH_ENTERED] != call->stack_pointer) /* it began before the recording */
			break;
		event->amount = call->arguments[LAUNCH_BLOCKS];
		event->detail = call->arguments[LAUNCH_THREADS];
		break;
	case SHAPE_COLLECTIVE:
	case SHAPE_SEND_RECEIVE:
		describe_collective(event, thread, call);
		break;
	}
}

static __always_inline void record_call(struct thread *thread, struct task_struct *task, const struct call *call, u32 depth, u64 ended_ns)
{
	struct recorded_setting *setting = recorded_setting();

	if (!setting || ended_ns < setting->began_ns)
		return;
	struct recorded_row *row = recorded_row(thread->process, setting);

	if (!row || !is_within_bound(row, setting, ended_ns))
		return;
	struct recorded_call *event = bpf_ringbuf_reserve(&recorded_events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&row->full, 1);
		return;
	}
	*event = (struct recorded_call){
		.kind = RECORDED_CALL,
		.process = thread->process,
		.tid = shown_tid(task),
		.code = thread->failed_ns == call->entry_ns ? thread->failure : 0,
		.operation = (u16)call->cookie,
		.depth = depth,
		.began_ns = call->entry_ns,
		.ended_ns = ended_ns,
	};
	describe_call(event, thread, call);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	__sync_fetch_and_add(&row->calls, 1);
}

/*
 * Records the calls of a thread that have returned. The programs that trace calls leave them readable until the next entry: so the
 * durations are those that they have counted, and this needs no probe on returns.
 */
static __noinline void record_returned(struct thread *thread, struct task_struct *task)
{
	u32 open = thread->depth;

	/* The innermost first, which returned first. */
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < CALL_DEPTH; i++)
	{
		u32 depth = CALL_DEPTH - 1 - i;
		struct call *call = &thread->calls[depth];

		if (depth < open || !call->stack_pointer)
			continue;
		/* Of the outermost it is the beginning of the gap. */
		record_call(thread, task, call, depth, depth || !thread->is_tracked ? thread->ended_ns[depth] : thread->mark_ns);
		call->stack_pointer = 0;
	}
}

/*
 * On the functions that are traced, attached after cuda_session and the like, and so run before them: the kernel puts the newest probe
 * of a place first.
 */
SEC("uprobe")
int recorded_enter(struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	u64 cookie = bpf_get_attach_cookie(regs);

	if (!thread || !thread->process)
		return 0;
	record_returned(thread, task);
	if (is_kernel_launch(cookie))
		note_launch_size(thread, regs, cookie);
	return 0;
}

/* ---- threads ---- */

/* The thread of a recorded job, also one that has just ended; NULL for any other task. */
static __always_inline struct thread *thread_of_job(struct task_struct *task)
{
	struct thread *thread;

	if (!task->bpf_storage)
		return NULL;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	return thread && thread->group ? thread : NULL;
}

/* other: the other task of the change; NULL: none. */
static __always_inline void record_change(struct thread *thread, struct task_struct *task, enum recorded_kind kind,
					  struct task_struct *other)
{
	struct recorded_setting *setting = recorded_setting();
	struct recorded_row *row = setting ? recorded_row(thread->group, setting) : NULL;
	u64 now_ns = bpf_ktime_get_ns();

	if (!row || !is_within_bound(row, setting, now_ns))
		return;
	struct recorded_change *event = bpf_ringbuf_reserve(&recorded_events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&row->full, 1);
		return;
	}
	*event = (struct recorded_change){
		.kind = kind,
		.process = thread->group,
		.tid = shown_tid(task),
		.state = thread->account.state,
		.at_ns = now_ns,
		.throttled_ns = kind == RECORDED_CAME ? thread->account.last_throttled_ns : 0,
	};
	if (other && BPF_CORE_READ(other, pid)) {
		event->other_tid = shown_tid(other);
		event->other_tgid = shown_tgid(other);
	}
	if (event->other_tid)
		BPF_CORE_READ_STR_INTO(&event->other_comm, other, group_leader, comm);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	__sync_fetch_and_add(&row->changes, 1);
}

/* Runs after sched_switch() of sched.bpf.c, which was attached first: the account is that of the state that begins. */
SEC("tp_btf/sched_switch")
int recorded_switch(u64 *context)
{
	struct task_struct *previous = (void *)context[1], *next = (void *)context[2];
	struct thread *leaving = thread_of_job(previous), *coming = thread_of_job(next);

	if (leaving && leaving->process)
		record_returned(leaving, previous);
	if (leaving)
		record_change(leaving, previous, leaving->is_tracked ? RECORDED_LEFT : RECORDED_ENDED, next);
	if (coming)
		record_change(coming, next, RECORDED_CAME, previous);
	return 0;
}

SEC("tp_btf/sched_waking")
int recorded_waking(u64 *context)
{
	struct task_struct *task = (void *)context[0], *current = bpf_get_current_task_btf();
	struct thread *thread = thread_of_job(task);

	if (!thread || is_running(&thread->account) || thread->account.state == STATE_RUNNABLE)
		return 0;
	record_change(thread, task, RECORDED_WOKEN, is_by_current(current, true) ? current : NULL);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
