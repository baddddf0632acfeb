// SPDX-License-Identifier: Apache-2.0
//
// A point in time that may depend on collectives whose last rank has not arrived yet:
//     instant = max(at_ns, end(source 1, sequence 1) + offset 1, ...)
// Stream tails, events and the ready time that a rank publishes to its peers are instants. A kernel adds its length to every
// member, waiting for an event takes the maximum. So a peer can compute when this process's GPU is ready, even while this
// process does not run.
#ifndef STANDIN_INSTANT_H
#define STANDIN_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

enum wait_mode { WAIT_SPIN, WAIT_YIELD, WAIT_BLOCK };

// Where ends of collectives become known: one per communicator and process. Never freed, because an event may refer to one of
// its collectives at any later time.
struct source {
    // True when the end of collective `sequence` is known; sets *end_ns.
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

// A batch of collectives in one kernel: created by NCCL, started by the driver.
struct collective {
    struct source *source;
    // Enqueues the batch, ready at `ready`, and sets `end` to the end of all of it. Called with the driver's lock held.
    void (*start)(struct collective *collective, const struct instant *ready, struct instant *end);
    // The driver drops one reference: after a launch, and when a graph that contains it is destroyed.
    void (*release)(struct collective *collective);
    int references;
};

// a = max(a, b)
void instant_join(struct instant *a, const struct instant *b);
// Adds duration_ns to every member of the maximum.
void instant_delay(struct instant *instant, int64_t duration_ns);
// Replaces terms whose end is known by that end. True when none is left; the instant is then at_ns.
bool instant_settle(struct instant *instant);
// Waits until instant_settle() is true, then until at_ns has passed.
void instant_wait(struct instant *instant, enum wait_mode mode);
// A copy that moves only the terms in use.
void instant_copy(struct instant *to, const struct instant *from);

#endif
