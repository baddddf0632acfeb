// SPDX-License-Identifier: Apache-2.0
//
// Kernel launches. standin.h describes how long a kernel takes.
#include "driver/driver.h"

static CUresult launch(CUfunction function, CUstream stream, void **arguments, enum default_stream which)
{
    struct work work = {.duration_ns = settings.kernel_ns};
    bool was_captured = false;
    CUresult result;

    if (!is_initialised() || !function)
        return CUDA_ERROR_INVALID_VALUE;
    if ((void *)function == &standin_collective_kernel_mark) {
        work.collective = arguments[0];
        result = enqueue(stream, which, &work, NULL, &was_captured);
        if (!was_captured || result)
            work.collective->release(work.collective);
        return result;
    }
    if ((void *)function == &standin_timed_kernel_mark)
        work.duration_ns = (int64_t) * (const uint64_t *)arguments[0];
    return enqueue(stream, which, &work, NULL, &was_captured);
}

static bool is_empty(unsigned int x, unsigned int y, unsigned int z)
{
    return x == 0 || y == 0 || z == 0;
}

static CUresult launch_configured(const char *name, const CUlaunchConfig *config, CUfunction function,
                                  void **arguments, enum default_stream which)
{
    int code = failure_code(name);

    if (code)
        return code;
    if (!config || is_empty(config->gridDimX, config->gridDimY, config->gridDimZ) ||
        is_empty(config->blockDimX, config->blockDimY, config->blockDimZ))
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, config->hStream, arguments, which);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                               unsigned int block_x, unsigned int block_y, unsigned int block_z,
                               unsigned int shared_bytes, CUstream stream, void **arguments, void **extra)
{
    (void)extra;
    return launch_configured("cuLaunchKernel",
                             &(CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                               NULL, 0},
                             function, arguments, LEGACY);
}

EXPORT CUresult cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                    unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                    unsigned int shared_bytes, CUstream stream, void **arguments, void **extra)
{
    (void)extra;
    return launch_configured("cuLaunchKernel",
                             &(CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                               NULL, 0},
                             function, arguments, PER_THREAD);
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)extra;
    return launch_configured("cuLaunchKernelEx", config, function, arguments, LEGACY);
}

EXPORT CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)extra;
    return launch_configured("cuLaunchKernelEx", config, function, arguments, PER_THREAD);
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                          unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                          unsigned int shared_bytes, CUstream stream, void **arguments)
{
    return launch_configured("cuLaunchCooperativeKernel",
                             &(CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                               NULL, 0},
                             function, arguments, LEGACY);
}

EXPORT CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                               unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                               unsigned int shared_bytes, CUstream stream, void **arguments)
{
    return launch_configured("cuLaunchCooperativeKernel",
                             &(CUlaunchConfig){grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                               NULL, 0},
                             function, arguments, PER_THREAD);
}
