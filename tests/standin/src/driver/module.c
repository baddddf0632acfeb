// SPDX-License-Identifier: Apache-2.0
//
// Modules of compiled code, as compilers' runtimes load them. Whatever the code is, a module has every function that it is
// searched for; `standin_timed_kernel` is the one with a length (standin.h).
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

struct module {
    char plain_kernel; // its address is the handle of a function
};

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    int code = failure_code("cuModuleLoadData");

    if (code)
        return code;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    *module = calloc(1, sizeof(**module));
    return *module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int options, int *option, void **values)
{
    (void)options, (void)option, (void)values;
    return cuModuleLoadData(module, image);
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    int code = failure_code("cuModuleGetFunction");

    if (code)
        return code;
    if (!function || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    *function = (CUfunction)(strcmp(name, "standin_timed_kernel") == 0 ? &standin_timed_kernel_mark
                                                                       : &module->plain_kernel);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    int code = failure_code("cuModuleUnload");

    if (code)
        return code;
    free(module);
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
