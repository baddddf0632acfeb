/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Which NCCL operations have been given to the GPU, which of them are known to be done, and who waits for them?
 *
 * Nobody synchronises the stream that an operation is enqueued on. So what is ahead of a stream is followed: a record takes
 * it over to an event, a stream that waits for the event takes it over from there, and who finds a stream or an event done
 * has found done what was ahead of it when the call began.
 *
 * The legacy default stream (handles 0 and 1) is one stream of a process, whatever the device. The default streams of threads
 * (_ptsz, _ptds) are taken for it, and handle 2, which means the same, for one stream: their threads are told apart nowhere.
 * That the legacy stream also waits for streams made without the non-blocking flag is not followed. What is captured into a
 * graph is not given to the GPU, and what a replayed graph does is no call.
 */
#ifndef GPUSTALL_PROGRESS_BPF_H
#define GPUSTALL_PROGRESS_BPF_H

#include "call.bpf.h"

/* Bits of feeding_row.has_collectives: what a process without communicators pays is the look at them. */
#define HAS_COLLECTIVES 1
#define HAS_SEVERAL_RANKS 2 /* seen in one collective: a device that is done says nothing of the others' */

/* Communicators that may be ahead of one stream: data, tensor and pipeline parallel. */
#define FRONTIER_PAIRS 3
#define EACH_PAIR(i) _Pragma("clang loop unroll(disable)") for (u32 i = 0; i < FRONTIER_PAIRS; i++)

/* The number of an operation and, above it, the ordinal of its communicator, which is never 0: so 0 is none. */
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

/* Who came first: a place for each of the last collectives of a communicator, found by its hash and so by all its ranks. */
#define ARRIVAL_PLACES 1024 /* as far as a rank may be behind: NCCL lets no rank run further ahead than the GPU's queue */
struct arrival_key {
	u64 hash;
	u64 place;
};

#define BEING_TAKEN (1ULL << 63)
struct arrival {
	u64 collective; /* whose arrivals the place holds, by number; BEING_TAKEN: first_ns is yet to be written */
	u64 first_ns;
	u32 process; /* that came last */
	u32 padding;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct arrival_key);
	__type(value, struct arrival);
} arrivals SEC(".maps");

static const struct progress_row empty_progress;

/* Whether an NCCL operation of this process may be ahead of something. */
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
	struct progress_row *row = bpf_map_lookup_elem(&progress, &key);

	if (row)
		return row;
	bpf_map_update_elem(&progress, &key, &empty_progress, BPF_NOEXIST);
	row = bpf_map_lookup_elem(&progress, &key);
	if (!row)
		lose(LOSS_PROGRESS_FULL);
	return row;
}

static __always_inline bool is_pending(u32 process, u64 one)
{
	struct progress_row *row = known_progress(process, COMMUNICATOR_OF(one));

	return row && row->completed < NUMBER_OF(one);
}

/* All operations of the communicator up to this one have been seen done. */
__noinline int complete(struct progress_row *row, u64 number, u64 now_ns)
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

/* ---- what is ahead of streams and events ------------------------------------------------------------------- */

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
	if (bpf_map_update_elem(&frontiers, key, frontier, BPF_ANY))
		lose(LOSS_FRONTIERS_FULL);
}

__noinline int forget_frontier(struct frontier_key *key)
{
	if (!key)
		return 0;
	struct frontier_key own = *key; /* up to kernel 6.1 what a function that is not static was given is no key */

	if (bpf_map_lookup_elem(&frontiers, &own)) /* a delete that finds nothing costs more than this */
		bpf_map_delete_elem(&frontiers, &own);
	return 0;
}

/* One more operation is ahead. Where there is no room, what has been done by now makes some. */
__noinline int put_ahead(struct frontier *frontier, u64 one, u32 process)
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
		lose(LOSS_FRONTIER_PAIRS);
	return 0;
}

/* What was ahead of the event before has no meaning any more. */
__noinline int record_event(u32 process, u64 event, u64 stream)
{
	struct frontier_key from = stream_key(process, stream), to = event_key(process, event);
	struct frontier *ahead = bpf_map_lookup_elem(&frontiers, &from);

	if (!ahead)
		return forget_frontier(&to);
	struct frontier *known = bpf_map_lookup_elem(&frontiers, &to);

	if (known)
		*known = *ahead;
	else
		add_frontier(&to, ahead);
	return 0;
}

__noinline int wait_for_event(u32 process, u64 stream, u64 event)
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
		put_ahead(known, ahead->ahead[i], process);
	return 0;
}

/* ---- operations given to the GPU --------------------------------------------------------------------------- */

/* The call of an operation on `stream` returned. */
static __always_inline void enqueued(struct progress_row *row, u32 process, u32 communicator, u64 stream, u64 now_ns)
{
	row->enqueued_ns = now_ns; /* first: see device_done() */
	barrier();
	u64 number = __sync_fetch_and_add(&row->enqueued, 1) + 1;
	struct frontier one = {.ahead = {(u64)communicator << NUMBER_BITS | number}};
	struct frontier_key key = stream_key(process, stream);
	struct frontier *known = bpf_map_lookup_elem(&frontiers, &key);

	if (known)
		put_ahead(known, one.ahead[0], process);
	else
		add_frontier(&key, &one);
	mark(process, HAS_COLLECTIVES);
}

