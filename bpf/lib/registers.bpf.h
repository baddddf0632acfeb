/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The calling conventions: integer arguments, stack pointer and return value of a probed function.
 *   x86-64 (System V): rdi rsi rdx rcx r8 r9, then [rsp+8], [rsp+16] ... at entry, above the return address.
 *   arm64 (AAPCS64):   x0 .. x7, then [sp], [sp+8] ...
 * A 128-byte struct by value is in memory in both: on x86-64 in the argument area at [rsp+8], using no register; on arm64 in the
 * caller's frame, and its address uses the register of its position.
 */
#ifndef GPUSTALL_REGISTERS_BPF_H
#define GPUSTALL_REGISTERS_BPF_H

#include "kernel.bpf.h"

/*
 * One load per register, each with a constant offset: clang would otherwise merge several into one load through a computed context
 * pointer, which the verifier rejects.
 */
#define LOAD(regs, member)                                                  \
	({                                                                  \
		u64 value_;                                                 \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                       \
			     : "=r"(value_)                                 \
			     : "r"(regs), "i"(__builtin_offsetof(struct pt_regs, member))); \
		value_;                                                     \
	})

#if defined(__TARGET_ARCH_x86)

struct pt_regs { /* arch/x86/include/asm/ptrace.h: user-visible order, frozen */
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

#define ARGUMENT_REGISTERS 6
#define STACK_ARGUMENTS_OFFSET 8 /* below them is the return address */
#define RETURN_POPS 8		 /* at return, the stack pointer is above the return address */
#define BY_VALUE_REGISTERS 0	 /* registers that a struct by value uses */
/*
 * The stack pointer is 8 modulo 16 at the entry of every function and 0 after its return (System V ABI), so no entry has the stack
 * pointer of a return.
 */
#define STACK_SHOWS_RETURNS 1
#define STACK_POINTER(regs) LOAD(regs, sp)
#define RETURN_VALUE(regs) LOAD(regs, ax)
#define IS_USER_MODE(regs) ((LOAD(regs, cs) & 3) == 3)
/* These take a copy of the registers. */
#define INSTRUCTION_POINTER(copy) ((copy).ip)
#define STACK_POINTER_OF(copy) ((copy).sp)
#define FRAME_POINTER(copy) ((copy).bp)

/* Where the return address is, for the stack pointer at the entry of a function; 0: unknown. */
static __always_inline u64 return_slot(u64 stack_pointer)
{
	return stack_pointer;
}

static __always_inline u64 register_argument(struct pt_regs *regs, u32 position)
{
	switch (position) {
	case 1: return LOAD(regs, di);
	case 2: return LOAD(regs, si);
	case 3: return LOAD(regs, dx);
	case 4: return LOAD(regs, cx);
	case 5: return LOAD(regs, r8);
	default: return LOAD(regs, r9);
	}
}

#elif defined(__TARGET_ARCH_arm64)

struct pt_regs { /* struct user_pt_regs, the head of the kernel's own */
	u64 regs[31];
	u64 sp;
	u64 pc;
	u64 pstate;
};

#define ARGUMENT_REGISTERS 8
#define STACK_ARGUMENTS_OFFSET 0
#define RETURN_POPS 0
#define BY_VALUE_REGISTERS 1
#define STACK_SHOWS_RETURNS 0 /* entry and return have the same stack pointer */
#define STACK_POINTER(regs) LOAD(regs, sp)
#define RETURN_VALUE(regs) LOAD(regs, regs[0])
#define IS_USER_MODE(regs) ((LOAD(regs, pstate) & 15) == 0)
#define INSTRUCTION_POINTER(copy) ((copy).pc)
#define STACK_POINTER_OF(copy) ((copy).sp)
#define FRAME_POINTER(copy) ((copy).regs[29])

/* It is in a register at the entry; where the function stores it is unknown. */
static __always_inline u64 return_slot(u64 stack_pointer)
{
	return 0;
}

static __always_inline u64 register_argument(struct pt_regs *regs, u32 position)
{
	switch (position) {
	case 1: return LOAD(regs, regs[0]);
	case 2: return LOAD(regs, regs[1]);
	case 3: return LOAD(regs, regs[2]);
	case 4: return LOAD(regs, regs[3]);
	case 5: return LOAD(regs, regs[4]);
	case 6: return LOAD(regs, regs[5]);
	case 7: return LOAD(regs, regs[6]);
	default: return LOAD(regs, regs[7]);
	}
}

#else
#error "define __TARGET_ARCH_x86 or __TARGET_ARCH_arm64"
#endif

/* Integer argument at `position` (from 1) of the function just entered; false if the stack cannot be read. */
static __always_inline bool read_argument(struct pt_regs *regs, u32 position, u64 *value)
{
	if (position <= ARGUMENT_REGISTERS) {
		*value = register_argument(regs, position);
		return true;
	}
	u64 address = STACK_POINTER(regs) + STACK_ARGUMENTS_OFFSET + 8 * (position - ARGUMENT_REGISTERS - 1);
	return !bpf_probe_read_user(value, sizeof(*value), (void *)address);
}

/* Address of a struct passed by value as third argument, after two integers. */
static __always_inline u64 third_argument_by_value(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return STACK_POINTER(regs) + STACK_ARGUMENTS_OFFSET;
#else
	return register_argument(regs, 3);
#endif
}

#endif
