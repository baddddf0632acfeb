/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The Python functions that a thread is in: from the list of thread states of its interpreter along its frames. Offsets of members come
 * from user space, which has checked them. Only addresses are read.
 *
 * The includer says how memory of a task is read: PYTHON_READ(target, bytes, address, task), 0 if all of it was.
 * Map written: none; interpreters is written by exporter/kernel/python_frames.py.
 */
#ifndef GPUSTALL_PYTHON_BPF_H
#define GPUSTALL_PYTHON_BPF_H

#include "process.bpf.h"
#include "../abi/python.h"

#define THREAD_STATES_MAX 4096 /* looked at, of all interpreters of a runtime */
#define TICK_NS 10000000ULL    /* of start times in /proc */
#define POINTER_MAX (1ULL << 56)
#define HASH_FACTOR 0x9e3779b97f4a7c15ULL /* odd, with bits all over */
#define ALL_FRAMES_MAX (4 * PYTHON_FRAMES) /* those that are not of Python functions included */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* all that 16,384 processes can have: `processes` is what is shared by owner */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct python_key);
	__type(value, struct python_layout);
} interpreters SEC(".maps");

struct python_walk {
	struct python_layout layout;
	u64 interpreter, state;	  /* of the thread that is looked at */
	u64 native_id, thread_id; /* of the one looked for */
	u64 found;		  /* its state */
	u64 frame;		  /* the next one */
	u64 cframe; /* of 3.10 and 3.11: on the thread's stack, of the function that runs the next frame; 0: not wanted */
	u32 count, frames_max;
	u64 hash; /* of the frames */
	u32 status; /* enum python_status */
	u32 ends_in_generator; /* the last frame is one, which has a caller unless it is just entered or left */
	u8 members[PYTHON_FRAME_BYTES];
	u64 identity[PYTHON_IDENTITY_BYTES / sizeof(u64)];
	struct python_frame frames[PYTHON_FRAMES];
	u64 entries[PYTHON_FRAMES];
};

/* The context of the loops. The pointers are on the stack, where the verifier knows their types. */
struct python_subject {
	struct task_struct *task;
	struct python_walk *walk;
};

/* A word of the process; 0 if it cannot be read. */
static __always_inline u64 python_word(struct task_struct *task, u64 address)
{
	u64 word;

	if (!address || address >= POINTER_MAX)
		return 0;
	return PYTHON_READ(&word, sizeof(word), address, task) ? 0 : word;
}

static __always_inline bool is_state_of(struct task_struct *task, const struct python_walk *walk, u64 state)
{
	if (walk->layout.thread_native_id != PYTHON_ABSENT)
		return python_word(task, state + walk->layout.thread_native_id) == walk->native_id;
	return walk->thread_id && python_word(task, state + walk->layout.thread_id) == walk->thread_id;
}

static __always_inline u64 python_innermost(struct task_struct *task, const struct python_walk *walk, u64 state)
{
	u64 frame = python_word(task, state + walk->layout.thread_frame);

	return walk->layout.cframe_frame == PYTHON_ABSENT ? frame : python_word(task, frame + walk->layout.cframe_frame);
}

/*
 * Compares one state of a thread, then goes on to the next, or to the first one of the next interpreter. A thread has a state in each
 * interpreter that it has run in: the one with frames is meant.
 */
static long python_find_state(u32 i, struct python_subject *subject)
{
	struct python_walk *walk = subject->walk;

	if (!walk->state) {
		if (!walk->interpreter)
			return 1;
		walk->state = python_word(subject->task, walk->interpreter + walk->layout.interpreter_threads_head);
		walk->interpreter = python_word(subject->task, walk->interpreter + walk->layout.interpreter_next);
		return 0;
	}
	if (is_state_of(subject->task, walk, walk->state) && python_innermost(subject->task, walk, walk->state)) {
		walk->found = walk->state;
		return 1;
	}
	walk->state = python_word(subject->task, walk->state + walk->layout.thread_next);
	return 0;
}

static __always_inline u64 python_member(const struct python_walk *walk, u32 offset)
{
	u64 word;

	if (offset > PYTHON_FRAME_BYTES - sizeof(word))
		return 0;
	__builtin_memcpy(&word, walk->members + offset, sizeof(word));
	return word;
}

#define OWNED_BY_GENERATOR 1 /* Include/internal/pycore_frame.h, since 3.11 */

static __always_inline bool is_generator(const struct python_walk *walk)
{
	u32 at = walk->layout.frame_owner;

	return at < PYTHON_FRAME_BYTES && walk->members[at] == OWNED_BY_GENERATOR;
}

static __always_inline bool is_python_function(const struct python_walk *walk)
{
	u32 at = walk->layout.frame_owner;

	return at >= PYTHON_FRAME_BYTES || walk->members[at] < walk->layout.skip_owner_from;
}

/*
 * A hash of a code object, another one for a later object at its address; 0 if it cannot be read. exporter/python/code_objects.py has it too.
 * Not inlined: clang 19 would then put `bytes` on the stack before it is compared, where kernel 6.1 does not see the comparison.
 */
static __noinline u64 python_identity(struct task_struct *task, struct python_walk *walk, u64 code)
{
	u32 bytes = walk->layout.identity_bytes;
	u64 hash = HASH_FACTOR;

	if (code >= POINTER_MAX || bytes > sizeof(walk->identity) ||
	    PYTHON_READ(walk->identity, bytes, code + walk->layout.identity_at, task))
		return 0;
	_Pragma("clang loop unroll(full)") for (u32 i = 0; i < PYTHON_IDENTITY_BYTES / sizeof(u64); i++) {
		if (i * sizeof(u64) < bytes)
			hash = (hash ^ walk->identity[i]) * HASH_FACTOR;
	}
	return hash;
}

