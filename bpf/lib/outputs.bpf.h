/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * When has an engine had an output? Every iteration of a serving engine ends with what it made copied to the host. User space
 * makes steps and idleness of it (exporter/accounting/serving.py); nothing of it needs to be told by the engine.
 *
 * An output is a copy to the host by a thread that has given the GPU work since its last one: several copies in a row are one.
 * It is there when a call returns that waits for the GPU, the oldest first: a copy that blocks, or a synchronising call after
 * it, whatever that one waited for, since an engine that works ahead asks for the outputs in their order. A rank that never asks
 * has OPEN_OUTPUTS of them at a time; one more, and the oldest is taken to be there.
 * Maps written: outputs; read by exporter/kernel/output_rows.py.
 */
#ifndef GPUSTALL_OUTPUTS_BPF_H
#define GPUSTALL_OUTPUTS_BPF_H

#include "process.bpf.h"
#include "thread.bpf.h"

#define OPEN_OUTPUTS 2			 /* an engine prepares one iteration while the GPU is at the one before */
#define OUTPUT_PAUSE_NS (1000ULL * 1000000) /* a shorter gap between two calls is part of the iteration */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct output_row);
} outputs SEC(".maps");

static const struct output_row no_outputs;

static __always_inline struct output_row *known_outputs(u32 process)
{
	return bpf_map_lookup_elem(&outputs, &process);
}

static __noinline __attribute__((unused)) struct output_row *output_row(u32 process)
{
	struct output_row *row = known_outputs(process);

	if (row)
		return row;
	bpf_map_update_elem(&outputs, &process, &no_outputs, BPF_NOEXIST);
	row = known_outputs(process);
	if (!row)
		lose(LOSS_OUTPUTS_FULL);
	return row;
}

/* The first work of a thread since its last copy to the host. */
__noinline int begin_output(struct thread *thread)
{
	if (!thread)
		return 0;
	struct output_row *row = known_outputs(thread->process);

	thread->has_worked = true;
	if (row)
		row->work_ns = bpf_ktime_get_ns();
	return 0;
}

/* A kernel, a graph or a collective: what copies is no work by itself. */
static __always_inline void note_work(struct thread *thread, u64 cookie)
{
	u32 shape = call_shape(cookie);

	if (!thread->has_worked && role_of(cookie) == ROLE_LAUNCH && shape != SHAPE_COPY && shape != SHAPE_COPY_2D)
		begin_output(thread);
}

/* A step thread makes a call again. What other threads paused meanwhile, and what came before the last output, is not of it. */
__noinline int end_pause(struct thread *thread, u64 now_ns)
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

/* Before the gap that ends now is booked. */
static __always_inline void note_pause(struct thread *thread, u64 now_ns)
{
	if (thread->mark_ns + OUTPUT_PAUSE_NS < now_ns)
		end_pause(thread, now_ns);
}

static __always_inline void end_output(struct output_row *row, u64 now_ns)
{
	u64 number = row->outputs;
	struct output *output = &row->last[number & (OUTPUTS - 1)];

	if (number >= row->copied)
		return;
	output->at_ns = now_ns;
	output->paused_ns = row->paused_ns;
	/* Last, so that whoever counts it can read it. Another thread that was as far says the same of it. */
	if (!__sync_bool_compare_and_swap(&row->outputs, number, number + 1))
		return;
	row->paused_ns = 0;
	row->quiet_ns = now_ns;
}

/* A copy to the host was enqueued, or is done. */
__noinline int copied_out(struct thread *thread, u64 now_ns)
{
	if (!thread || !thread->has_worked)
		return 0;
	struct output_row *row = output_row(thread->process);

	thread->has_worked = false;
	if (row && __sync_fetch_and_add(&row->copied, 1) >= row->outputs + OPEN_OUTPUTS)
		end_output(row, now_ns);
	return 0;
}

/* A call returned that waited for the GPU. */
__noinline int synchronised(u32 process, u64 now_ns)
{
	struct output_row *row = known_outputs(process);

	if (row)
		end_output(row, now_ns);
	return 0;
}

#endif
