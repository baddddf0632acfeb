// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which Python functions is a thread in, and what do the addresses of a walk lead to?
 * Attach points: none; user space runs the sleepable iterators iter.s/task python_walk and python_read on one thread.
 * Maps: interpreters and python_request are written by exporter/kernel/python_frames.py, which reads the iterators' output.
 * Dropped: nothing. A row says why it has no frames.
 * Cost: 0.1 ms for each thread. It may block on the memory map of the process, so it must not run inside a tick; bpf/README.md.
 *
 * Reading by bpf_copy_from_user_task() stops no thread and works where ptrace(2) is refused, as with kernel.yama.ptrace_scope=3.
 * Frames are of one moment if the thread was in the same traced call before and after the walk, or slept all the time.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#define PYTHON_READ(target, bytes, address, task) bpf_copy_from_user_task(target, bytes, (void *)(address), task, 0)
#include "lib/python.bpf.h"
#include "lib/thread.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct python_request);
} python_request SEC(".maps");

struct scratch {
	struct python_walk walk;
	struct python_row row;
	u8 copied[PYTHON_READ_BYTES];
};

/* Not per CPU, because another run could use the CPU while this one sleeps. User space runs one at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} python_scratch SEC(".maps");

/* By which it shows whether a thread has run between two looks. */
struct activity {
	u64 opened_ns, switches;
	u32 is_inside, is_asleep;
};

static __always_inline struct activity activity_of(struct task_struct *task, const struct thread *thread)
{
	return (struct activity){
		.opened_ns = thread->mark_ns,
		.switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw),
		.is_inside = thread->depth != 0,
		/* On a kernel for one CPU, a thread that is looked at by another does not run. */
		.is_asleep = BPF_CORE_READ(task, __state) && !(bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ(task, on_cpu)),
	};
}

static __always_inline bool has_run(const struct activity *before, const struct activity *after)
{
	if (before->opened_ns != after->opened_ns || before->is_inside != after->is_inside)
		return true;
	return !before->is_inside && (!before->is_asleep || !after->is_asleep || before->switches != after->switches);
}

SEC("iter.s/task")
int python_walk(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&python_scratch, &zero);

	if (!task || !scratch || !task->mm)
		return 0;
	struct thread *thread = tracked_thread(task);

	if (!thread)
		return 0;
	struct python_subject subject = {.task = task, .walk = &scratch->walk};
	struct python_walk *walk = &scratch->walk;
	struct python_row *row = &scratch->row;
	struct activity before = activity_of(task, thread), after;

	row->tid = visible_tid(task);
	row->tgid = visible_tid(BPF_CORE_READ(task, group_leader));
	row->place = 0;
	walk->count = 0;
	walk->frames_max = PYTHON_FRAMES;
	walk->found = 0;
	walk->status = PYTHON_NO_FRAMES;
	_Pragma("clang loop unroll(full)") for (u32 place = 0; place < PYTHON_INTERPRETERS; place++) {
		if (!python_find_thread(&subject, row->tgid, place))
			continue;
		python_walk_frames(&subject, true);
		row->place = place;
		if (walk->status != PYTHON_NO_FRAMES)
			break;
	}
	after = activity_of(task, thread);
	if (has_run(&before, &after))
		walk->status = walk->ends_in_generator ? PYTHON_NO_FRAMES : PYTHON_RUNNING;
	row->read_ns = bpf_ktime_get_ns();
	row->opened_ns = after.opened_ns;
	row->woken_ns = thread->account.woken_ns;
	row->waker_tid = thread->account.waker_tid;
	row->waiting_ns = is_awaiting_signal(&thread->account) ? thread->account.sleep_ns : 0;
	row->state = walk->found;
	row->switches = after.is_inside ? 0 : after.switches;
	row->status = walk->status;
	row->frame_count = walk->count;
	bpf_seq_write(context->meta->seq, row, __builtin_offsetof(struct python_row, frames));
	bpf_seq_write(context->meta->seq, walk->frames, sizeof(walk->frames));
	bpf_seq_write(context->meta->seq, walk->entries, sizeof(walk->entries));
	return 0;
}

/* Writes the requested bytes; nothing if one of them cannot be read. */
SEC("iter.s/task")
int python_read(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u32 zero = 0;
	struct scratch *scratch = bpf_map_lookup_elem(&python_scratch, &zero);
	struct python_request *request = bpf_map_lookup_elem(&python_request, &zero);

	if (!task || !scratch || !request || !task->mm)
		return 0;
	u32 bytes = request->bytes;

	if (!bytes || bytes > PYTHON_READ_BYTES || request->address >= POINTER_MAX)
		return 0;
	if (!PYTHON_READ(scratch->copied, bytes, request->address, task))
		bpf_seq_write(context->meta->seq, scratch->copied, bytes);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
