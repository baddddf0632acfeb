// SPDX-License-Identifier: Apache-2.0
//
// Communicators: every way to create them; queries; finalize, destroy, abort.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "nccl/communicator.h"
#include "driver/api.h"
#include "lib/waiting.h"

enum { NCCL_VERSION = 23203 };

static int device_of_thread(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(cuCtxGetDevice) *get = driver ? dlsym(driver, "cuCtxGetDevice") : NULL;
    int device = 0;

    if (get)
        get(&device);
    return device;
}

struct communicator *communicator_make(struct segment *segment, uint64_t shared, int rank, int device)
{
    struct communicator *comm = calloc(1, sizeof(*comm));

    if (!comm)
        abort();
    comm->magic = COMMUNICATOR_MAGIC;
    comm->rank = rank;
    comm->device = device;
    comm->segment = segment;
    comm->shared = segment_at(segment, shared);
    comm->nranks = (int)comm->shared->nranks;
    comm->file = -1;
    comm->all = ring_view_make(segment, comm->shared->ring, rank);
    comm->to = calloc((size_t)comm->nranks, sizeof(*comm->to));
    comm->from = calloc((size_t)comm->nranks, sizeof(*comm->from));
    if (!comm->to || !comm->from)
        abort();
    return comm;
}

EXPORT ncclResult_t pncclGetVersion(int *version)
{
    if (!version)
        return ncclInvalidArgument;
    *version = NCCL_VERSION;
    return ncclSuccess;
}
NCCL_ALIAS(ncclGetVersion);

EXPORT ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
    unsigned char random[16];
    int code = failure_code("ncclGetUniqueId");

    if (code)
        return code;
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return ncclSystemError;
    memset(id, 0, sizeof(*id));
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(id->internal + 2 * i, 3, "%02x", random[i]);
    return ncclSuccess;
}
NCCL_ALIAS(ncclGetUniqueId);

ncclResult_t communicator_wait(const struct begun *begun, bool (*is_done)(const struct begun *begun))
{
    struct communicator *comm = begun->comm;

    for (;;) {
        uint32_t seen = atomic_load(&comm->shared->changes);

        if (atomic_load(&comm->error))
            return atomic_load(&comm->error);
        if (is_done(begun))
            return ncclSuccess;
        sleep_while(&comm->shared->changes, seen, 0);
    }
}

static bool have_all_joined(const struct begun *begun)
{
    return atomic_load(&begun->comm->shared->is_complete);
}

static ncclResult_t finish_join(const struct begun *begun)
{
    ncclResult_t result = communicator_wait(begun, have_all_joined);

    if (result)
        return result;
    if (begun->comm->file >= 0)
        close(begun->comm->file);
    begun->comm->file = -1;
    return ncclSuccess;
}

// Joins the communicator of the id; finish_join() waits for the other ranks.
static ncclResult_t join(ncclComm_t *result, int nranks, const ncclUniqueId *id, int rank)
{
    struct segment *segment;
    struct communicator *comm;
    char name[64];
    bool is_last;
    int file = -1;

    if (!result || nranks < 1 || rank < 0 || rank >= nranks)
        return ncclInvalidArgument;
    snprintf(name, sizeof(name), "/standin-nccl-%.32s", id->internal);
    segment = segment_open(name, nranks, &file);
    if (!segment)
        return ncclSystemError;
    comm = communicator_make(segment, segment->comm, rank, device_of_thread());
    if (comm->nranks != nranks)
        return ncclInvalidArgument;
    memcpy(comm->name, name, sizeof(name));
    comm->file = file;
    segment_lock(segment);
    is_last = ++comm->shared->joined == comm->shared->nranks;
    segment_unlock(segment);
    if (is_last) {
        segment_unlink(name); // the mappings stay valid, and nothing is left in /dev/shm however the ranks end
        atomic_store(&comm->shared->is_complete, 1);
        atomic_fetch_add(&comm->shared->changes, 1);
        wake_all(&comm->shared->changes);
    }
    *result = comm;
    return finish_or_queue(&(struct begun){.finish = finish_join, .comm = comm, .result = result});
}

