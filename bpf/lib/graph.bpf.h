/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a process does with graphs: how many it captures, instantiates and launches, and how many kernels are in those.
 * Maps written: graphs, its own; graph_rows, read by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_GRAPH_BPF_H
#define GPUSTALL_GRAPH_BPF_H

#include "capture.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct graph_key);
	__type(value, struct graph);
} graphs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32); /* process number */
	__type(value, struct graph_row);
} graph_rows SEC(".maps");

static const struct graph_row empty_graph_row;

static __noinline struct graph_row *graph_row(u32 process)
{
	struct graph_row *row = bpf_map_lookup_elem(&graph_rows, &process);

	if (row)
		return row;
	bpf_map_update_elem(&graph_rows, &process, &empty_graph_row, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&graph_rows, &process);
	if (!row)
		lose(LOSS_GRAPHS_FULL);
	return row;
}

static __always_inline struct graph_key graph_key(u32 process, u32 is_executable, u64 address)
{
	return (struct graph_key){.process = process, .is_executable = is_executable, .address = address};
}

static __always_inline void keep_graph(struct graph_key *key, u64 kernels)
{
	struct graph made = {.kernels = kernels};

	if (bpf_map_update_elem(&graphs, key, &made, BPF_ANY))
		lose(LOSS_GRAPHS_FULL);
}

static __always_inline void forget_graph(u32 process, u64 address)
{
	struct graph_key key = graph_key(process, false, address);

	bpf_map_delete_elem(&graphs, &key);
}

/* The one that is destroyed may never have been launched. */
static __always_inline void forget_executable(u32 process, u64 address)
{
	struct graph_key key = graph_key(process, true, address);
	struct graph *known = bpf_map_lookup_elem(&graphs, &key);
	struct graph_row *row = known ? graph_row(process) : NULL;

	if (row && !known->launches)
		__sync_fetch_and_add(&row->dropped, 1);
	bpf_map_delete_elem(&graphs, &key);
}

/* A capture began: cudaStreamBeginCapture() returned 0. */
__noinline int note_capture(u32 process, u64 stream, u64 now_ns)
{
	struct graph_row *row = graph_row(process);

	capture_begun(process, stream, now_ns);
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->captures, 1);
	row->began_ns = now_ns;
	return 0;
}

/* It has ended, with a graph, whose address is stored at `where`, or without. */
__noinline int note_capture_end(u32 process, u64 stream, u64 where, u64 now_ns)
{
	struct graph_row *row = graph_row(process);
	struct capturing ended = {};
	u64 address = 0;

	if (!capture_ended(process, stream, &ended) || !row)
		return 0;
	__sync_fetch_and_add(&row->capture_ns, now_ns - ended.began_ns);
	if (!where) {
		__sync_fetch_and_add(&row->failed, 1);
		return 0;
	}
	__sync_fetch_and_add(&row->captured, 1);
	if (bpf_probe_read_user(&address, sizeof(address), (void *)where)) {
		lose(LOSS_READ_FAULT);
		return 0;
	}
	struct graph_key key = graph_key(process, false, address);

	keep_graph(&key, ended.kernels);
	return 0;
}

__noinline int note_instantiation(u32 process, u64 graph_address, u64 where, u64 duration_ns)
{
	struct graph_row *row = graph_row(process);
	struct graph_key key = graph_key(process, false, graph_address);
	struct graph *graph = bpf_map_lookup_elem(&graphs, &key);
	u64 kernels = graph ? graph->kernels : 0, address = 0;

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->instantiated, 1);
	__sync_fetch_and_add(&row->instantiate_ns, duration_ns);
	if (bpf_probe_read_user(&address, sizeof(address), (void *)where)) {
		lose(LOSS_READ_FAULT);
		return 0;
	}
	key = graph_key(process, true, address);
	keep_graph(&key, kernels);
	return 0;
}

/* Launched: for real, or into the graph that the stream is being captured into. */
__noinline int note_graph_launch(u32 process, u64 address, u64 stream)
{
	struct graph_key key = graph_key(process, true, address);
	struct graph *graph = bpf_map_lookup_elem(&graphs, &key);
	u64 kernels = graph ? graph->kernels : 0;

	if (may_be_capturing(process) && captured_kernels(process, stream, kernels))
		return 0;
	struct graph_row *row = graph_row(process);

	if (!row)
		return 0;
	__sync_fetch_and_add(&row->launches, 1);
	__sync_fetch_and_add(&row->kernels, kernels);
	if (graph && __sync_fetch_and_add(&graph->launches, 1) == 0)
		__sync_fetch_and_add(&row->first_launches, 1);
	return 0;
}

#endif
