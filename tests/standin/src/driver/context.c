// SPDX-License-Identifier: Apache-2.0
//
// Settings, initialisation, contexts of devices, and the context of the calling thread.
#include <stdlib.h>

#include "driver/driver.h"

pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
struct standin_context context[MAX_DEVICES];
struct settings settings;

static bool initialised;
static double slowdown = 1.0;
static __thread int thread_device;
static __thread bool thread_has_context;

char standin_timed_kernel_mark EXPORT;
char standin_collective_kernel_mark EXPORT;

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtod(text, NULL) : otherwise;
}

__attribute__((constructor)) static void read_settings(void)
{
    double devices = number("STANDIN_DEVICES", 8);

    settings.devices = devices > MAX_DEVICES ? MAX_DEVICES : (int)devices;
    settings.memory_bytes = (size_t)number("STANDIN_MEMORY_BYTES", 80.0 * (1 << 30));
    settings.kernel_ns = (int64_t)number("STANDIN_KERNEL_NS", 5000);
    settings.copy_bytes = (size_t)number("STANDIN_COPY_BYTES", 65536);
    slowdown = number("STANDIN_GPU_SLOWDOWN", 1.0);
    for (int i = 0; i < MAX_DEVICES; i++) {
        context[i].device = i;
        context[i].legacy = (struct stream){.is_open = true, .is_blocking = true, .device = i};
    }
}

EXPORT void standin_set_slowdown(double factor)
{
    slowdown = factor;
}

EXPORT void standin_set_delay(const char *function, int64_t delay_ns)
{
    set_delay(function, delay_ns);
}

EXPORT int64_t standin_slowed_ns(int64_t duration_ns)
{
    return (int64_t)((double)duration_ns * slowdown);
}

bool is_initialised(void)
{
    return initialised;
}

int current_device(void)
{
    return thread_device;
}

enum wait_mode wait_mode_of(int device)
{
    switch (context[device].flags & CU_CTX_SCHED_MASK) {
    case CU_CTX_SCHED_BLOCKING_SYNC:
        return WAIT_BLOCK;
    case CU_CTX_SCHED_YIELD:
        return WAIT_YIELD;
    default: // the real driver's AUTO spins while there are no more contexts than CPUs
        return WAIT_SPIN;
    }
}

EXPORT CUresult cuInit(unsigned int flags)
{
    int code = failure_code("cuInit");

    if (code)
        return code;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *retained, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    context[device].is_active = true;
    *retained = &context[device];
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    context[device].flags = flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = context[device].flags;
    *active = context[device].is_active;
    return CUDA_SUCCESS;
}

// One context per device is enough: the exporter probes nothing that would differ in a second one.
EXPORT CUresult cuCtxCreate_v2(CUcontext *created, unsigned int flags, CUdevice device)
{
    CUresult result = cuDevicePrimaryCtxRetain(created, device);

    if (result)
        return result;
    context[device].flags = flags;
    return cuCtxSetCurrent(*created);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext destroyed)
{
    return destroyed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext made_current)
{
    thread_has_context = made_current != NULL;
    thread_device = made_current ? made_current->device : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *current)
{
    *current = thread_has_context ? &context[thread_device] : NULL;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = thread_device;
    return CUDA_SUCCESS;
}
