/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Stream capture: work that goes into a graph instead of to the GPU. A capture covers the stream it began on, and every stream that has
 * waited for an event of it since. Each capture has a number; entries of a capture that has ended are no longer valid. They stay until
 * the stream or event is used again or destroyed, or the process ends, and count as its owner's.
 * Maps written: capturing, only read here; feeding.open_captures.
 */
#ifndef GPUSTALL_CAPTURE_BPF_H
#define GPUSTALL_CAPTURE_BPF_H

#include "feeding.bpf.h"
#include "maps.bpf.h"
#include "registers.bpf.h"
#include "../abi/progress.h"

struct capturing {
	u64 origin; /* stream that the capture began on, whose entry holds the sums */
	u64 number; /* of the capture, unique */
	u64 kernels;
	u64 began_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct frontier_key);
	__type(value, struct capturing);
} capturing SEC(".maps");

static __always_inline struct frontier_key place_of(u32 process, u32 kind, u64 address)
{
	return (struct frontier_key){.process = process, .kind = kind, .address = address};
}

/* The origin's entry of the open capture that a stream or event belongs to; NULL if there is none. */
static __noinline struct capturing *capture_of(u32 process, u32 kind, u64 address)
{
	struct frontier_key key = place_of(process, kind, address);
	struct capturing *own = bpf_map_lookup_elem(&capturing, &key);

	if (!own)
		return NULL;
	struct frontier_key origin_key = place_of(process, FRONTIER_STREAM, own->origin);
	struct capturing *origin = bpf_map_lookup_elem(&capturing, &origin_key);

	return origin && origin->number == own->number ? origin : NULL;
}

static __always_inline bool may_be_capturing(u32 process)
{
	struct feeding_row *row = feeding_row(process);

	return row && row->open_captures;
}

/* Whether work enqueued on a stream becomes part of a graph. */
static __always_inline bool is_captured(u32 process, u64 stream)
{
	return may_be_capturing(process) && capture_of(process, FRONTIER_STREAM, stream);
}

/* Kernels were launched on a stream. Returns whether they went into a graph. */
__noinline int capture_add_kernels(u32 process, u64 stream, u64 kernels)
{
	struct capturing *origin = capture_of(process, FRONTIER_STREAM, stream);

	if (!origin)
		return 0;
	__sync_fetch_and_add(&origin->kernels, kernels);
	return 1;
}

/* Replaces what was known of a stream or event; false if there is no room for it (counted). */
static __always_inline bool capture_set(const struct frontier_key *key, const struct capturing *one)
{
	struct capturing *known = bpf_map_lookup_elem(&capturing, key);

	if (!known)
		return create_row(&capturing, key, one, key->process, SHARE_CAPTURING, DROP_CAPTURES_FULL);
	*known = *one;
	return true;
}

/* A stream or event is about to be destroyed. The entry of an open capture's origin has its sums, and stays until the capture ends. */
static __always_inline void capture_forget(const struct frontier_key *key)
{
	struct capturing *own = bpf_map_lookup_elem(&capturing, key);

	if (own && (key->kind != FRONTIER_STREAM || own->origin != key->address))
		delete_row(&capturing, key, key->process, SHARE_CAPTURING);
}

/* An event was recorded on a stream, or a stream waits for an event: the first joins the capture of the second. */
static __always_inline void capture_join(u32 process, u32 kind, u64 address, u32 of_kind, u64 of_address)
{
	if (!may_be_capturing(process))
		return;
	struct capturing *origin = capture_of(process, of_kind, of_address);
	struct frontier_key key = place_of(process, kind, address);

	if (origin) {
		struct capturing joined = {.origin = origin->origin, .number = origin->number};

		if (kind != FRONTIER_STREAM || address != origin->origin)
			capture_set(&key, &joined);
	} else if (kind == FRONTIER_EVENT) {
		delete_row(&capturing, &key, process, SHARE_CAPTURING);
	}
}

static __always_inline void capture_begin(u32 process, u64 stream, u64 now_ns)
{
	struct feeding_row *row = feeding_row(process);
	struct frontier_key key = place_of(process, FRONTIER_STREAM, stream);
	struct capturing own = {.origin = stream, .number = now_ns, .began_ns = now_ns};

	if (row && capture_set(&key, &own))
		__sync_fetch_and_add(&row->open_captures, 1);
}

/* Removes the capture that began on a stream; false if its beginning was not traced. */
static __always_inline bool capture_end(u32 process, u64 stream, struct capturing *ended)
{
	struct feeding_row *row = feeding_row(process);
	struct frontier_key key = place_of(process, FRONTIER_STREAM, stream);
	struct capturing *own = bpf_map_lookup_elem(&capturing, &key);

	if (!row || !own || own->origin != stream)
		return false;
	*ended = *own;
	if (!delete_row(&capturing, &key, process, SHARE_CAPTURING))
		return false;
	__sync_fetch_and_add(&row->open_captures, -1);
	return true;
}

#endif
