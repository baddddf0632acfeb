// SPDX-License-Identifier: Apache-2.0
//
// Orders for NCCL, and every way to make a communicator. Amounts are the bytes of the call: elements are float32.
#include <string.h>

#include "calls/calls.h"

bool is_nccl(const struct order *order)
{
    return strncmp(order->name, "nccl", 4) == 0;
}

static void look_up(struct context *context)
{
    CALL(ncclCommCount, context->comm, &context->comm_ranks);
    CALL(ncclCommUserRank, context->comm, &context->comm_rank);
}

void nccl_make_all(ncclComm_t *comms, int ranks)
{
    CALL(ncclCommInitAll, comms, ranks, NULL);
}

void nccl_make(struct context *context, enum comm_way way, const ncclUniqueId *id, int colors)
{
    ncclUniqueId copy = *id;
    ncclComm_t parent = NULL;
    int last = context->ranks - 1;

    if (way == COMM_CONFIG)
        CALL(ncclCommInitRankConfig, &context->comm, context->ranks, copy, context->rank, NULL);
    else if (way == COMM_SCALABLE)
        CALL(ncclCommInitRankScalable, &context->comm, context->ranks, context->rank, 1, &copy, NULL);
    else if (way != COMM_ALL)
        CALL(ncclCommInitRank, &context->comm, context->ranks, copy, context->rank);
    if (way == COMM_SPLIT || way == COMM_SHRINK) {
        parent = context->comm;
        context->comm = NULL;
    }
    if (way == COMM_SPLIT)
        CALL(ncclCommSplit, parent, context->rank % colors, context->rank, &context->comm, NULL);
    else if (way == COMM_SHRINK && context->rank != last)
        CALL(ncclCommShrink, parent, &last, 1, &context->comm, NULL, 0);
    context->parent = parent;
    if (context->comm)
        look_up(context);
}

void nccl_drop(struct context *context)
{
    if (context->comm) {
        CALL(ncclCommFinalize, context->comm);
        CALL(ncclCommDestroy, context->comm);
    }
    if (context->parent)
        CALL(ncclCommDestroy, context->parent);
}

static void moved(enum counted_call call, int result, size_t count)
{
    if (result == ncclSuccess)
        counted_collective(call, count * 4);
}

// One send to the next rank and one receive from the one before, in a group.
static void exchange(struct context *context, size_t count)
{
    int next = (context->comm_rank + 1) % context->comm_ranks;
    int before = (context->comm_rank + context->comm_ranks - 1) % context->comm_ranks;

    CALL(ncclGroupStart);
    moved(CALL_ncclSend, CALL(ncclSend, context->device, count, ncclFloat32, next, context->comm, context->stream), count);
    moved(CALL_ncclRecv,
          CALL(ncclRecv, context->other_device, count, ncclFloat32, before, context->comm, context->stream), count);
    CALL(ncclGroupEnd);
}

static bool collective_once(struct context *context, const char *name, size_t count)
{
    char *send = context->device, *receive = context->other_device;
    ncclComm_t comm = context->comm;
    cudaStream_t stream = context->stream;

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

bool nccl_run(struct context *context, const struct order *order)
{
    size_t count = (size_t)order->amount / 4;
    ncclResult_t error;

    for (int64_t i = 0; i < order->count && context->comm; i++) {
        if (strcmp(order->name, "ncclSend") == 0 || strcmp(order->name, "ncclRecv") == 0)
            exchange(context, count);
        else if (strcmp(order->name, "ncclCommGetAsyncError") == 0)
            CALL(ncclCommGetAsyncError, context->comm, &error);
        else if (!collective_once(context, order->name, count))
            return false;
    }
    return true;
}
