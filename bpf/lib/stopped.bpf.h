/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Whether a task is stopped by a signal, a debugger, or a freezer of control groups. */
#ifndef GPUSTALL_STOPPED_BPF_H
#define GPUSTALL_STOPPED_BPF_H

#include "kernel.bpf.h"

/* include/linux/sched.h. States of a task carry other flags as well. */
#define TASK_INTERRUPTIBLE 0x01
#define TASK_STOPPED_OR_TRACED 0x0c    /* __TASK_STOPPED | __TASK_TRACED */
#define TASK_FROZEN 0x8000	       /* by the freezer of cgroup v1 */
#define JOBCTL_TRAP_FREEZE (1UL << 23) /* include/linux/sched/jobctl.h: by that of cgroup v2 */

static __always_inline bool is_stopped(struct task_struct *task, u32 task_state)
{
	if (task_state & (TASK_STOPPED_OR_TRACED | TASK_FROZEN))
		return true;
	return task_state & TASK_INTERRUPTIBLE && BPF_CORE_READ(task, jobctl) & JOBCTL_TRAP_FREEZE;
}

#endif
