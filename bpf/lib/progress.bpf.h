/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Which NCCL operations are enqueued, which are known to be complete, and which calls wait for them?
 *
 * Programs rarely synchronise the stream that an NCCL operation is enqueued on. So the operations ahead of each stream are tracked: an
 * event recorded on the stream gets them, and so does a stream that waits for the event. When a call finds a stream or event complete,
 * the operations that were ahead of it when the call began are complete.
 *
 * The legacy default stream (handles 0 and 1) counts as one stream of a process, for all GPUs. The per-thread default streams (_ptsz,
 * _ptds) count as that stream, and handle 2, which means the same, as one more stream. Not tracked: that the legacy stream also waits
 * for streams created without the non-blocking flag; operations captured into a graph; operations of a graph that is launched.
 * Maps written: progress, read by exporter/kernel/progress_rows.py; frontiers and arrivals, only read here.
 */
#ifndef GPUSTALL_PROGRESS_BPF_H
#define GPUSTALL_PROGRESS_BPF_H

#include "feeding.bpf.h"
#include "maps.bpf.h"
#include "operation.bpf.h"
#include "../abi/communicator.h"
#include "../abi/progress.h"

/* Bits of feeding_row.has_collectives: a process without communicators only pays for this test. */
#define HAS_COLLECTIVES 1
#define HAS_SEVERAL_RANKS 2 /* entered one collective: then a complete GPU proves nothing for the other ranks */

/* Communicators ahead of one stream: data, tensor and pipeline parallel. */
#define FRONTIER_PAIRS 3
#define EACH_PAIR(i) _Pragma("clang loop unroll(disable)") for (u32 i = 0; i < FRONTIER_PAIRS; i++)

/* The number of an operation, and above it the ordinal of its communicator, which is never 0: so 0 means none. */
#define NUMBER_BITS 56
#define NUMBER_OF(one) ((one) & ((1ULL << NUMBER_BITS) - 1))
#define COMMUNICATOR_OF(one) ((u32)((one) >> NUMBER_BITS))

struct frontier {
	u64 ahead[FRONTIER_PAIRS];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct frontier_key);
	__type(value, struct frontier);
} frontiers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct progress_key);
	__type(value, struct progress_row);
} progress SEC(".maps");

/* How far a rank may be behind: no rank runs further ahead than the queue of the GPU allows. */
#define ARRIVAL_PLACES 1024

#define BEING_TAKEN (1ULL << 63)
struct arrival {
	u64 collective; /* number of the collective in this place; with BEING_TAKEN: first_ns is not written yet */
	u64 first_ns;
	u32 process; /* that arrived last */
	u32 padding;
};

/* The first arrival at each of the last collectives of a communicator. */
struct arrivals_row {
	u32 process; /* that made the row, and whose owner it is booked to; the first member, see exporter/kernel/progress_rows.py */
	u32 padding;
	struct arrival places[ARRIVAL_PLACES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512); /* rows of 24 KiB */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64); /* hash of the communicator, which all of its ranks share */
	__type(value, struct arrivals_row);
} arrivals SEC(".maps");

static const struct progress_row empty_progress;
static const struct arrivals_row empty_arrivals;

/* Whether an NCCL operation of this process may be ahead of a stream or event. */
static __always_inline bool has_collectives(u32 process)
{
	struct feeding_row *row = feeding_row(process);

	return !row || row->has_collectives;
}

static __always_inline void mark(u32 process, u32 bit)
{
	struct feeding_row *row = feeding_row(process);

	if (row && !(row->has_collectives & bit))
		__sync_fetch_and_or(&row->has_collectives, bit);
}

static __always_inline struct progress_row *known_progress(u32 process, u32 communicator)
{
	struct progress_key key = {.process = process, .communicator = communicator};

	return bpf_map_lookup_elem(&progress, &key);
}

static __noinline __attribute__((unused)) struct progress_row *progress_row(u32 process, u32 communicator)
{
	struct progress_key key = {.process = process, .communicator = communicator};

	return own_row(&progress, &key, &empty_progress, process, SHARE_PROGRESS, DROP_PROGRESS_FULL);
}

static __always_inline bool is_pending(u32 process, u64 one)
{
	struct progress_row *row = known_progress(process, COMMUNICATOR_OF(one));

	return row && row->completed < NUMBER_OF(one);
}

/* All operations of the communicator up to this number are complete. */
__noinline int progress_complete(struct progress_row *row, u64 number, u64 now_ns)
{
	if (!row)
		return 0;
	_Pragma("clang loop unroll(disable)") for (int attempt = 0; attempt < 4; attempt++)
	{
		u64 completed = row->completed;

		if (completed >= number)
			return 0;
		if (__sync_bool_compare_and_swap(&row->completed, completed, number)) {
			row->completed_ns = now_ns;
			return 0;
		}
	}
	return 0;
}

/* ---- operations ahead of streams and events ---------------------------------------------------------------- */

