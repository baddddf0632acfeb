// SPDX-License-Identifier: Apache-2.0
//
// Communicators created from a communicator. Each rank writes a card with its wish; the last one forms the groups.
#include "nccl/communicator.h"
#include "lib/waiting.h"

static struct card *card_of(struct communicator *comm, uint64_t split, int rank)
{
    struct card *cards = segment_at(comm->segment, comm->shared->cards);

    return &cards[(split % 2) * comm->shared->nranks + (uint32_t)rank];
}

// Whether two ranks take part in this split and are in the same group.
static bool are_together(struct communicator *comm, uint64_t split, int a, int b)
{
    const struct card *one = card_of(comm, split, a), *other = card_of(comm, split, b);

    return one->round == split && other->round == split && one->color == other->color && one->color >= 0;
}

// Called by the last rank with the segment's lock held: one communicator per color.
static void form_groups(struct communicator *comm, uint64_t split)
{
    for (int first = 0; first < comm->nranks; first++) {
        int members = 0;

        if (!are_together(comm, split, first, first) || card_of(comm, split, first)->child)
            continue;
        for (int rank = first; rank < comm->nranks; rank++)
            members += are_together(comm, split, first, rank);
        uint64_t child = segment_add_comm(comm->segment, members);
        for (int rank = first; rank < comm->nranks; rank++)
            if (are_together(comm, split, first, rank))
                card_of(comm, split, rank)->child = child;
    }
}

static bool is_split_done(const struct begun *begun)
{
    return atomic_load(&begun->comm->shared->splits_done) >= begun->split;
}

static ncclResult_t finish_split(const struct begun *begun)
{
    struct communicator *comm = begun->comm;
    const struct card *own = card_of(comm, begun->split, comm->rank);
    ncclResult_t result = communicator_wait(begun, is_split_done);
    int rank = 0;

    if (result)
        return result;
    if (begun->color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    if (!own->child)
        return ncclInternalError;
    for (int other = 0; other < comm->nranks; other++) {
        const struct card *card = card_of(comm, begun->split, other);

        if (are_together(comm, begun->split, comm->rank, other))
            rank += card->key < own->key || (card->key == own->key && other < comm->rank);
    }
    *begun->result = communicator_make(comm->segment, own->child, rank, comm->device);
    return ncclSuccess;
}

static ncclResult_t begin_split(struct communicator *comm, int color, int key, int participants, ncclComm_t *child)
{
    uint64_t split;

    if (!is_communicator(comm) || !child)
        return ncclInvalidArgument;
    *child = NULL;
    segment_lock(comm->segment);
    split = atomic_load(&comm->shared->splits_done) + 1;
    *card_of(comm, split, comm->rank) = (struct card){.color = color, .key = key, .round = split};
    if (++comm->shared->cards_written == (uint32_t)participants) {
        form_groups(comm, split);
        comm->shared->cards_written = 0;
        atomic_store(&comm->shared->splits_done, split);
        atomic_fetch_add(&comm->shared->changes, 1);
        wake_all(&comm->shared->changes);
    }
    segment_unlock(comm->segment);
    return finish_or_queue(
        &(struct begun){.finish = finish_split, .comm = comm, .result = child, .split = split, .color = color});
}

EXPORT ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
    int code = failure_code("ncclCommSplit");

    (void)config;
    if (code)
        return code;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        return ncclInvalidArgument;
    return begin_split(comm, color, key, is_communicator(comm) ? comm->nranks : 0, child);
}
NCCL_ALIAS(ncclCommSplit);

EXPORT ncclResult_t pncclCommShrink(ncclComm_t comm, int *excluded, int excluded_count, ncclComm_t *child,
                                    ncclConfig_t *config, int flags)
{
    int code = failure_code("ncclCommShrink");

    (void)excluded;
    (void)config;
    (void)flags;
    if (code)
        return code;
    if (!is_communicator(comm) || excluded_count < 1 || excluded_count >= comm->nranks)
        return ncclInvalidArgument;
    return begin_split(comm, 0, comm->rank, comm->nranks - excluded_count, child);
}
NCCL_ALIAS(ncclCommShrink);
