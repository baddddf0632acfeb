/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * When does a serving engine produce an output? Each iteration of an engine ends with a copy of its results to the host. User space
 * derives steps and idle time from that (exporter/accounting/serving.py), without help from the engine.
 *
 * An output is a copy to the host by a thread that has enqueued GPU work since its last copy: several copies in a row are one output.
 * It is complete when a call that waits for the GPU returns, the oldest output first: a blocking copy, or any synchronising call after
 * the copy, because an engine that works ahead waits for its outputs in order. A rank that never waits has up to OPEN_OUTPUTS outputs
 * open; with one more, the oldest counts as complete.
 * Map written: outputs, read by exporter/kernel/output_rows.py.
 */
#ifndef GPUSTALL_OUTPUTS_BPF_H
#define GPUSTALL_OUTPUTS_BPF_H

#include "maps.bpf.h"
#include "thread.bpf.h"
#include "../abi/outputs.h"

#define OPEN_OUTPUTS 2			 /* an engine prepares one iteration while the GPU runs the previous one */
#define OUTPUT_PAUSE_NS (1000ULL * 1000000) /* a shorter gap between two calls belongs to the iteration */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct output_row);
} outputs SEC(".maps");

static const struct output_row empty_outputs;

static __always_inline struct output_row *known_outputs(u32 process)
{
	return bpf_map_lookup_elem(&outputs, &process);
}

static __noinline __attribute__((unused)) struct output_row *output_row(u32 process)
{
	return lookup_or_create(&outputs, &process, &empty_outputs, DROP_OUTPUTS_FULL);
}

/* The first work of a thread since its last copy to the host. */
__noinline int output_begin(struct thread *thread)
{
	if (!thread)
		return 0;
	struct output_row *row = known_outputs(thread->process);

	thread->has_worked = true;
	if (row)
		row->work_ns = bpf_ktime_get_ns();
	return 0;
}

/* Work is a kernel, a graph or a collective, but not a copy. */
static __always_inline void output_note_work(struct thread *thread, u64 cookie)
{
	u32 shape = call_shape(cookie);

	if (!thread->has_worked && role_of(cookie) == ROLE_LAUNCH && shape != SHAPE_COPY && shape != SHAPE_COPY_2D)
		output_begin(thread);
}

/* A step thread makes a call after a pause. Time before the last output, or in another thread's pause, does not count again. */
__noinline int output_end_pause(struct thread *thread, u64 now_ns)
{
	if (!thread || !thread->is_step)
		return 0;
	struct output_row *row = known_outputs(thread->process);

	if (!row)
		return 0;
	u64 since_ns = thread->mark_ns > row->quiet_ns ? thread->mark_ns : row->quiet_ns;

	if (since_ns + OUTPUT_PAUSE_NS >= now_ns)
		return 0;
	__sync_fetch_and_add(&row->paused_ns, now_ns - since_ns);
	row->quiet_ns = now_ns;
	row->work_ns = now_ns;
	return 0;
}

/* Called before the gap that ends now is booked. */
static __always_inline void output_note_pause(struct thread *thread, u64 now_ns)
{
	if (thread->mark_ns + OUTPUT_PAUSE_NS < now_ns)
		output_end_pause(thread, now_ns);
}

static __always_inline void output_end(struct output_row *row, u64 now_ns)
{
	u64 number = row->outputs;
	struct output *output = &row->last[number & (OUTPUTS - 1)];

	if (number >= row->copied)
		return;
	output->at_ns = now_ns;
	output->paused_ns = row->paused_ns;
	/* Last, so that a counted output can be read. Another thread that got here at the same time has written the same. */
	if (!__sync_bool_compare_and_swap(&row->outputs, number, number + 1))
		return;
	row->paused_ns = 0;
	row->quiet_ns = now_ns;
}

/* A copy to the host was enqueued, or is done. */
__noinline int output_copied(struct thread *thread, u64 now_ns)
{
	if (!thread || !thread->has_worked)
		return 0;
	struct output_row *row = output_row(thread->process);

	thread->has_worked = false;
	if (row && __sync_fetch_and_add(&row->copied, 1) >= row->outputs + OPEN_OUTPUTS)
		output_end(row, now_ns);
	return 0;
}

/* A call returned that waited for the GPU. */
__noinline int output_synchronised(u32 process, u64 now_ns)
{
	struct output_row *row = known_outputs(process);

	if (row)
		output_end(row, now_ns);
	return 0;
}

#endif