static __always_inline struct frontier_key stream_key(u32 process, u64 stream)
{
	return (struct frontier_key){.process = process, .kind = FRONTIER_STREAM, .address = stream == 1 ? 0 : stream};
}

static __always_inline struct frontier_key event_key(u32 process, u64 event)
{
	return (struct frontier_key){.process = process, .kind = FRONTIER_EVENT, .address = event};
}

static __always_inline void add_frontier(struct frontier_key *key, struct frontier *frontier)
{
	create_row(&frontiers, key, frontier, key->process, SHARE_FRONTIERS, DROP_FRONTIERS_FULL);
}

__noinline int frontier_forget(struct frontier_key *key)
{
	if (!key)
		return 0;
	struct frontier_key own = *key; /* on the stack for kernel 6.1, see copies_add() */

	if (bpf_map_lookup_elem(&frontiers, &own)) /* cheaper than a delete that finds nothing */
		delete_row(&frontiers, &own, own.process, SHARE_FRONTIERS);
	return 0;
}

/* Adds an operation. If there is no room, it replaces one that is complete by now. */
__noinline int frontier_put(struct frontier *frontier, u64 one, u32 process)
{
	u32 place = FRONTIER_PAIRS;

	if (!frontier || !one)
		return 0;
	EACH_PAIR(i)
	{
		u64 there = frontier->ahead[i];

		if (COMMUNICATOR_OF(there) == COMMUNICATOR_OF(one)) {
			if (there < one)
				frontier->ahead[i] = one;
			return 0;
		}
		if (!there)
			place = i;
	}
	if (place == FRONTIER_PAIRS) {
		EACH_PAIR(i)
			if (!is_pending(process, frontier->ahead[i]))
				place = i;
	}
	if (place < FRONTIER_PAIRS)
		frontier->ahead[place] = one;
	else
		drop(DROP_FRONTIER_PAIRS);
	return 0;
}

/* Replaces what was ahead of the event before. */
__noinline int frontier_record(u32 process, u64 event, u64 stream)
{
	struct frontier_key from = stream_key(process, stream), to = event_key(process, event);
	struct frontier *ahead = bpf_map_lookup_elem(&frontiers, &from);

	if (!ahead)
		return frontier_forget(&to);
	struct frontier *known = bpf_map_lookup_elem(&frontiers, &to);

	if (known)
		*known = *ahead;
	else
		add_frontier(&to, ahead);
	return 0;
}

__noinline int frontier_wait(u32 process, u64 stream, u64 event)
{
	struct frontier_key from = event_key(process, event), to = stream_key(process, stream);
	struct frontier *ahead = bpf_map_lookup_elem(&frontiers, &from);

	if (!ahead)
		return 0;
	struct frontier *known = bpf_map_lookup_elem(&frontiers, &to);

	if (!known) {
		add_frontier(&to, ahead);
		return 0;
	}
	EACH_PAIR(i)
		frontier_put(known, ahead->ahead[i], process);
	return 0;
}

/* ---- operations enqueued ----------------------------------------------------------------------------------- */

/* The call of an operation on `stream` returned. */
static __always_inline void progress_enqueued(struct progress_row *row, u32 process, u32 communicator, u64 stream, u64 now_ns)
{
	row->enqueued_ns = now_ns; /* first, for progress_device_done() */
	barrier();
	u64 number = __sync_fetch_and_add(&row->enqueued, 1) + 1;
	struct frontier one = {.ahead = {(u64)communicator << NUMBER_BITS | number}};
	struct frontier_key key = stream_key(process, stream);
	struct frontier *known = bpf_map_lookup_elem(&frontiers, &key);

	if (known)
		frontier_put(known, one.ahead[0], process);
	else
		add_frontier(&key, &one);
	mark(process, HAS_COLLECTIVES);
}

/* Takes the place of a collective for its first arrival; false if another rank has taken it, for this or a later collective. */
static __always_inline bool take_place(struct arrival *place, u64 collective, u64 arrived_ns, u32 process)
{
	u64 held = place->collective;

	if ((held & ~BEING_TAKEN) >= collective ||
	    !__sync_bool_compare_and_swap(&place->collective, held, collective | BEING_TAKEN))
		return false;
	place->first_ns = arrived_ns;
	place->process = process;
	__sync_lock_test_and_set(&place->collective, collective);
	return true;
}

static __always_inline struct arrival *arrival_place(u32 process, u64 hash, u64 collective)
{
	struct arrivals_row *row = bpf_map_lookup_elem(&arrivals, &hash);

	if (!row) {
		bool is_own = create_row(&arrivals, &hash, &empty_arrivals, process, SHARE_ARRIVALS, DROP_ARRIVALS_FULL);

		row = bpf_map_lookup_elem(&arrivals, &hash);
		if (!row)
			return NULL;
		if (is_own)
			row->process = process;
	}
	return &row->places[collective % ARRIVAL_PLACES];
}

