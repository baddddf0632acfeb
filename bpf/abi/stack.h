/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Where one thread is in its program, as stacks_read writes it. Read by exporter/kernel/stacks.py. */
#ifndef GPUSTALL_ABI_STACK_H
#define GPUSTALL_ABI_STACK_H

#include <linux/types.h>

enum stack_limits {
	STACK_FRAMES = 64,
	STACK_RETURNS = 8,
	STACK_WORDS = 1024, /* in a window */
	STACK_WINDOWS = 3,  /* one at the current stack pointer, two at the open call */
	STACK_ALL_WORDS = STACK_WINDOWS * STACK_WORDS,
};

struct stack_frame {
	__u64 slot;    /* where the return address is on the stack */
	__u64 address; /* the return address, just behind the call */
};

struct stack_row {
	__u32 tid; /* in the exporter's pid namespace */
	__u32 tgid;
	__u32 operation;  /* of the outermost open call; OPERATION_NONE in a gap */
	__u16 is_running; /* on a CPU: the registers are those of its last entry into the kernel */
	__u16 is_stopped; /* by a signal, a debugger or a freezer of control groups */
	__u64 read_ns;
	__u64 opened_ns;     /* when the open call or gap began */
	__u64 call_slot;     /* where the return address of the open call is; 0 in a gap, and on arm64 */
	__u64 instruction;
	__u64 stack_pointer;
	__u64 frame_pointer;
	__u32 frame_count;
	__u32 caller_count;
	__u64 window_slots[STACK_WINDOWS]; /* address of the first word of each window; 0: not read */
	struct stack_frame frames[STACK_FRAMES];   /* along frame pointers, from the current function */
	struct stack_frame callers[STACK_FRAMES];  /* the same, from the entry of the open call; none on arm64 */
	struct stack_frame returns[STACK_RETURNS]; /* original contents of slots that a return probe has taken; then 0 */
	char comm[16];
	__u64 words[STACK_ALL_WORDS]; /* of all windows: addresses of code and of the stack itself; everything else is 0 */
};

#endif