/* Takes a place for the first arrival at a collective; false when another rank has it, or has gone on beyond it. */
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

static __always_inline struct arrival *arrival_place(u64 hash, u64 collective)
{
	struct arrival_key key = {.hash = hash, .place = collective % ARRIVAL_PLACES};
	struct arrival *place = bpf_map_lookup_elem(&arrivals, &key), empty = {};

	if (place)
		return place;
	bpf_map_update_elem(&arrivals, &key, &empty, BPF_NOEXIST);
	place = bpf_map_lookup_elem(&arrivals, &key);
	if (!place)
		lose(LOSS_ARRIVALS_FULL);
	return place;
}

/*
 * This rank has come to a collective that all ranks take part in: how late, against the node's first one? A rank that is
 * ARRIVAL_PLACES behind is not compared, nor are those of a communicator whose making was not seen.
 */
__noinline int arrive(struct progress_row *row, u32 process, u64 hash, u64 arrived_ns)
{
	if (!row)
		return 0;
	u64 collective = __sync_fetch_and_add(&row->collectives, 1) + 1;
	struct arrival *place = hash ? arrival_place(hash, collective) : NULL;

	if (!place || take_place(place, collective, arrived_ns, process))
		return 0;
	u64 held = place->collective, lag_ns = 0;

	barrier();
	if (held == collective) { /* else the first rank is coming at this very moment */
		lag_ns = elapsed_ns(place->first_ns, arrived_ns);
		if (place->process == process)
			mark(process, HAS_SEVERAL_RANKS);
	}
	place->process = process;
	barrier();
	if ((place->collective & ~BEING_TAKEN) != collective) /* it has been taken for a later one */
		return 0;
	__sync_fetch_and_add(&row->lag_ns, lag_ns);
	__sync_fetch_and_add(&row->late_arrivals, 1);
	return 0;
}

/* ---- operations found done --------------------------------------------------------------------------------- */

/* What is ahead of a stream or event and has not been seen done, into `pending`. */
__noinline int find_pending(struct frontier_key *key, struct frontier *pending)
{
	if (!key || !pending)
		return 0;
	struct frontier_key own = *key; /* see forget_frontier() */
	struct frontier *ahead = bpf_map_lookup_elem(&frontiers, &own);

	EACH_PAIR(i)
	{
		u64 one = ahead ? ahead->ahead[i] : 0;

		pending->ahead[i] = one && is_pending(own.process, one) ? one : 0;
	}
	return 0;
}

/* A synchronising call had an operation of the communicator ahead of it when it began. */
__noinline int add_wait(u32 process, u32 communicator, u64 duration_ns, u64 now_ns)
{
	struct operation_key key = {
		.process = process, .operation = OPERATION_NCCL_WAIT, .communicator = communicator};
	struct operation_row *row = operation_row(&key);

	if (!row)
		return 0;
	offer_exemplar(&row->slowest, duration_ns, now_ns);
	add_duration(row, duration_ns);
	return 0;
}

/* What was pending when the call began is done. wait_ns: what a synchronising call took; 0: it only asked. */
__noinline int found_done(struct frontier *pending, u32 process, u64 wait_ns, u64 now_ns)
{
	if (!pending)
		return 0;
	EACH_PAIR(i)
	{
		u64 one = pending->ahead[i];
		struct progress_row *row = one ? known_progress(process, COMMUNICATOR_OF(one)) : NULL;

		if (!row)
			continue;
		complete(row, NUMBER_OF(one), now_ns);
		if (wait_ns)
			add_wait(process, COMMUNICATOR_OF(one), wait_ns, now_ns);
	}
	return 0;
}

/* The communicators of which something is pending, as a set of bits. */
__noinline u64 pending_communicators(u32 process)
{
	struct feeding_row *place = feeding_row(process);
	struct process_row *owner = bpf_map_lookup_elem(&processes, &process);
	u64 pending = 0;

	if (!owner || (place && place->has_collectives & HAS_SEVERAL_RANKS))
		return 0;
	_Pragma("clang loop unroll(disable)") for (u32 communicator = 1; communicator <= COMMUNICATOR_OTHER; communicator++)
	{
		struct progress_row *row;

		if (communicator > owner->communicators)
			break;
		row = known_progress(process, communicator);
		if (row && row->completed < row->enqueued)
			pending |= 1ULL << communicator;
	}
	return pending;
}

/*
 * The device is done, and so is everything that was enqueued before `entry_ns`. Where another thread has enqueued more since
 * then, the number it began with is not known, and nothing is taken for done.
 */
__noinline int device_done(u64 pending, u32 process, u64 entry_ns, u64 now_ns)
{
	_Pragma("clang loop unroll(disable)") for (u32 communicator = 1; communicator <= COMMUNICATOR_OTHER; communicator++)
	{
		struct progress_row *row = pending >> communicator & 1 ? known_progress(process, communicator) : NULL;

		if (!row)
			continue;
		u64 number = row->enqueued;

		barrier();
		if (row->enqueued_ns <= entry_ns)
			complete(row, number, now_ns);
		add_wait(process, communicator, now_ns - entry_ns, now_ns);
	}
	return 0;
}

#endif