/* A rank has destroyed its communicator. Ranks that still use it make the row again, as their owner's. */
static __always_inline void arrivals_forget(u32 process, u64 hash)
{
	struct arrivals_row *row = bpf_map_lookup_elem(&arrivals, &hash);

	if (row && row->process == process)
		delete_row(&arrivals, &hash, process, SHARE_ARRIVALS);
}

/*
 * This rank has entered a collective that all ranks take part in: how much later than the node's first rank? Not compared: a rank that
 * is ARRIVAL_PLACES behind, and communicators whose creation was not traced.
 */
__noinline int progress_arrive(struct progress_row *row, u32 process, u64 hash, u64 arrived_ns)
{
	if (!row)
		return 0;
	u64 collective = __sync_fetch_and_add(&row->collectives, 1) + 1;
	struct arrival *place = hash ? arrival_place(process, hash, collective) : NULL;

	if (!place || take_place(place, collective, arrived_ns, process))
		return 0;
	u64 held = place->collective, lag_ns = 0;

	barrier();
	if (held == collective) { /* else the first rank is arriving right now */
		lag_ns = elapsed_ns(place->first_ns, arrived_ns);
		if (place->process == process)
			mark(process, HAS_SEVERAL_RANKS);
	}
	place->process = process;
	barrier();
	if ((place->collective & ~BEING_TAKEN) != collective) /* the place now holds a later collective */
		return 0;
	__sync_fetch_and_add(&row->lag_ns, lag_ns);
	__sync_fetch_and_add(&row->late_arrivals, 1);
	return 0;
}

/* ---- operations found complete ----------------------------------------------------------------------------- */

/* Copies the operations ahead of a stream or event that are not known to be complete into `pending`. */
__noinline int frontier_find_pending(struct frontier_key *key, struct frontier *pending)
{
	if (!key || !pending)
		return 0;
	struct frontier_key own = *key; /* on the stack for kernel 6.1, see copies_add() */
	struct frontier *ahead = bpf_map_lookup_elem(&frontiers, &own);

	EACH_PAIR(i)
	{
		u64 one = ahead ? ahead->ahead[i] : 0;

		pending->ahead[i] = one && is_pending(own.process, one) ? one : 0;
	}
	return 0;
}

/* A synchronising call had an operation of this communicator ahead of it when it began. */
__noinline int progress_add_wait(u32 process, u32 communicator, u64 duration_ns, u64 now_ns)
{
	struct operation_key key = {
		.process = process, .operation = OPERATION_NCCL_WAIT, .communicator = communicator};
	struct operation_row *row = operation_row(&key);

	if (!row)
		return 0;
	operation_offer_exemplar(&row->slowest, duration_ns, now_ns);
	operation_add_duration(row, duration_ns);
	return 0;
}

/* The operations that were pending when the call began are complete. wait_ns: duration of a synchronising call; 0: a query. */
__noinline int progress_found_complete(struct frontier *pending, u32 process, u64 wait_ns, u64 now_ns)
{
	if (!pending)
		return 0;
	EACH_PAIR(i)
	{
		u64 one = pending->ahead[i];
		struct progress_row *row = one ? known_progress(process, COMMUNICATOR_OF(one)) : NULL;

		if (!row)
			continue;
		progress_complete(row, NUMBER_OF(one), now_ns);
		if (wait_ns)
			progress_add_wait(process, COMMUNICATOR_OF(one), wait_ns, now_ns);
	}
	return 0;
}

/* Communicators with pending operations, one bit each. */
__noinline u64 progress_pending(u32 process)
{
	struct feeding_row *place = feeding_row(process);
	struct process_row *of_process = bpf_map_lookup_elem(&processes, &process);
	u64 pending = 0;

	if (!of_process || (place && place->has_collectives & HAS_SEVERAL_RANKS))
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 communicator = 1; communicator <= COMMUNICATOR_OTHER; communicator++)
	{
		struct progress_row *row;

		if (communicator > of_process->communicators)
			break;
		row = known_progress(process, communicator);
		if (row && row->completed < row->enqueued)
			pending |= 1ULL << communicator;
	}
	return pending;
}

/*
 * The GPU is done with everything that was enqueued before `entry_ns`. If another thread has enqueued more since then, the last number
 * before entry_ns is unknown, and no operation of that communicator counts as complete.
 */
__noinline int progress_device_done(u64 pending, u32 process, u64 entry_ns, u64 now_ns)
{
	_Pragma("clang loop unroll(disable)") for (u32 communicator = 1; communicator <= COMMUNICATOR_OTHER; communicator++)
	{
		struct progress_row *row = pending >> communicator & 1 ? known_progress(process, communicator) : NULL;

		if (!row)
			continue;
		u64 number = row->enqueued;

		barrier();
		if (row->enqueued_ns <= entry_ns)
			progress_complete(row, number, now_ns);
		progress_add_wait(process, communicator, now_ns - entry_ns, now_ns);
	}
	return 0;
}

#endif
