/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Limits what probes cost a process: times only one launch in N. exporter/probes/sampling.py chooses N.
 * Maps written: feeding (probe hits), read by exporter/kernel/thread_rows.py. launch_sampling is written by exporter/kernel/tables.py.
 */
#ifndef GPUSTALL_SAMPLING_BPF_H
#define GPUSTALL_SAMPLING_BPF_H

#include "feeding.bpf.h"

#define HITS_PER_UPDATE 64 /* probe hits that a thread collects before they are added to its process */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FEEDING_PLACES);
	__type(key, u32);
	__type(value, struct launch_sampling);
} launch_sampling SEC(".maps");

/* A launch that yields nothing but its duration; copies and NCCL operations also yield bytes. */
static __always_inline bool can_be_sampled(u64 cookie)
{
	return role_of(cookie) == ROLE_LAUNCH && call_api(cookie) != API_NCCL &&
	       (call_shape(cookie) == SHAPE_PLAIN || is_kernel_launch(cookie));
}

/* Whether this launch is only counted. Its time is then part of the enclosing gap or call. */
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

/* Adds the thread's probe hits to its process: cheap, and recent enough for every tick. */
__noinline int sampling_add_hits(struct thread *thread)
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
