// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Where in its program is a thread, and which functions have led to its open call?
 * Attach points: none; user space runs the sleepable iterator iter.s/task stacks_read on one thread.
 * Maps written: stack_scratch (this file); exporter/kernel/stacks.py reads the iterator's output.
 * Dropped: nothing. A walk ends at the first frame that is invalid or unreadable.
 * Cost: 0.2 ms for each thread. It may block on the memory map of the process, so it must not run inside a tick; bpf/README.md.
 *
 * Two walks along frame pointers. The first begins at the current function and often ends soon, because libc is built without frame
 * pointers. The second begins at the stack pointer with which the outermost open call was entered. A return probe replaces a return
 * address on the stack; the kernel keeps the original. The row also has the words of the stack around both places, from which
 * exporter/host/eh_frame.py unwinds code without frame pointers. Only addresses leave the kernel, never other contents of the stack.
 */
#define DROP_PROGRAM DROP_IN_SCHED
#include "lib/process.bpf.h"
#include "lib/registers.bpf.h"
#include "lib/stopped.bpf.h"
#include "lib/thread.bpf.h"
#include "abi/operation.h"
#include "abi/stack.h"

#define STACK_SPAN (8 << 20) /* bytes from the first frame to the last: the default limit of a stack */

/* Not per CPU, because another run could use the CPU while this one sleeps. User space runs one at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct stack_row);
} stack_scratch SEC(".maps");

/* A frame is the caller's frame pointer, and above it the return address. The frames of callers are at higher addresses. */
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

/* The context of clear_if_no_address(). */
struct window {
	struct task_struct *task;
	u64 bottom; /* lowest address of the stack that counts as one of the stack */
	u64 first;  /* word of the row */
};

static long find_code(struct task_struct *task, struct vm_area_struct *vma, bool *is_code)
{
	*is_code = vma->vm_flags & VM_EXEC;
	return 0;
}

/* Clears a word that is neither an address of code nor of the stack: other contents are private. */
static long clear_if_no_address(u32 i, struct window *window)
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
		bpf_find_vma(window->task, word, find_code, &is_code, 0);
	if (!is_code)
		row->words[at] = 0;
	return 0;
}

#define PIECE_WORDS 128 /* words per read: a read that reaches beyond the end of the stack fails as a whole */

/* One window of the stack, from which code without frame pointers can be unwound. */
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
	bpf_loop(STACK_WORDS, clear_if_no_address, &window, 0);
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
	struct thread *thread = tracked_thread(task);

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
	row->is_stopped = is_stopped(task, BPF_CORE_READ(task, __state));
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