/* Each frame has a function of the interpreter of its own: before 3.11. */
static __always_inline bool is_run_alone(const struct python_walk *walk)
{
	return walk->layout.frame_owner == PYTHON_ABSENT;
}

/*
 * Where the function of the interpreter is that began with this frame; in 3.10 and 3.11, which have a list of them beside that of the
 * frames. Before: the frame, of which that function has the address.
 */
static __always_inline u64 python_entry(struct task_struct *task, struct python_walk *walk)
{
	u32 at = walk->layout.frame_is_entry;
	u64 cframe = walk->cframe;

	if (is_run_alone(walk) && walk->layout.thread_cframe == PYTHON_ABSENT)
		return walk->frame;
	if (!cframe || (!is_run_alone(walk) && (at >= PYTHON_FRAME_BYTES || !walk->members[at])))
		return 0;
	u32 before = is_run_alone(walk) ? 0 : walk->layout.cframe_frame; /* a number or the frame, then its `previous` */

	walk->cframe = python_word(task, cframe + before + sizeof(u64));
	return cframe;
}

/* Since 3.12 a frame that is of no Python function stands where the interpreter's own function has begun, and lies in its locals. */
static __always_inline void python_end_entry(struct python_walk *walk, u64 frame)
{
	u32 last = walk->count - 1;

	if (last < PYTHON_FRAMES && !walk->entries[last])
		walk->entries[last] = frame;
}

/* Notes a frame, and goes on to its caller. */
static long python_take_frame(u32 i, struct python_subject *subject)
{
	struct python_walk *walk = subject->walk;
	u64 frame = walk->frame;
	u32 bytes = walk->layout.frame_bytes;

	if (!frame || bytes > sizeof(walk->members))
		return 1;
	if (frame & 7 || frame >= POINTER_MAX || PYTHON_READ(walk->members, bytes, frame, subject->task)) {
		walk->status = PYTHON_UNREADABLE;
		return 1;
	}
	u64 code = python_member(walk, walk->layout.frame_code) & walk->layout.code_mask;
	u64 instruction = python_member(walk, walk->layout.frame_instruction);
	u32 at = walk->count;

	if (walk->layout.frame_instruction_bytes == sizeof(u32))
		instruction = (u32)instruction;
	walk->ends_in_generator = is_generator(walk);
	if (code && is_python_function(walk)) {
		if (at >= PYTHON_FRAMES || at >= walk->frames_max) {
			walk->status = PYTHON_TRUNCATED;
			return 1;
		}
		u64 identity = python_identity(subject->task, walk, code);

		if (!identity) {
			walk->status = PYTHON_UNREADABLE;
			return 1;
		}
		walk->frames[at].code = code;
		walk->frames[at].identity = identity;
		walk->frames[at].instruction = instruction;
		walk->entries[at] = python_entry(subject->task, walk);
		walk->count = at + 1;
		walk->hash = (((walk->hash ^ code) * HASH_FACTOR ^ instruction) * HASH_FACTOR ^ identity) * HASH_FACTOR;
	} else if (code) {
		python_end_entry(walk, frame);
	}
	walk->frame = python_member(walk, walk->layout.frame_previous);
	return 0;
}

static __always_inline void python_walk_frames(struct python_subject *subject, bool with_entries)
{
	struct python_walk *walk = subject->walk;
	u32 at = is_run_alone(walk) ? walk->layout.thread_cframe : walk->layout.thread_frame;
	bool has_cframe = with_entries && at != PYTHON_ABSENT && (is_run_alone(walk) || walk->layout.cframe_frame != PYTHON_ABSENT);

	walk->cframe = has_cframe ? python_word(subject->task, walk->found + at) : 0;
	walk->frame = python_innermost(subject->task, walk, walk->found);
	walk->count = 0;
	walk->hash = HASH_FACTOR;
	walk->status = PYTHON_WALKED;
	bpf_loop(ALL_FRAMES_MAX, python_take_frame, subject, 0);
	if (walk->frame && walk->status == PYTHON_WALKED)
		walk->status = PYTHON_UNREADABLE; /* no end */
	if (walk->status == PYTHON_WALKED && !walk->count)
		walk->status = PYTHON_NO_FRAMES;
}

/* The number of a thread in the pid namespace of its process, as gettid(2) returns it there. */
static __always_inline u32 innermost_tid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	u32 level = BPF_CORE_READ(pid, level);
	struct upid *number = (void *)pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);

	return BPF_CORE_READ(number, nr);
}

static __always_inline u64 pthread_self_of(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return BPF_CORE_READ(task, thread.fsbase);
#else
	return 0; /* it is not at the thread pointer */
#endif
}

/* Finds the state of the task's thread in one of the process's interpreters; false if there is none. tgid: visible. */
static __always_inline bool python_find_thread(struct python_subject *subject, u32 tgid, u32 place)
{
	struct python_walk *walk = subject->walk;
	struct task_struct *task = subject->task;
	struct python_key key = {.tgid = tgid, .place = place};
	struct python_layout *layout = bpf_map_lookup_elem(&interpreters, &key);

	if (!layout || layout->start_ticks != BPF_CORE_READ(task, group_leader, start_boottime) / TICK_NS)
		return false;
	walk->layout = *layout;
	walk->native_id = innermost_tid(task);
	walk->thread_id = pthread_self_of(task);
	if (walk->found && is_state_of(task, walk, walk->found) && python_innermost(task, walk, walk->found))
		return true; /* as last time */
	walk->interpreter = python_word(task, layout->runtime + layout->interpreters_head);
	walk->state = walk->found = 0;
	bpf_loop(THREAD_STATES_MAX, python_find_state, subject, 0);
	return walk->found;
}

#endif
