// SPDX-License-Identifier: Apache-2.0
//
// Devices, versions, names of errors, and the addresses of the other functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

enum { DRIVER_VERSION = 12090 };

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

// This library, under whatever name it was loaded. As in the real driver, cuGetProcAddress does not find the cuLaunchKernel of
// a preloaded library.
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
    // The newest version first; of each the per-thread variant first if the flag is set:
    // cuMemcpyHtoD -> cuMemcpyHtoD_v2_ptds. cuGraphInstantiate names cuGraphInstantiateWithFlags since CUDA 12.0.
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