EXPORT ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    int code = failure_code("ncclCommInitRank");

    return code ? code : join(comm, nranks, &id, rank);
}
NCCL_ALIAS(ncclCommInitRank);

EXPORT ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                            ncclConfig_t *config)
{
    int code = failure_code("ncclCommInitRankConfig");

    (void)config; // non-blocking initialisation blocks, too
    return code ? code : join(comm, nranks, &id, rank);
}
NCCL_ALIAS(ncclCommInitRankConfig);

EXPORT ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids,
                                              ncclConfig_t *config)
{
    int code = failure_code("ncclCommInitRankScalable");

    (void)config;
    if (code)
        return code;
    return nids < 1 ? ncclInvalidArgument : join(comm, nranks, &ids[0], rank);
}
NCCL_ALIAS(ncclCommInitRankScalable);

EXPORT ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devices)
{
    struct segment *segment;
    int code = failure_code("ncclCommInitAll");

    if (code)
        return code;
    if (!comms || ndev < 1)
        return ncclInvalidArgument;
    segment = segment_make_private(ndev);
    if (!segment)
        return ncclSystemError;
    for (int rank = 0; rank < ndev; rank++)
        comms[rank] = communicator_make(segment, segment->comm, rank, devices ? devices[rank] : rank);
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommInitAll);

EXPORT ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
    if (!is_communicator(comm) || !count)
        return ncclInvalidArgument;
    *count = comm->nranks;
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommCount);

EXPORT ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
    if (!is_communicator(comm) || !rank)
        return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommUserRank);

EXPORT ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
    if (!is_communicator(comm) || !device)
        return ncclInvalidArgument;
    *device = comm->device;
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommCuDevice);

static void drain(struct communicator *comm)
{
    ring_view_drain(comm->all);
    for (int peer = 0; peer < comm->nranks; peer++) {
        if (comm->to[peer])
            ring_view_drain(comm->to[peer]);
        if (comm->from[peer])
            ring_view_drain(comm->from[peer]);
    }
}

EXPORT ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
    int code = failure_code("ncclCommFinalize");

    if (code)
        return code;
    if (!is_communicator(comm))
        return ncclInvalidArgument;
    drain(comm);
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommFinalize);

static void forget(struct communicator *comm)
{
    comm->magic = 0;
    if (comm->file >= 0)
        close(comm->file);
    free(comm->to);
    free(comm->from);
    free(comm);
}

EXPORT ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
    int code = failure_code("ncclCommDestroy");

    if (code)
        return code;
    if (!comm)
        return ncclSuccess;
    if (!is_communicator(comm))
        return ncclInvalidArgument;
    drain(comm);
    forget(comm);
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommDestroy);

// Ends every wait for this communicator in this process: its kernels end, its calls return ncclSystemError.
EXPORT ncclResult_t pncclCommAbort(ncclComm_t comm)
{
    int code = failure_code("ncclCommAbort");

    if (code)
        return code;
    if (!is_communicator(comm))
        return ncclInvalidArgument;
    // The memory is not freed: a thread that wakes up still reads it.
    atomic_store(&comm->error, ncclSystemError);
    ring_view_abort(comm->all);
    for (int peer = 0; peer < comm->nranks; peer++) {
        if (comm->to[peer])
            ring_view_abort(comm->to[peer]);
        if (comm->from[peer])
            ring_view_abort(comm->from[peer]);
    }
    atomic_fetch_add(&comm->shared->changes, 1);
    wake_all(&comm->shared->changes);
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommAbort);

EXPORT ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    int code = failure_code("ncclCommGetAsyncError");

    if (code)
        return code;
    if (!is_communicator(comm) || !error)
        return ncclInvalidArgument;
    *error = atomic_load(&comm->error);
    return ncclSuccess;
}
NCCL_ALIAS(ncclCommGetAsyncError);

EXPORT const char *pncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error - please report this issue to the NCCL developers",
        "invalid argument (run with NCCL_DEBUG=WARN for details)",
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };

    return result >= 0 && (size_t)result < sizeof(texts) / sizeof(texts[0]) ? texts[result] : "unknown result code";
}
NCCL_ALIAS(ncclGetErrorString);

EXPORT const char *pncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
NCCL_ALIAS(ncclGetLastError);
