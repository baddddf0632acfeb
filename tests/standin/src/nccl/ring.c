// SPDX-License-Identifier: Apache-2.0
//
// This process's side of a ring: its collectives as a source of instants.
//
// A rank publishes its ready time as an expression over ends in the same segment. A ready time that depends on collectives of
// another segment (two communicators from two ids), or on more than ENTRY_TERMS of them, cannot be expressed and is deferred.
// It is published when this process next enqueues; and, while a thread of this process waits for a collective, at most
// SLOWEST_LOOK_NS after it becomes known.
//
// A thread that blocks until a peer arrives sleeps in poll() like every blocking wait. It polls less and less often, at last
// every SLOWEST_LOOK_NS; most collectives last longer, so the thread knows their end in advance.
#include <stdlib.h>

#include "nccl/communicator.h"
#include "lib/waiting.h"

enum { FIRST_LOOK_NS = 20000, SLOWEST_LOOK_NS = 250000 };

struct deferred {
    struct ring_view *view;
    struct instant ready;
    struct entry entry;
    struct deferred *next;
};

static pthread_mutex_t deferred_lock = PTHREAD_MUTEX_INITIALIZER;
static struct deferred *first_deferred;
static _Atomic int deferred_count;

static bool end_known(struct source *source, uint64_t sequence, int64_t *end_ns)
{
    struct ring_view *view = (struct ring_view *)source;
    struct ring *ring = segment_at(view->segment, view->ring);
    uint64_t resolved = atomic_load_explicit(&ring->resolved, memory_order_acquire);

    if (sequence <= resolved) {
        // Older than the ends that are kept: long past, and the oldest one kept is a bound.
        uint64_t oldest = resolved >= RING_ENDS / 2 ? resolved - RING_ENDS / 2 : 1;

        *end_ns = ring->end_ns[(sequence < oldest ? oldest : sequence) % RING_ENDS];
        return true;
    }
    *end_ns = atomic_load(&view->aborted_ns);
    return *end_ns != 0;
}

// Fills the entry's terms. False when the instant cannot be expressed for peers.
static bool express(struct ring_view *view, struct instant *ready, struct entry *entry)
{
    instant_settle(ready);
    entry->at_ns = ready->at_ns;
    entry->terms = 0;
    for (int i = 0; i < ready->terms; i++) {
        struct ring_view *other = (struct ring_view *)ready->term[i].source;

        if (other->source.end_known != end_known || other->segment->family != view->segment->family ||
            entry->terms == ENTRY_TERMS)
            return false;
        entry->term[entry->terms++] = (struct shared_term){
            .ring = other->ring,
            .sequence = ready->term[i].sequence,
            .offset_ns = ready->term[i].offset_ns,
        };
    }
    return true;
}

static void publish_deferred(void)
{
    if (atomic_load(&deferred_count) == 0)
        return;
    pthread_mutex_lock(&deferred_lock);
    for (struct deferred **link = &first_deferred; *link;) {
        struct deferred *waiting = *link;

        if (!express(waiting->view, &waiting->ready, &waiting->entry)) {
            link = &waiting->next;
            continue;
        }
        ring_arrive(waiting->view->segment, waiting->view->ring, waiting->view->participant, &waiting->entry);
        *link = waiting->next;
        free(waiting);
        atomic_fetch_sub(&deferred_count, 1);
    }
    pthread_mutex_unlock(&deferred_lock);
}

static void defer(struct ring_view *view, const struct instant *ready, const struct entry *entry)
{
    struct deferred *waiting = malloc(sizeof(*waiting));

    if (!waiting)
        abort();
    waiting->view = view;
    waiting->entry = *entry;
    waiting->next = NULL;
    instant_copy(&waiting->ready, ready);
    pthread_mutex_lock(&deferred_lock);
    struct deferred **link = &first_deferred;
    while (*link)
        link = &(*link)->next;
    *link = waiting;
    atomic_fetch_add(&deferred_count, 1);
    pthread_mutex_unlock(&deferred_lock);
}

static void wait(struct source *source, uint64_t sequence, enum wait_mode mode)
{
    int64_t look_ns = FIRST_LOOK_NS, end_ns;

    for (;;) {
        publish_deferred();
        if (end_known(source, sequence, &end_ns))
            return;
        if (mode == WAIT_BLOCK)
            block_once(now_ns() + look_ns);
        else
            wait_one_turn(mode);
        look_ns = look_ns < SLOWEST_LOOK_NS / 2 ? look_ns * 2 : SLOWEST_LOOK_NS;
    }
}

void ring_view_wait_for_room(struct ring_view *view)
{
    uint64_t sent = atomic_load(&view->sent);

    if (sent > RING_SLOTS - LARGEST_BATCH)
        wait(&view->source, sent - (RING_SLOTS - LARGEST_BATCH), WAIT_BLOCK);
}

static void wait_for_room(struct source *source)
{
    ring_view_wait_for_room((struct ring_view *)source);
}

struct ring_view *ring_view_make(struct segment *segment, uint64_t ring, int participant)
{
    struct ring_view *view = calloc(1, sizeof(*view));

    if (!view)
        abort();
    view->source = (struct source){.end_known = end_known, .wait = wait, .wait_for_room = wait_for_room};
    view->segment = segment;
    view->ring = ring;
    view->participant = participant;
    return view;
}

void ring_view_enqueue(struct ring_view *view, const struct instant *ready, int64_t duration_ns, struct instant *end)
{
    struct instant own = {.terms = 1};
    struct instant copy;
    struct entry entry;

    entry.sequence = atomic_fetch_add(&view->sent, 1) + 1;
    entry.duration_ns = duration_ns;
    instant_copy(&copy, ready);
    if (express(view, &copy, &entry))
        ring_arrive(view->segment, view->ring, view->participant, &entry);
    else
        defer(view, &copy, &entry);
    publish_deferred();
    own.term[0] = (struct term){.source = &view->source, .sequence = entry.sequence};
    instant_settle(&own);
    instant_join(end, &own);
}

void ring_view_abort(struct ring_view *view)
{
    atomic_store(&view->aborted_ns, now_ns());
}

void ring_view_drain(struct ring_view *view)
{
    struct instant last = {.terms = 1};

    last.term[0] = (struct term){.source = &view->source, .sequence = atomic_load(&view->sent)};
    if (last.term[0].sequence)
        instant_wait(&last, WAIT_BLOCK);
}
