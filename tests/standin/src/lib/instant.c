// SPDX-License-Identifier: Apache-2.0
#include "lib/instant.h"

#include "lib/waiting.h"

void instant_copy(struct instant *to, const struct instant *from)
{
    to->at_ns = from->at_ns;
    to->terms = from->terms;
    for (int i = 0; i < from->terms; i++)
        to->term[i] = from->term[i];
}

// A later collective of the same source with at least the same offset ends later, so `a` never decides the maximum.
static bool decides_nothing(const struct term *a, const struct term *beside)
{
    return a->source == beside->source && a->sequence <= beside->sequence && a->offset_ns <= beside->offset_ns;
}

static void add_term(struct instant *instant, const struct term *added)
{
    int kept = 0;

    for (int i = 0; i < instant->terms; i++)
        if (decides_nothing(added, &instant->term[i]))
            return;
    for (int i = 0; i < instant->terms; i++)
        if (!decides_nothing(&instant->term[i], added))
            instant->term[kept++] = instant->term[i];
    instant->terms = kept;
    if (kept < INSTANT_TERMS) {
        instant->term[instant->terms++] = *added;
        return;
    }
    // More open collectives than fit (a group of sends to 16 peers): drop the one with the smallest offset, which is least
    // likely to be the maximum.
    int least = 0;
    for (int i = 1; i < INSTANT_TERMS; i++)
        if (instant->term[i].offset_ns < instant->term[least].offset_ns)
            least = i;
    if (added->offset_ns >= instant->term[least].offset_ns)
        instant->term[least] = *added;
}

void instant_join(struct instant *a, const struct instant *b)
{
    if (b->at_ns > a->at_ns)
        a->at_ns = b->at_ns;
    for (int i = 0; i < b->terms; i++)
        add_term(a, &b->term[i]);
}

void instant_delay(struct instant *instant, int64_t duration_ns)
{
    instant->at_ns += duration_ns;
    for (int i = 0; i < instant->terms; i++)
        instant->term[i].offset_ns += duration_ns;
}

bool instant_settle(struct instant *instant)
{
    int kept = 0;

    for (int i = 0; i < instant->terms; i++) {
        struct term *term = &instant->term[i];
        int64_t end_ns;

        if (!term->source->end_known(term->source, term->sequence, &end_ns))
            instant->term[kept++] = *term;
        else if (end_ns + term->offset_ns > instant->at_ns)
            instant->at_ns = end_ns + term->offset_ns;
    }
    instant->terms = kept;
    return kept == 0;
}

// True when the instant passes within spin_ns.
static bool has_passed_while_spinning(struct instant *instant, int64_t spin_ns)
{
    int64_t began_ns = now_ns();

    while (now_ns() < began_ns + spin_ns) {
        if (instant_settle(instant) && now_ns() >= instant->at_ns)
            return true;
        wait_one_turn(WAIT_SPIN);
    }
    return false;
}

void instant_wait(struct instant *instant, enum wait_mode mode)
{
    if (has_passed_while_spinning(instant, spin_before_blocking_ns(mode)))
        return;
    while (!instant_settle(instant))
        instant->term[0].source->wait(instant->term[0].source, instant->term[0].sequence, mode);
    wait_until(instant->at_ns, mode);
}
