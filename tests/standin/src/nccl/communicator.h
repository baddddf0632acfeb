// SPDX-License-Identifier: Apache-2.0
//
// NCCL's communicators inside the stand-in, and how their collectives reach the driver.
#ifndef STANDIN_COMMUNICATOR_H
#define STANDIN_COMMUNICATOR_H

#include "lib/failures.h"
#include "nccl/api.h"
#include "nccl/segment.h"

// As in the real library, every function is pncclX with the weak alias ncclX: a tool may define its own ncclX and call pncclX.
// A call of ncclX from inside the library goes through the PLT.
#define NCCL_ALIAS(name) extern __typeof__(name) name __attribute__((weak, alias("p" #name), visibility("default")))
#define EXPORT __attribute__((visibility("default")))

// This process's view of one ring. Never freed: an event may refer to one of its collectives at any later time.
struct ring_view {
    struct source source;
    struct segment *segment;
    uint64_t ring;
    int participant;
    _Atomic uint64_t sent;
    _Atomic int64_t aborted_ns; // 0: not aborted
};

struct communicator {
    uint32_t magic;
    int rank;
    int nranks;
    int device;
    struct segment *segment;
    struct shared_comm *shared;
    struct ring_view *all;        // collectives of all ranks
    struct ring_view **to, **from; // by peer, created at first use
    _Atomic int error;             // the result of ncclCommGetAsyncError
    char name[64];                 // of the segment's file
    int file;
};

enum { COMMUNICATOR_MAGIC = 0x6e63636c };

static inline bool is_communicator(const struct communicator *comm)
{
    return comm && comm->magic == COMMUNICATOR_MAGIC;
}

// The files, from the bottom up; each calls only those above it: segment.c, ring.c, group.c, comm.c, split.c

// ring.c
struct ring_view *ring_view_make(struct segment *segment, uint64_t ring, int participant);
// Enqueues the ring's next collective for this process, ready at `ready`. `end` becomes at least its end.
void ring_view_enqueue(struct ring_view *view, const struct instant *ready, int64_t duration_ns, struct instant *end);
void ring_view_abort(struct ring_view *view);
// Waits for the end of everything enqueued so far.
void ring_view_drain(struct ring_view *view);
// Waits until LARGEST_BATCH more collectives fit.
void ring_view_wait_for_room(struct ring_view *view);

// group.c: an initialisation or split in progress.
struct begun {
    ncclResult_t (*finish)(const struct begun *begun); // waits for the other ranks
    struct communicator *comm;                         // that is joined, or split
    ncclComm_t *result;
    uint64_t split; // the number of the split
    int color;
};
// Finishes it now; inside a group, ncclGroupEnd() does.
ncclResult_t finish_or_queue(const struct begun *begun);

// comm.c
struct communicator *communicator_make(struct segment *segment, uint64_t shared, int rank, int device);
// Sleeps until it is done; an error when the communicator is aborted.
ncclResult_t communicator_wait(const struct begun *begun, bool (*is_done)(const struct begun *begun));

#endif
