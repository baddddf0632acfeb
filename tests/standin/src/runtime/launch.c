// SPDX-License-Identifier: Apache-2.0
//
// Kernel launches. The function's address is its handle in the driver: there is no code to look up.
#include "runtime/runtime.h"

static CUfunction as_function(const void *function)
{
    return (CUfunction)function;
}

static cudaError_t launch_kernel(enum default_stream which, const void *function, dim3 grid, dim3 block,
                                 void **arguments, size_t shared_bytes, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaLaunchKernel");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->launch(as_function(function), grid.x, grid.y, grid.z, block.x, block.y,
                                 block.z, (unsigned int)shared_bytes, stream, arguments, NULL));
}

EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                    size_t shared_bytes, cudaStream_t stream)
{
    return launch_kernel(LEGACY, function, grid, block, arguments, shared_bytes, stream);
}

EXPORT cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **arguments,
                                         size_t shared_bytes, cudaStream_t stream)
{
    return launch_kernel(PER_THREAD, function, grid, block, arguments, shared_bytes, stream);
}

static cudaError_t launch_cooperative_kernel(enum default_stream which, const void *function, dim3 grid, dim3 block,
                                             void **arguments, size_t shared_bytes, cudaStream_t stream)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaLaunchCooperativeKernel");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->launch_cooperative(as_function(function), grid.x, grid.y, grid.z, block.x,
                                 block.y, block.z, (unsigned int)shared_bytes, stream, arguments));
}

EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                               size_t shared_bytes, cudaStream_t stream)
{
    return launch_cooperative_kernel(LEGACY, function, grid, block, arguments, shared_bytes, stream);
}

EXPORT cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *function, dim3 grid, dim3 block, void **arguments,
                                                    size_t shared_bytes, cudaStream_t stream)
{
    return launch_cooperative_kernel(PER_THREAD, function, grid, block, arguments, shared_bytes, stream);
}

static cudaError_t launch_configured(enum default_stream which, const cudaLaunchConfig_t *config,
                                     const void *function, void **arguments)
{
    const struct driver *driver = driver_for(which);
    cudaError_t error = failure_code("cudaLaunchKernelExC");

    if (!driver)
        return driver_missing();
    if (error || !config)
        return noted(error ? error : cudaErrorInvalidValue);
    CUlaunchConfig same = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = config->attrs,
        .numAttrs = config->numAttrs,
    };
    return noted(driver->launch_ex(&same, as_function(function), arguments, NULL));
}

EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    return launch_configured(LEGACY, config, function, arguments);
}

EXPORT cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    return launch_configured(PER_THREAD, config, function, arguments);
}
