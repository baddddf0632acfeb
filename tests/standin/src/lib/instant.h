// SPDX-License-Identifier: Apache-2.0
//
// A point in time that may still depend on collectives whose last rank has not come:
//     instant = max(at_ns, end(source 1, sequence 1) + offset 1, ...)
// Stream tails, events and the ready time that a rank publishes to its peers are instants. Delaying one by a kernel
// adds to every member, waiting for an event takes the maximum, so a peer can compute when this process's GPU is ready
// without this process getting a CPU.
#ifndef STANDIN_INSTANT_H
#define STANDIN_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

enum wait_mode { WAIT_SPIN, WAIT_YIELD, WAIT_BLOCK };

// Where ends of collectives become known: one per communicator and process. Never freed, because an event may name
// one of its collectives for ever.
struct source {
    // True when the end of collective `sequence` is known, and what it is.
    bool (*end_known)(struct source *source, uint64_t sequence, int64_t *end_ns);
    // Returns when end_known() has become true.
    void (*wait)(struct source *source, uint64_t sequence, enum wait_mode mode);
    // Returns when as many collectives can be enqueued as one launch or one graph may hold.
    void (*wait_for_room)(struct source *source);
};

struct term {
    struct source *source;
    uint64_t sequence;
    int64_t offset_ns;
};

enum { INSTANT_TERMS = 16 };

struct instant {
    int64_t at_ns;
    int terms;
    struct term term[INSTANT_TERMS];
};

// A batch of collectives that one kernel carries out; made by NCCL, run by the driver.
struct collective {
    struct source *source;
    // Enqueues the batch, ready at `ready`; `end` becomes when all of it has ended. Called with the driver's lock held.
    void (*start)(struct collective *collective, const struct instant *ready, struct instant *end);
    // The driver gives up one reference: after a launch, and when a graph that captured it goes.
    void (*release)(struct collective *collective);
    int references;
};

// a = max(a, b)
void instant_join(struct instant *a, const struct instant *b);
// Every member of the maximum later by duration_ns.
void instant_delay(struct instant *instant, int64_t duration_ns);
// Replaces terms whose end is known by that end. True when none is left: at_ns is then the whole truth.
bool instant_settle(struct instant *instant);
// Waits until instant_settle() is true, then until at_ns has passed.
void instant_wait(struct instant *instant, enum wait_mode mode);
// A copy that moves only the terms in use.
void instant_copy(struct instant *to, const struct instant *from);

#endif
