// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Where in its program is a thread, and who has made the call that it is in?
 * Attach points: none; user space runs the sleepable iterator iter.s/task stacks_read on one thread.
 * Maps written: stack_scratch, its own; what the program writes is read by exporter/kernel/stacks.py.
 * Lost: nothing. A walk ends at the first frame that cannot be one, or that cannot be read; nothing but addresses is told.
 * Cost: 0.2 ms a thread; it waits for whoever holds the memory map of the process, so that no tick may wait for it.
 *
 * Two walks along frame pointers. The first begins where the thread is, and often ends soon: libc is built without them. The
 * second begins at the stack pointer that the outermost open call was entered with. A probe on the return of a function takes
 * the place of its return address; the kernel keeps what lay there. And the words of the stack around both: exporter/host/eh_frame.py
 * knows how code without frame pointers leaves its stack to its caller.
 */
#define LOSS_PROGRAM LOSS_IN_SCHED
#include "lib/process.bpf.h"
#include "lib/registers.bpf.h"
#include "lib/thread.bpf.h"

#define STACK_SPAN (8 << 20) /* bytes from the first frame to the last: the usual limit of a stack */

/* An array and not one per CPU: another run could take the CPU while this one sleeps. User space runs one at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_row);
} stack_scratch SEC(".maps");

/* A frame: the caller's frame pointer, and above it the return address. Frames lie above one another, callers above. */
static __always_inline u32 walk(struct task_struct *task, u64 frame, struct stack_frame *frames)
{
	u64 first = frame, below = 0;
	u32 count = 0;

	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < STACK_FRAMES; i++)
	{
		u64 record[2];

		if (frame & 7 || frame <= below || frame - first >= STACK_SPAN)
			break;
		if (bpf_copy_from_user_task(record, sizeof(record), (void *)frame, task, 0) || !record[1])
			break;
		frames[i].slot = frame + sizeof(u64);
		frames[i].address = record[1];
		count = i + 1;
		below = frame;
		frame = record[0];
	}
	return count;
}

/* What the callbacks of helpers are given. */
struct window {
	struct task_struct *task;
	u64 bottom; /* of the stack, as far as it is of interest */
	u64 first;  /* word of the row */
};

static long tell_whether_code(struct task_struct *task, struct vm_area_struct *vma, bool *is_code)
{
	*is_code = vma->vm_flags & VM_EXEC;
	return 0;
}

/* What a program keeps on its stack is none of our business, but for where it has come from. */
static long blank_out(u32 i, struct window *window)
{
	u32 zero = 0, at = (u32)window->first + i;
	bool is_code = false;
	struct stack_row *row = bpf_map_lookup_elem(&stack_scratch, &zero);

	if (!row || at >= STACK_ALL_WORDS)
		return 1;
	u64 word = row->words[at];

	if (word - window->bottom < STACK_SPAN)
		return 0;
	if (word >> 12)
		bpf_find_vma(window->task, word, tell_whether_code, &is_code, 0);
	if (!is_code)
		row->words[at] = 0;
	return 0;
}

#define PIECE_WORDS 128 /* of a window: what lies above the end of a stack cannot be read, and nothing of a piece that ends there */

/* One window of the stack. Whoever knows how the code uses its stack can follow it without frame pointers. */
static __always_inline void fill_window(struct task_struct *task, struct stack_row *row, u32 number, u64 slot)
{
	struct window window = {.task = task, .bottom = row->stack_pointer, .first = number * STACK_WORDS};
	u64 *words = row->words + number * STACK_WORDS;
	bool is_over = !slot || slot & 7;

	row->window_slots[number] = is_over ? 0 : slot;
	_Pragma("clang loop unroll(disable)") for (u32 i = 0; i < STACK_WORDS; i += PIECE_WORDS)
	{
		if (!is_over)
			is_over = bpf_copy_from_user_task(words + i, PIECE_WORDS * sizeof(u64), (void *)(slot + i * sizeof(u64)), task, 0);
		if (is_over)
			__builtin_memset(words + i, 0, PIECE_WORDS * sizeof(u64));
	}
	bpf_loop(STACK_WORDS, blank_out, &window, 0);
}

static __always_inline void fill_returns(struct task_struct *task, struct stack_row *row)
{
	struct return_instance *probed = BPF_CORE_READ(task, utask, return_instances);

	for (u32 i = 0; i < STACK_RETURNS; i++) {
		row->returns[i].slot = probed ? return_slot(BPF_CORE_READ(probed, stack)) : 0;
		row->returns[i].address = probed ? BPF_CORE_READ(probed, orig_ret_vaddr) : 0;
		probed = probed ? BPF_CORE_READ(probed, next) : NULL;
	}
}

SEC("iter.s/task")
int stacks_read(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	u32 zero = 0;
	struct stack_row *row = bpf_map_lookup_elem(&stack_scratch, &zero);
	struct pt_regs registers;

	if (!task || !row || !task->mm)
		return 0;
	struct thread *thread = watched(task);

	if (!thread)
		return 0;
	if (bpf_probe_read_kernel(&registers, sizeof(registers), (void *)bpf_task_pt_regs(task)))
		return 0;
	struct call *call = thread->depth ? &thread->calls[0] : NULL;
	u64 call_slot = call ? return_slot(call->stack_pointer) : 0;

	row->tid = visible_tid(task);
	row->tgid = visible_tid(BPF_CORE_READ(task, group_leader));
	row->operation = call ? (u16)call->cookie : OPERATION_NONE;
	row->is_running = bpf_core_field_exists(task->on_cpu) && BPF_CORE_READ(task, on_cpu);
	row->read_ns = bpf_ktime_get_ns();
	row->opened_ns = thread->mark_ns;
	row->call_slot = call_slot;
	row->instruction = INSTRUCTION_POINTER(registers);
	row->stack_pointer = STACK_POINTER_OF(registers);
	row->frame_pointer = FRAME_POINTER(registers);
	row->frame_count = walk(task, FRAME_POINTER(registers), row->frames);
	/* A function that begins with `push %rbp` makes a frame of it and the return address. */
	row->caller_count = call_slot ? walk(task, call_slot - sizeof(u64), row->callers) : 0;
	u64 outer = call_slot ? call_slot - sizeof(u64) : row->stack_pointer + STACK_WORDS * sizeof(u64);

	fill_window(task, row, 0, row->stack_pointer);
	fill_window(task, row, 1, outer);
	fill_window(task, row, 2, outer + STACK_WORDS * sizeof(u64));
	fill_returns(task, row);
	BPF_CORE_READ_STR_INTO(&row->comm, task, comm);
	bpf_seq_write(context->meta->seq, row, sizeof(*row));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
