/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Does the current task wake another thread, or did an interrupt on top of it do so? The preemption count shows it. A program cannot get
 * the address of that per-CPU variable on a kernel without all symbols, so it uses the distance from this CPU's run queue, which user
 * space takes from BTF.
 */
#ifndef GPUSTALL_WAKER_BPF_H
#define GPUSTALL_WAKER_BPF_H

#include "process.bpf.h"

#define HARD_IRQ_BITS 0xf0000 /* HARDIRQ_MASK of include/linux/preempt.h */
#define SOFT_IRQ_BIT 0x100    /* serving one; multiples of 0x200 only mean disabled */

/*
 * Whether the current task causes the wake-up that happens now; false if that is unknown.
 * may_deliver: the task is in a system call on a socket. Data sent over the loopback interface is received in a soft interrupt before
 * the call returns, and that interrupt wakes the other end.
 */
static __always_inline bool is_by_current(struct task_struct *current, bool may_deliver)
{
	u32 zero = 0, count = 0;
	struct settings *own = bpf_map_lookup_elem(&settings, &zero);
	struct rq *queue = BPF_CORE_READ(current, se.cfs_rq, rq);

	if (!own || !own->preempt_count_offset || !queue)
		return false;
	if (bpf_probe_read_kernel(&count, sizeof(count), (void *)queue + own->preempt_count_offset))
		return false;
	return !(count & (may_deliver ? HARD_IRQ_BITS : HARD_IRQ_BITS | SOFT_IRQ_BIT));
}

#endif
