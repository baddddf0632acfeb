// SPDX-License-Identifier: Apache-2.0
//
// Orders for NCCL, and every way to make a communicator. Amounts are the bytes of the call: elements are float32.
#include <string.h>

#include "calls/calls.h"

bool is_nccl(const struct order *order)
{
    return strncmp(order->name, "nccl", 4) == 0;
}

static void look_up(struct hands *hands)
{
    CALL(ncclCommCount, hands->comm, &hands->comm_ranks);
    CALL(ncclCommUserRank, hands->comm, &hands->comm_rank);
}

void nccl_make_all(ncclComm_t *comms, int ranks)
{
    CALL(ncclCommInitAll, comms, ranks, NULL);
}

void nccl_make(struct hands *hands, enum comm_way way, const ncclUniqueId *id, int colors)
{
    ncclUniqueId copy = *id;
    ncclComm_t parent = NULL;
    int last = hands->ranks - 1;

    if (way == COMM_CONFIG)
        CALL(ncclCommInitRankConfig, &hands->comm, hands->ranks, copy, hands->rank, NULL);
    else if (way == COMM_SCALABLE)
        CALL(ncclCommInitRankScalable, &hands->comm, hands->ranks, hands->rank, 1, &copy, NULL);
    else if (way != COMM_ALL)
        CALL(ncclCommInitRank, &hands->comm, hands->ranks, copy, hands->rank);
    if (way == COMM_SPLIT || way == COMM_SHRINK) {
        parent = hands->comm;
        hands->comm = NULL;
    }
    if (way == COMM_SPLIT)
        CALL(ncclCommSplit, parent, hands->rank % colors, hands->rank, &hands->comm, NULL);
    else if (way == COMM_SHRINK && hands->rank != last)
        CALL(ncclCommShrink, parent, &last, 1, &hands->comm, NULL, 0);
    hands->parent = parent;
    if (hands->comm)
        look_up(hands);
}

void nccl_drop(struct hands *hands)
{
    if (hands->comm) {
        CALL(ncclCommFinalize, hands->comm);
        CALL(ncclCommDestroy, hands->comm);
    }
    if (hands->parent)
        CALL(ncclCommDestroy, hands->parent);
}

static void moved(enum counted_call call, int result, size_t count)
{
    if (result == ncclSuccess)
        counted_collective(call, count * 4);
}

// One send to the next rank and one receive from the one before, in a group.
static void exchange(struct hands *hands, size_t count)
{
    int next = (hands->comm_rank + 1) % hands->comm_ranks;
    int before = (hands->comm_rank + hands->comm_ranks - 1) % hands->comm_ranks;

    CALL(ncclGroupStart);
    moved(CALL_ncclSend, CALL(ncclSend, hands->device, count, ncclFloat32, next, hands->comm, hands->stream), count);
    moved(CALL_ncclRecv,
          CALL(ncclRecv, hands->other_device, count, ncclFloat32, before, hands->comm, hands->stream), count);
    CALL(ncclGroupEnd);
}

static bool collective_once(struct hands *hands, const char *name, size_t count)
{
    char *send = hands->device, *receive = hands->other_device;
    ncclComm_t comm = hands->comm;
    cudaStream_t stream = hands->stream;

    if (strcmp(name, "ncclAllReduce") == 0)
        moved(CALL_ncclAllReduce, CALL(ncclAllReduce, send, receive, count, ncclFloat32, ncclSum, comm, stream), count);
    else if (strcmp(name, "ncclAllGather") == 0)
        moved(CALL_ncclAllGather, CALL(ncclAllGather, send, receive, count, ncclFloat32, comm, stream), count);
    else if (strcmp(name, "ncclReduceScatter") == 0)
        moved(CALL_ncclReduceScatter,
              CALL(ncclReduceScatter, send, receive, count, ncclFloat32, ncclSum, comm, stream), count);
    else if (strcmp(name, "ncclBroadcast") == 0)
        moved(CALL_ncclBroadcast, CALL(ncclBroadcast, send, receive, count, ncclFloat32, 0, comm, stream), count);
    else if (strcmp(name, "ncclBcast") == 0)
        moved(CALL_ncclBcast, CALL(ncclBcast, send, count, ncclFloat32, 0, comm, stream), count);
    else if (strcmp(name, "ncclReduce") == 0)
        moved(CALL_ncclReduce, CALL(ncclReduce, send, receive, count, ncclFloat32, ncclSum, 0, comm, stream), count);
    else if (strcmp(name, "ncclAlltoAll") == 0)
        moved(CALL_ncclAlltoAll, CALL(ncclAlltoAll, send, receive, count, ncclFloat32, comm, stream), count);
    else if (strcmp(name, "ncclGather") == 0)
        moved(CALL_ncclGather, CALL(ncclGather, send, receive, count, ncclFloat32, 0, comm, stream), count);
    else if (strcmp(name, "ncclScatter") == 0)
        moved(CALL_ncclScatter, CALL(ncclScatter, send, receive, count, ncclFloat32, 0, comm, stream), count);
    else
        return false;
    return true;
}

bool nccl_carry_out(struct hands *hands, const struct order *order)
{
    size_t count = (size_t)order->amount / 4;
    ncclResult_t error;

    for (int64_t i = 0; i < order->count && hands->comm; i++) {
        if (strcmp(order->name, "ncclSend") == 0 || strcmp(order->name, "ncclRecv") == 0)
            exchange(hands, count);
        else if (strcmp(order->name, "ncclCommGetAsyncError") == 0)
            CALL(ncclCommGetAsyncError, hands->comm, &error);
        else if (!collective_once(hands, order->name, count))
            return false;
    }
    return true;
}
