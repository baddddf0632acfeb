// SPDX-License-Identifier: Apache-2.0
//
// Operations and groups. ncclGroupEnd launches the operations of a group as one kernel per communicator and stream. They start
// together, so that two ranks can send to each other.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "nccl/communicator.h"
#include "driver/api.h"
#include "standin.h"

// Collectives: COLLECTIVE_LATENCY_NS + bytes on the wire at FABRIC_RATE bytes per microsecond.
enum { COLLECTIVE_LATENCY_NS = 10000, FABRIC_RATE = 200000, GROUPED = 4096 };

struct operation {
    struct communicator *comm;
    struct ring_view *view;
    cudaStream_t stream;
    int64_t duration_ns;
};

// The collectives of one launch, passed to the driver.
struct batch {
    struct collective collective;
    int operations;
    struct {
        struct ring_view *view;
        int64_t duration_ns;
    } operation[];
};

static struct {
    __typeof__(cuLaunchKernelEx) *launch;
    __typeof__(standin_slowed_ns) *slowed_ns;
    CUfunction kernel;
} driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t collective_ns;

static __thread struct group {
    int depth;
    ncclResult_t error;
    int operations;
    int begun_calls;
    struct operation *operation;
    struct begun begun[64];
} group;

__attribute__((constructor)) static void read_settings(void)
{
    const char *text = getenv("STANDIN_NCCL_NS");

    collective_ns = text ? strtoull(text, NULL, 10) : 0;
}

EXPORT void standin_set_collective_ns(uint64_t duration_ns)
{
    __atomic_store_n(&collective_ns, duration_ns, __ATOMIC_RELAXED);
}

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(cuGetProcAddress_v2) *get = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;

    if (!get)
        return;
    get("cuLaunchKernelEx", (void **)&driver.launch, 12090, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL);
    driver.slowed_ns = (__typeof__(driver.slowed_ns))dlsym(library, "standin_slowed_ns");
    driver.kernel = dlsym(library, "standin_collective_kernel_mark");
}

static void start(struct collective *collective, const struct instant *ready, struct instant *end)
{
    struct batch *batch = (struct batch *)collective;

    instant_copy(end, ready);
    for (int i = 0; i < batch->operations; i++)
        ring_view_enqueue(batch->operation[i].view, ready, batch->operation[i].duration_ns, end);
}

static void release(struct collective *collective)
{
    if (__atomic_sub_fetch(&collective->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(collective);
}

static ncclResult_t launch(const struct operation *operation, int count)
{
    CUlaunchConfig config = {1, 1, 1, 512, 1, 1, 0, operation->stream, NULL, 0};
    struct batch *batch = malloc(sizeof(*batch) + (size_t)count * sizeof(batch->operation[0]));
    void *arguments[] = {batch};

    pthread_once(&once, find_driver);
    if (!batch || !driver.launch || !driver.slowed_ns) {
        free(batch);
        return ncclUnhandledCudaError;
    }
    batch->collective = (struct collective){&operation->comm->all->source, start, release, 1};
    batch->operations = count;
    for (int i = 0; i < count; i++) {
        batch->operation[i].view = operation[i].view;
        batch->operation[i].duration_ns = driver.slowed_ns(operation[i].duration_ns);
        ring_view_wait_for_room(operation[i].view);
    }
    if (atomic_load(&operation->comm->error)) {
        free(batch);
        return ncclSystemError;
    }
    return driver.launch(&config, driver.kernel, arguments, NULL) ? ncclUnhandledCudaError : ncclSuccess;
}

static ncclResult_t launch_or_queue(const struct operation *operation)
{
    if (group.depth == 0)
        return launch(operation, 1);
    if (!group.operation)
        group.operation = malloc(GROUPED * sizeof(*group.operation));
    if (!group.operation || group.operations == GROUPED)
        return ncclInternalError;
    group.operation[group.operations++] = *operation;
    return ncclSuccess;
}

ncclResult_t finish_or_queue(const struct begun *begun)
{
    if (group.depth == 0)
        return begun->finish(begun);
    if (group.begun_calls == (int)(sizeof(group.begun) / sizeof(group.begun[0])))
        return ncclInternalError;
    group.begun[group.begun_calls++] = *begun;
    return ncclSuccess;
}

EXPORT ncclResult_t pncclGroupStart(void)
{
    int code = failure_code("ncclGroupStart");

    if (code)
        return code;
    group.depth++;
    return ncclSuccess;
}
NCCL_ALIAS(ncclGroupStart);

static bool are_launched_together(const struct operation *a, const struct operation *b)
{
    return a->comm == b->comm && a->stream == b->stream;
}

// Moves the operations that are launched together with the first one to the front, in order. Returns their number.
static int gather(struct operation *operation, int count)
{
    int together = 1;

    for (int i = 1; i < count && together < LARGEST_BATCH; i++) {
        struct operation moved = operation[i];

        if (!are_launched_together(&operation[0], &moved))
            continue;
        memmove(&operation[together + 1], &operation[together], (size_t)(i - together) * sizeof(moved));
        operation[together++] = moved;
    }
    return together;
}

EXPORT ncclResult_t pncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    int code = failure_code("ncclGroupEnd");

    if (group.depth == 0)
        return ncclInvalidUsage;
    if (--group.depth > 0)
        return code;
    for (int i = 0; !result && i < group.begun_calls; i++)
        result = group.begun[i].finish(&group.begun[i]);
    for (int done = 0; !result && !code && done < group.operations;) {
        int together = gather(&group.operation[done], group.operations - done);

        result = launch(&group.operation[done], together);
        done += together;
    }
    group.begun_calls = 0;
    group.operations = 0;
    return code ? code : result;
}
NCCL_ALIAS(ncclGroupEnd);

static size_t type_bytes(ncclDataType_t type)
{
    static const size_t bytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return bytes[type];
}

static int64_t duration_of(double bytes_on_the_wire)
{
    uint64_t fixed_ns = __atomic_load_n(&collective_ns, __ATOMIC_RELAXED);

    return fixed_ns ? (int64_t)fixed_ns : COLLECTIVE_LATENCY_NS + (int64_t)(bytes_on_the_wire * 1000 / FABRIC_RATE);
}

// A collective of all ranks. share: bytes on the wire per byte of the call, for a ring algorithm.
static ncclResult_t collective(const char *function, struct communicator *comm, size_t count, ncclDataType_t type,
                               int root, double share, cudaStream_t stream)
{
    int code = failure_code(function);

    if (code)
        return code;
    if (!is_communicator(comm) || type < 0 || type >= ncclNumTypes || root < 0 || root >= comm->nranks)
        return ncclInvalidArgument;
    return launch_or_queue(&(struct operation){
        .comm = comm,
        .view = comm->all,
        .stream = stream,
        .duration_ns = duration_of((double)count * (double)type_bytes(type) * share),
    });
}

static int ranks_of(const struct communicator *comm)
{
    return is_communicator(comm) ? comm->nranks : 1;
}

EXPORT ncclResult_t pncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive, (void)op;
    return collective("ncclAllReduce", comm, count, type, 0, 2.0 * (ranks_of(comm) - 1) / ranks_of(comm), stream);
}
NCCL_ALIAS(ncclAllReduce);

