/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * CUDA graphs of a process: how many it captures, instantiates and launches, and how many kernels are in them.
 * Maps written: graphs, only read here; graph_rows, read by exporter/kernel/gpu_rows.py.
 */
#ifndef GPUSTALL_GRAPH_BPF_H
#define GPUSTALL_GRAPH_BPF_H

#include "capture.bpf.h"
#include "maps.bpf.h"
#include "../abi/graph.h"

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
	return lookup_or_create(&graph_rows, &process, &empty_graph_row, DROP_GRAPHS_FULL);
}

static __always_inline struct graph_key graph_key(u32 process, u32 is_executable, u64 address)
{
	return (struct graph_key){.process = process, .is_executable = is_executable, .address = address};
}

static __always_inline void graph_put(struct graph_key *key, u64 kernels)
{
	struct graph made = {.kernels = kernels};

	if (bpf_map_update_elem(&graphs, key, &made, BPF_EXIST)) /* else its address is known: it was destroyed by other means */
		create_row(&graphs, key, &made, key->process, SHARE_GRAPHS, DROP_GRAPHS_FULL);
}

static __always_inline void graph_forget(u32 process, u64 address)
{
	struct graph_key key = graph_key(process, false, address);

	delete_row(&graphs, &key, process, SHARE_GRAPHS);
}

/* Counts executable graphs that are destroyed before their first launch. */
static __always_inline void graph_forget_executable(u32 process, u64 address)
{
	struct graph_key key = graph_key(process, true, address);
	struct graph *known = bpf_map_lookup_elem(&graphs, &key);
	struct graph_row *row = known ? graph_row(process) : NULL;

	if (row && !known->launches)
		__sync_fetch_and_add(&row->dropped, 1);
	delete_row(&graphs, &key, process, SHARE_GRAPHS);
}

/* cudaStreamBeginCapture() returned 0. */
__noinline int graph_begin_capture(u32 process, u64 stream, u64 now_ns)
{
	struct graph_row *row = graph_row(process);

	capture_begin(process, stream, now_ns);
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->captures, 1);
	row->began_ns = now_ns;
	return 0;
}

/* A capture has ended. where: the address of its graph is stored there; 0: it failed. */
__noinline int graph_end_capture(u32 process, u64 stream, u64 where, u64 now_ns)
{
	struct graph_row *row = graph_row(process);
	struct capturing ended = {};
	u64 address = 0;

	if (!capture_end(process, stream, &ended) || !row)
		return 0;
	__sync_fetch_and_add(&row->capture_ns, now_ns - ended.began_ns);
	if (!where) {
		__sync_fetch_and_add(&row->failed, 1);
		return 0;
	}
	__sync_fetch_and_add(&row->captured, 1);
	if (bpf_probe_read_user(&address, sizeof(address), (void *)where)) {
		drop(DROP_READ_FAULT);
		return 0;
	}
	struct graph_key key = graph_key(process, false, address);

	graph_put(&key, ended.kernels);
	return 0;
}

__noinline int graph_instantiated(u32 process, u64 graph_address, u64 where, u64 duration_ns)
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
		drop(DROP_READ_FAULT);
		return 0;
	}
	key = graph_key(process, true, address);
	graph_put(&key, kernels);
	return 0;
}

/* An executable graph was launched, or added to the graph that its stream is captured into. */
__noinline int graph_launched(u32 process, u64 address, u64 stream)
{
	struct graph_key key = graph_key(process, true, address);
	struct graph *graph = bpf_map_lookup_elem(&graphs, &key);
	u64 kernels = graph ? graph->kernels : 0;

	if (may_be_capturing(process) && capture_add_kernels(process, stream, kernels))
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
