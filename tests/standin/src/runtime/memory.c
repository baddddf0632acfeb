// SPDX-License-Identifier: Apache-2.0
//
// Memory and pointers: each call is one call of the driver.
#include <stdint.h>

#include "runtime/runtime.h"

static CUdeviceptr as_device(const void *pointer)
{
    return (uintptr_t)pointer;
}

EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaMemGetInfo");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->memory_info(free_bytes, total_bytes));
}

EXPORT cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaMalloc");

    if (!driver)
        return driver_missing();
    if (!error && bytes == 0) { // like NVIDIA's: success, but no memory
        *pointer = NULL;
        return cudaSuccess;
    }
    return noted(error ? error : driver->allocate((CUdeviceptr *)pointer, bytes));
}

static cudaError_t malloc_async(enum default_stream which, void **pointer, size_t bytes, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaMallocAsync");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->allocate_async((CUdeviceptr *)pointer, bytes, stream));
}

EXPORT cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream)
{
    return malloc_async(LEGACY, pointer, bytes, stream);
}

EXPORT cudaError_t cudaMallocAsync_ptsz(void **pointer, size_t bytes, cudaStream_t stream)
{
    return malloc_async(PER_THREAD, pointer, bytes, stream);
}

EXPORT cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaMallocManaged");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->allocate_managed((CUdeviceptr *)pointer, bytes, flags));
}

EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaHostAlloc");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->allocate_host(pointer, bytes, flags));
}

EXPORT cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaMallocHost");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->allocate_host(pointer, bytes, 0));
}

EXPORT cudaError_t cudaFree(void *pointer)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaFree");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->free(as_device(pointer)));
}

static cudaError_t free_async(enum default_stream which, void *pointer, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaFreeAsync");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->free_async(as_device(pointer), stream));
}

EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    return free_async(LEGACY, pointer, stream);
}

EXPORT cudaError_t cudaFreeAsync_ptsz(void *pointer, cudaStream_t stream)
{
    return free_async(PER_THREAD, pointer, stream);
}

EXPORT cudaError_t cudaFreeHost(void *pointer)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaFreeHost");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->free_host(pointer));
}

EXPORT cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaHostRegister");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->register_host(pointer, bytes, flags));
}

EXPORT cudaError_t cudaHostUnregister(void *pointer)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaHostUnregister");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->unregister_host(pointer));
}
