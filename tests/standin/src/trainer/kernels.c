// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the job, with the lengths that the flags set.
#include "lib/random.h"
#include "program/counted.h"
#include "program/truth.h"
#include "trainer/trainer.h"

const dim3 kernel_grid = {256, 1, 1}, kernel_block = {256, 1, 1};

uint64_t kernel_length_ns(struct rank *rank, int64_t us)
{
    uint64_t spread = (uint64_t)((double)us * 10 * settings.jitter_percent); // us * 1000 * percent / 100

    rank->random = random_of(rank->random, 1);
    return spread_around((uint64_t)us * 1000, spread, rank->random);
}

void kernel_launch(struct rank *rank, int64_t us)
{
    uint64_t duration_ns = kernel_length_ns(rank, us);
    void *arguments[] = {&duration_ns};

    CALL(cudaLaunchKernel, standin_timed_kernel(), kernel_grid, kernel_block, arguments, 0, NULL);
}

void kernels_launch(struct rank *rank, int64_t kernels, int64_t us)
{
    for (int64_t i = 0; i < kernels; i++) {
        burn_us(settings.host_us);
        kernel_launch(rank, us);
    }
}

cudaGraphExec_t kernels_captured(int64_t kernels)
{
    uint64_t duration_ns = (uint64_t)settings.kernel_us * 1000;
    void *arguments[] = {&duration_ns};
    cudaGraphExec_t exec = NULL;
    cudaGraph_t graph = NULL;
    cudaStream_t stream;
    int status;

    CALL(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    CALL(cudaStreamBeginCapture, stream, cudaStreamCaptureModeThreadLocal);
    for (int64_t i = 0; i < kernels; i++)
        CALL(cudaLaunchKernel, standin_timed_kernel(), kernel_grid, kernel_block, arguments, 0, stream);
    CALL(cudaStreamIsCapturing, stream, &status);
    CALL(cudaStreamEndCapture, stream, &graph);
    CALL(cudaGraphInstantiate, &exec, graph, 0);
    CALL(cudaGraphDestroy, graph);
    CALL(cudaStreamDestroy, stream);
    return exec;
}
