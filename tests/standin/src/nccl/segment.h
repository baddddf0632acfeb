// SPDX-License-Identifier: Apache-2.0
//
// The shared memory of a communicator's ranks: a segment with one ring per communicator and one per pair of ranks that send to
// each other. Collective k of a ring has one entry per rank, written when the rank enqueues it, and
//     end(k) = max(over ranks: ready, end(k - 1)) + duration
// Any rank can compute it once the last entry is written. Ready may depend on ends of other rings of the segment, so peers know
// a rank's ends even while it does not run. Communicators that are split off live in their parent's segment.
#ifndef STANDIN_NCCL_SEGMENT_H
#define STANDIN_NCCL_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/instant.h"

// RING_SLOTS: how far a rank may run ahead of its slowest peer before enqueuing blocks; a real GPU's queue is finite, too.
// RING_ENDS: for how many later collectives the end of one is kept.
enum { ENTRY_TERMS = 4, RING_SLOTS = 1024, RING_ENDS = 8192, PENDING_RINGS = 1024, LARGEST_BATCH = 256 };

// References into a segment are offsets from its start: every process maps it at another address.
struct shared_term {
    uint64_t ring;
    uint64_t sequence;
    int64_t offset_ns;
};

struct entry {
    uint64_t sequence;
    int64_t at_ns;
    int64_t duration_ns;
    uint64_t terms;
    struct shared_term term[ENTRY_TERMS];
};

struct ring {
    _Atomic uint64_t resolved; // collectives whose end is known; they are numbered from 1
    uint64_t arrivals;
    uint32_t participants;
    uint32_t is_pending;
    int64_t end_ns[RING_ENDS];
    struct entry entry[]; // [RING_SLOTS][participants]
};

// A rank's request at a split: the group it wants to join.
struct card {
    int32_t color;
    int32_t key;
    uint64_t round; // the number of the split, from 1
    uint64_t child; // offset of the shared_comm of its group
};

struct shared_comm {
    uint32_t nranks;
    uint32_t joined;
    _Atomic uint32_t changes; // futex: all joined, a split done, aborts
    _Atomic uint32_t is_complete;
    _Atomic uint64_t splits_done;
    uint32_t cards_written;
    uint32_t padding;
    uint64_t ring;
    uint64_t pairs; // uint64_t[nranks][nranks]: the ring from one rank to another, 0: not used yet
    uint64_t cards; // struct card[2][nranks], used in turn
};

struct segment {
    _Atomic uint32_t is_ready;
    uint32_t pendings;
    uint64_t family; // the same in every process that maps this segment
    uint64_t bytes;
    uint64_t used;
    uint64_t comm;
    pthread_mutex_t lock;
    uint64_t pending[PENDING_RINGS]; // rings with an entry that is not resolved
};

// A segment of one process: all ranks are its threads.
struct segment *segment_make_private(int nranks);
// The segment of that name, created by the first rank. NULL with errno set. The lock on *file protects it from being removed.
struct segment *segment_open(const char *name, int nranks, int *file);
void segment_unlink(const char *name);
// Stays usable when a rank is killed while holding it.
void segment_lock(struct segment *segment);
void segment_unlock(struct segment *segment);
static inline void *segment_at(struct segment *segment, uint64_t offset)
{
    return (char *)segment + offset;
}
// To be called with the lock held. 0 when the segment is full.
uint64_t segment_add_comm(struct segment *segment, int nranks);
uint64_t segment_add_ring(struct segment *segment, int participants);
// The rank's entry for its next collective. Takes the lock.
void ring_arrive(struct segment *segment, uint64_t ring, int participant, const struct entry *entry);

#endif