EXPORT ncclResult_t pncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                                   ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive;
    return collective("ncclAllGather", comm, count, type, 0, ranks_of(comm) - 1, stream);
}
NCCL_ALIAS(ncclAllGather);

EXPORT ncclResult_t pncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive, (void)op;
    return collective("ncclReduceScatter", comm, count, type, 0, ranks_of(comm) - 1, stream);
}
NCCL_ALIAS(ncclReduceScatter);

EXPORT ncclResult_t pncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                                   ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive;
    return collective("ncclBroadcast", comm, count, type, root, 1, stream);
}
NCCL_ALIAS(ncclBroadcast);

EXPORT ncclResult_t pncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
    int code = failure_code("ncclBcast");

    return code ? code : ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
NCCL_ALIAS(ncclBcast);

EXPORT ncclResult_t pncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive, (void)op;
    return collective("ncclReduce", comm, count, type, root, 1, stream);
}
NCCL_ALIAS(ncclReduce);

EXPORT ncclResult_t pncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream)
{
    (void)send, (void)receive;
    return collective("ncclAlltoAll", comm, count, type, 0, ranks_of(comm) - 1, stream);
}
NCCL_ALIAS(ncclAlltoAll);

EXPORT ncclResult_t pncclGather(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive;
    return collective("ncclGather", comm, count, type, root, ranks_of(comm) - 1, stream);
}
NCCL_ALIAS(ncclGather);

EXPORT ncclResult_t pncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream)
{
    (void)send, (void)receive;
    return collective("ncclScatter", comm, count, type, root, ranks_of(comm) - 1, stream);
}
NCCL_ALIAS(ncclScatter);

// The ring from one rank to another: two participants, the sender is the first.
static struct ring_view *pair_ring(struct communicator *comm, int from, int to)
{
    uint64_t *pairs = segment_at(comm->segment, comm->shared->pairs);
    uint64_t *ring = &pairs[from * comm->nranks + to];

    segment_lock(comm->segment);
    if (!*ring)
        *ring = segment_add_ring(comm->segment, from == to ? 1 : 2);
    segment_unlock(comm->segment);
    return *ring ? ring_view_make(comm->segment, *ring, comm->rank == from ? 0 : 1) : NULL;
}

static ncclResult_t transfer(const char *function, struct communicator *comm, int peer, bool is_send, size_t count,
                             ncclDataType_t type, cudaStream_t stream)
{
    struct ring_view **view;
    int code = failure_code(function);

    if (code)
        return code;
    if (!is_communicator(comm) || type < 0 || type >= ncclNumTypes || peer < 0 || peer >= comm->nranks)
        return ncclInvalidArgument;
    // A transfer to the own rank waits for no peer: the receiving side adds nothing.
    if (peer == comm->rank && !is_send)
        return ncclSuccess;
    view = is_send ? &comm->to[peer] : &comm->from[peer];
    if (!*view)
        *view = is_send ? pair_ring(comm, comm->rank, peer) : pair_ring(comm, peer, comm->rank);
    if (!*view)
        return ncclInternalError;
    return launch_or_queue(&(struct operation){
        .comm = comm,
        .view = *view,
        .stream = stream,
        .duration_ns = duration_of((double)count * (double)type_bytes(type)),
    });
}

EXPORT ncclResult_t pncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    (void)send;
    return transfer("ncclSend", comm, peer, true, count, type, stream);
}
NCCL_ALIAS(ncclSend);

EXPORT ncclResult_t pncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    (void)receive;
    return transfer("ncclRecv", comm, peer, false, count, type, stream);
}
NCCL_ALIAS(ncclRecv);
