// SPDX-License-Identifier: Apache-2.0
//
// Devices, contexts, versions and the way to the other functions: cuInit to cuGetProcAddress.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

enum { DRIVER_VERSION = 12090 };

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

static bool is_device(CUdevice device)
{
    return device >= 0 && device < settings.devices;
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

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = DRIVER_VERSION;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
    *count = settings.devices;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Stand-in GPU %d", device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "standin-gpu-uuid", sizeof(uuid->bytes));
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid(uuid, device);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = settings.memory_bytes;
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

// One context per device is enough here: what would differ in a second one, nobody hooks.
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

EXPORT CUresult cuCtxSynchronize(void)
{
    struct instant tail;
    int code = failure_code("cuCtxSynchronize");

    if (code)
        return code;
    pthread_mutex_lock(&driver_lock);
    if (captures_blocking_stream(thread_device)) {
        pthread_mutex_unlock(&driver_lock);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    device_tail(thread_device, &tail);
    pthread_mutex_unlock(&driver_lock);
    instant_wait(&tail, wait_mode_of(thread_device));
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name;
    const char *text;
} error_names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
};

static const char *named(CUresult error, bool by_text)
{
    for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++)
        if (error_names[i].code == error)
            return by_text ? error_names[i].text : error_names[i].name;
    return NULL;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = named(error, false);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = named(error, true);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// This library, whatever name it was loaded by: a program that preloads its own cuLaunchKernel is not found by
// cuGetProcAddress, as it is not in the real driver.
static void *own_library(void)
{
    static void *library;
    Dl_info own;

    if (!library && dladdr(&standin_timed_kernel_mark, &own))
        library = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return library;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
    // The newest version first, and of each the per-thread variant when asked for:
    // cuMemcpyHtoD -> cuMemcpyHtoD_v2_ptds; cuGraphInstantiate is another function since 12.0.
    static const char *const versions[] = {"_v2", "WithFlags", ""};
    static const char *const variants[] = {"_ptsz", "_ptds", ""};
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    char name[128];

    (void)version;
    *function = NULL;
    for (int v = 0; v < 3 && !*function; v++) {
        for (int variant = per_thread ? 0 : 2; variant < 3 && !*function; variant++) {
            snprintf(name, sizeof(name), "%s%s%s", symbol, versions[v], variants[variant]);
            *function = dlsym(own_library(), name);
        }
    }
    if (status)
        *status = *function ? 0 : 1; // CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
