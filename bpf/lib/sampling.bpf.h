/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What probes cost a process, and what is left out where that is too much. exporter/probes/sampling.py decides.
 */
#ifndef GPUSTALL_SAMPLING_BPF_H
#define GPUSTALL_SAMPLING_BPF_H

#include "feeding.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct launch_sampling);
} launch_sampling SEC(".maps");

/* A launch whose return tells nothing but the time: those that copy or reduce tell how much as well. */
static __always_inline bool can_be_sampled(u64 cookie)
{
	return role_of(cookie) == ROLE_LAUNCH && call_api(cookie) != API_NCCL &&
	       (call_shape(cookie) == SHAPE_PLAIN || is_kernel_launch(cookie));
}

/* Whether this launch is one of those that are only counted. Its time is then part of the gap or call it is made in. */
static __always_inline bool is_sampled_out(struct thread *thread, u64 stack_pointer, u64 cookie)
{
	if (!can_be_sampled(cookie))
		return false;
	u32 place = thread->process & (FEEDING_PLACES - 1);
	struct launch_sampling *sampling = bpf_map_lookup_elem(&launch_sampling, &place);
	u64 outer = thread->unopened_launch;

	thread->unopened_launch = 0;
	if (!sampling || !sampling->mask || sampling->process != thread->process)
		return false;
	if (call_api(cookie) == API_DRIVER && stack_pointer <= outer)
		return true;
	if ((thread->launches++ & sampling->mask) == 0)
		return false;
	thread->left_out++;
	if (call_api(cookie) == API_RUNTIME)
		thread->unopened_launch = stack_pointer;
	return true;
}

/* So that what probes cost a process can be told at every tick, and hardly costs anything itself. */
__noinline int add_hits(struct thread *thread)
{
	struct feeding_row *row = thread ? feeding_row(thread->process) : NULL;

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->timed_calls, thread->timed);
	__sync_fetch_and_add(&row->counted_calls, thread->counted);
	__sync_fetch_and_add(&row->left_out_launches, thread->left_out);
	thread->timed = thread->counted = thread->left_out = 0;
	return 0;
}

#endif
