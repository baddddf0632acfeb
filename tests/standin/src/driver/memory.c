// SPDX-License-Identifier: Apache-2.0
//
// Memory. All of it is host memory. Device, managed and pinned memory each have an address range of their own, reserved but
// not touched, so that one comparison shows what a pointer is. Block sizes are powers of two, since address space is free;
// freed blocks are kept by size.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "driver/driver.h"

enum { SMALLEST_SHIFT = 9, SHIFTS = 64, BUCKETS = 1 << 14 };
#define RELEASE_BYTES (64ul << 10) // smaller blocks keep their pages: madvise() would cost more than it frees

struct block {
    char *address;
    size_t bytes; // as requested
    int shift;
    int device;
    bool is_counted;
    struct block *next;
};

struct range {
    char *start;
    char *end;
    char *unused;
    struct block *freed[SHIFTS];
};

static struct range pinned, device_memory, managed;

enum { REGISTERED = 64 };
static struct {
    char *start;
    char *end;
} registered[REGISTERED]; // the program's own memory that it has pinned
static struct block *in_use[BUCKETS];

// One tebibyte; half as much, again and again, where address space is limited.
static void reserve(struct range *range)
{
    for (size_t bytes = 1ul << 40; bytes >= 1ul << 28; bytes /= 2) {
        void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (start != MAP_FAILED) {
            madvise(start, bytes, MADV_DONTDUMP);
            *range = (struct range){.start = start, .unused = start, .end = (char *)start + bytes};
            return;
        }
    }
}

static bool is_in(const struct range *range, const char *pointer)
{
    return pointer >= range->start && pointer < range->unused;
}

static bool is_registered(const char *pointer)
{
    for (int i = 0; i < REGISTERED; i++)
        if (pointer >= registered[i].start && pointer < registered[i].end)
            return true;
    return false;
}

enum place place_of(const void *pointer)
{
    if (is_in(&pinned, pointer) || is_registered(pointer))
        return PINNED;
    return is_in(&device_memory, pointer) || is_in(&managed, pointer) ? DEVICE : PAGEABLE;
}

static struct block **bucket_of(const void *address)
{
    return &in_use[((uintptr_t)address >> SMALLEST_SHIFT) * 0x9e3779b97f4a7c15u >> 50]; // the top 14 bits
}

static int shift_for(size_t bytes)
{
    int shift = SMALLEST_SHIFT;

    while (shift < SHIFTS - 1 && (size_t)1 << shift < bytes)
        shift++;
    return shift;
}

static struct block *take_block(struct range *range, size_t bytes)
{
    int shift = shift_for(bytes);
    struct block *block;

    if (!range->start)
        reserve(range);
    block = range->freed[shift];
    if (block) {
        range->freed[shift] = block->next;
    } else {
        if ((size_t)(range->end - range->unused) < (size_t)1 << shift)
            return NULL;
        block = calloc(1, sizeof(*block));
        if (!block)
            return NULL;
        block->address = range->unused;
        block->shift = shift;
        range->unused += (size_t)1 << shift;
    }
    block->bytes = bytes;
    block->next = *bucket_of(block->address);
    *bucket_of(block->address) = block;
    return block;
}

