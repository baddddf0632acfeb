// SPDX-License-Identifier: Apache-2.0
//
// Finding the driver, and the runtime's own state: last error, versions, devices.
#include <dlfcn.h>
#include <pthread.h>

#include "runtime/runtime.h"

enum { RUNTIME_VERSION = 12090 };

static struct driver drivers[2];
static int initialised_with = cudaErrorInsufficientDriver;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread cudaError_t last_error;

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    __typeof__(cuGetProcAddress_v2) *get = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;

    if (!get)
        return;
    for (int which = LEGACY; which <= PER_THREAD; which++) {
        int flags = which == LEGACY ? CU_GET_PROC_ADDRESS_LEGACY_STREAM : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
#define FIND(member, name, type) get(name, (void **)&drivers[which].member, RUNTIME_VERSION, (uint64_t)flags, NULL);
        DRIVER_FUNCTIONS(FIND)
#undef FIND
    }
    initialised_with = drivers[LEGACY].init(0);
}

const struct driver *driver_for(enum default_stream which)
{
    pthread_once(&once, find_driver);
    return initialised_with == cudaSuccess ? &drivers[which] : NULL;
}

cudaError_t noted(cudaError_t error)
{
    if (error)
        last_error = error;
    return error;
}

cudaError_t driver_missing(void)
{
    return noted(initialised_with);
}

EXPORT cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name;
    const char *text;
} error_names[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {21, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {35, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {900, "cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {903, "cudaErrorStreamCaptureUnmatched", "the capture was not initiated in this stream"},
    {904, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {906, "cudaErrorStreamCaptureImplicit", "operation would make the legacy stream depend on a capturing one"},
    {907, "cudaErrorCapturedEvent", "operation not permitted on an event last recorded in a capturing stream"},
};

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++)
        if (error_names[i].error == error)
            return error_names[i].name;
    return "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(error_names) / sizeof(error_names[0]); i++)
        if (error_names[i].error == error)
            return error_names[i].text;
    return "unrecognized error code";
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
    const struct driver *driver = driver_for(LEGACY);

    *version = 0; // as the real runtime does without a driver
    return driver ? noted(driver->get_version(version)) : cudaSuccess;
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceCount(int *count)
{
    const struct driver *driver = driver_for(LEGACY);

    *count = 0;
    return driver ? noted(driver->get_device_count(count)) : driver_missing();
}

static __thread int device_of_thread;

EXPORT cudaError_t cudaGetDevice(int *device)
{
    *device = device_of_thread;
    return driver_for(LEGACY) ? cudaSuccess : driver_missing();
}

EXPORT cudaError_t cudaSetDevice(int device)
{
    const struct driver *driver = driver_for(LEGACY);
    CUcontext context;
    cudaError_t error = failure_code("cudaSetDevice");

    if (!driver)
        return driver_missing();
    if (!error)
        error = driver->retain_context(&context, device);
    if (!error)
        error = driver->set_context(context);
    if (!error)
        device_of_thread = device;
    return noted(error);
}

EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    const struct driver *driver = driver_for(LEGACY);

    return driver ? noted(driver->set_context_flags(device_of_thread, flags)) : driver_missing();
}

EXPORT cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    const struct driver *driver = driver_for(LEGACY);
    int is_active;

    return driver ? noted(driver->get_context_state(device_of_thread, flags, &is_active)) : driver_missing();
}

EXPORT cudaError_t cudaDeviceSynchronize(void)
{
    const struct driver *driver = driver_for(LEGACY);
    cudaError_t error = failure_code("cudaDeviceSynchronize");

    if (!driver)
        return driver_missing();
    return noted(error ? error : driver->synchronize_context());
}
