// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "program/truth.h"

#include <dlfcn.h>
#include <stddef.h>

static void *in_driver(const char *symbol)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    return driver ? dlsym(driver, symbol) : NULL;
}

const void *standin_timed_kernel(void)
{
    static const void *found;

    if (!found)
        found = in_driver("standin_timed_kernel_mark");
    return found;
}

int64_t true_stream_end_ns(cudaStream_t stream)
{
    static int64_t (*found)(cudaStream_t);

    if (!found)
        found = (int64_t(*)(cudaStream_t))in_driver("standin_stream_end_ns");
    return found ? found(stream) : -1;
}

void slow_the_gpu(double factor)
{
    void (*set)(double) = (void (*)(double))in_driver("standin_set_slowdown");

    if (set)
        set(factor);
}

void delay_calls(const char *function, int64_t delay_ns)
{
    void (*set)(const char *, int64_t) = (void (*)(const char *, int64_t))in_driver("standin_set_delay");

    if (set)
        set(function, delay_ns);
}

void fix_collective_ns(uint64_t duration_ns)
{
    void (*set)(uint64_t) = (void (*)(uint64_t))dlsym(RTLD_DEFAULT, "standin_set_collective_ns");

    if (set)
        set(duration_ns);
}