static CUresult allocate(struct range *range, size_t bytes, bool is_counted, void **pointer)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    struct standin_context *owner = &context[current_device()];
    struct block *block;

    if (!pointer || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&driver_lock);
    if (!is_counted || (bytes <= settings.memory_bytes && owner->used_bytes <= settings.memory_bytes - bytes)) {
        block = take_block(range, bytes);
        if (block) {
            block->device = owner->device;
            block->is_counted = is_counted;
            owner->used_bytes += is_counted ? bytes : 0;
            *pointer = block->address;
            result = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

static CUresult give_back(void *pointer)
{
    struct range *range = is_in(&pinned, pointer) ? &pinned : is_in(&managed, pointer) ? &managed : &device_memory;
    struct block **link;
    struct block *block;

    pthread_mutex_lock(&driver_lock);
    link = bucket_of(pointer);
    while (*link && (*link)->address != pointer)
        link = &(*link)->next;
    block = *link;
    if (block) {
        *link = block->next;
        context[block->device].used_bytes -= block->is_counted ? block->bytes : 0;
        if (block->bytes >= RELEASE_BYTES)
            madvise(block->address, block->bytes, MADV_DONTNEED);
        block->next = range->freed[block->shift];
        range->freed[block->shift] = block;
    }
    pthread_mutex_unlock(&driver_lock);
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void *as_pointer(CUdeviceptr pointer)
{
    return (void *)(uintptr_t)pointer;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    pthread_mutex_lock(&driver_lock);
    *free_bytes = settings.memory_bytes - context[current_device()].used_bytes;
    pthread_mutex_unlock(&driver_lock);
    *total_bytes = settings.memory_bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    int code = failure_code("cuMemAlloc");

    return code ? code : allocate(&device_memory, bytes, true, (void **)pointer);
}

static CUresult allocate_in_stream(CUdeviceptr *pointer, size_t bytes, CUstream stream, enum default_stream which)
{
    int code = failure_code("cuMemAllocAsync");
    bool is_known;

    if (code)
        return code;
    pthread_mutex_lock(&driver_lock);
    is_known = stream_of(stream, which) != NULL;
    pthread_mutex_unlock(&driver_lock);
    return is_known ? allocate(&device_memory, bytes, true, (void **)pointer) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_in_stream(pointer, bytes, stream, LEGACY);
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    return allocate_in_stream(pointer, bytes, stream, PER_THREAD);
}

// Managed memory may exceed the device's memory, so it does not count.
EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    int code = failure_code("cuMemAllocManaged");

    (void)flags;
    return code ? code : allocate(&managed, bytes, false, (void **)pointer);
}

// Freeing waits for the device's work, as the real call does.
EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    struct instant tail;
    int code = failure_code("cuMemFree");

    if (code)
        return code;
    if (!pointer)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&driver_lock);
    device_tail(current_device(), &tail);
    pthread_mutex_unlock(&driver_lock);
    instant_wait(&tail, wait_mode_of(current_device()));
    return give_back(as_pointer(pointer));
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    int code = failure_code("cuMemFreeAsync");

    (void)stream;
    return code ? code : give_back(as_pointer(pointer));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream)
{
    int code = failure_code("cuMemFreeAsync");

    (void)stream;
    return code ? code : give_back(as_pointer(pointer));
}

EXPORT CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    int code = failure_code("cuMemHostAlloc");

    (void)flags;
    return code ? code : allocate(&pinned, bytes, false, pointer);
}

EXPORT CUresult cuMemFreeHost(void *pointer)
{
    int code = failure_code("cuMemFreeHost");

    return code ? code : give_back(pointer);
}

// Adds the range from `start` to `end`; end NULL removes the range that begins at `start`.
static CUresult set_registered(char *start, char *end)
{
    CUresult result = end ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&driver_lock);
    for (int i = 0; i < REGISTERED && result; i++) {
        if (registered[i].start != (end ? NULL : start))
            continue;
        registered[i].start = end ? start : NULL;
        registered[i].end = end;
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&driver_lock);
    return result;
}

EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags)
{
    int code = failure_code("cuMemHostRegister");

    (void)flags;
    if (code || !pointer || !bytes)
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    return set_registered(pointer, (char *)pointer + bytes);
}

EXPORT CUresult cuMemHostUnregister(void *pointer)
{
    int code = failure_code("cuMemHostUnregister");

    if (code || !pointer)
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    return set_registered(pointer, NULL);
}

// The handle of memory without an address is the address it would have. The stand-in never maps it.
EXPORT CUresult cuMemCreate(uint64_t *handle, size_t bytes, const void *properties, unsigned long long flags)
{
    void *pointer;
    int code = failure_code("cuMemCreate");

    (void)properties;
    (void)flags;
    if (!code)
        code = allocate(&device_memory, bytes, true, &pointer);
    if (!code)
        *handle = (uintptr_t)pointer;
    return code;
}

EXPORT CUresult cuMemRelease(uint64_t handle)
{
    int code = failure_code("cuMemRelease");

    return code ? code : give_back(as_pointer(handle));
}
