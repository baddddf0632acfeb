// SPDX-License-Identifier: Apache-2.0
//
// One training step, seen from the GPU and the probes.
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "program/counted.h"
#include "lib/random.h"
#include "trainer/trainer.h"
#include "program/truth.h"
#include "program/usage.h"

static void copy(void *to, const void *from, size_t bytes, int kind, enum direction direction)
{
    if (CALL(cudaMemcpyAsync, to, from, bytes, kind, NULL) == cudaSuccess)
        counted_copy(direction, bytes);
}

void step_prepare(struct rank *rank)
{
    CALL(cudaStreamCreateWithPriority, &rank->nccl_stream, cudaStreamNonBlocking, -1);
    CALL(cudaMalloc, (void **)&rank->device_batch, (size_t)settings.batch_bytes);
    CALL(cudaMalloc, (void **)&rank->device_gradients, (size_t)(settings.buckets * settings.bucket_bytes + 1));
    CALL(cudaMalloc, (void **)&rank->device_loss, 4096);
    CALL(cudaHostAlloc, (void **)&rank->host_loss, 4096, 0);
    CALL(cudaMemset, rank->device_loss, 0, 4096);
    rank->graph = kernels_captured(5);
}

// Stream-ordered scratch memory, like an optimizer's.
static void allocate_in_stream(struct rank *rank)
{
    void *scratch = NULL;

    if (CALL(cudaMallocAsync, &scratch, 1 << 20, NULL) != cudaSuccess)
        return;
    CALL(cudaMemsetAsync, scratch, 0, 1 << 20, NULL);
    kernel_launch(rank, settings.optimizer_kernel_us);
    CALL(cudaFreeAsync, scratch, NULL);
}

static void gather_metrics(struct rank *rank)
{
    size_t floats = 256;

    CALL(ncclGroupStart);
    if (CALL(ncclAllGather, rank->device_loss, rank->device_gradients, floats, ncclFloat32, rank->comm,
             rank->nccl_stream) == ncclSuccess)
        counted_collective(CALL_ncclAllGather, floats * 4);
    if (CALL(ncclReduceScatter, rank->device_gradients, rank->device_loss, floats, ncclFloat32, ncclSum, rank->comm,
             rank->nccl_stream) == ncclSuccess)
        counted_collective(CALL_ncclReduceScatter, floats * 4);
    CALL(ncclGroupEnd);
    if (CALL(ncclBroadcast, rank->device_loss, rank->device_loss, floats, ncclFloat32, 0, rank->comm,
             rank->nccl_stream) == ncclSuccess)
        counted_collective(CALL_ncclBroadcast, floats * 4);
}

// What a job does once in a while: evaluation, logging, checkpoints.
static void evaluate(struct rank *rank)
{
    uint64_t duration_ns = kernel_length_ns(rank, settings.kernel_us);
    void *arguments[] = {&duration_ns};
    cudaLaunchConfig_t config = {.gridDim = kernel_grid, .blockDim = kernel_block};
    cudaEvent_t before, after;
    float milliseconds;
    size_t free_bytes, total_bytes;
    void *scratch = NULL;

    CALL(cudaMemGetInfo, &free_bytes, &total_bytes);
    CALL(cudaMalloc, &scratch, 1 << 20);
    CALL(cudaMemset, scratch, 0, 1 << 20);
    CALL(cudaEventCreate, &before);
    CALL(cudaEventCreate, &after);
    CALL(cudaEventRecord, before, NULL);
    CALL(cudaLaunchKernelExC, &config, standin_timed_kernel(), arguments);
    CALL(cudaLaunchCooperativeKernel, standin_timed_kernel(), kernel_grid, kernel_block, arguments, 0, NULL);
    CALL(cudaGraphLaunch, rank->graph, NULL);
    copy(scratch, rank->device_batch, 4096, cudaMemcpyDeviceToDevice, D2D);
    CALL(cudaEventRecord, after, NULL);
    gather_metrics(rank);
    CALL(cudaEventSynchronize, after);
    CALL(cudaEventElapsedTime, &milliseconds, before, after);
    if (CALL(cudaMemcpy, rank->host_loss, rank->device_loss, 4096, cudaMemcpyDeviceToHost) == cudaSuccess)
        counted_copy(D2H, 4096);
    CALL(cudaStreamQuery, NULL);
    CALL(cudaDeviceSynchronize);
    CALL(cudaEventDestroy, before);
    CALL(cudaEventDestroy, after);
    CALL(cudaFree, scratch);
}

struct step_truth {
    int64_t start_ns, batch_ns, sync_start_ns, gpu_end_ns, sync_return_ns;
    int64_t cpu_ns, runnable_ns; // of the step thread, at the start
};

static void read_loss(struct rank *rank, struct step_truth *truth)
{
    copy(rank->host_loss, rank->device_loss, sizeof(float), cudaMemcpyDeviceToHost, D2H);
    truth->sync_start_ns = now_ns();
    CALL(cudaStreamSynchronize, NULL);
    truth->sync_return_ns = now_ns();
    truth->gpu_end_ns = true_stream_end_ns(NULL);
}

static void print_step(const struct rank *rank, uint64_t step, const struct step_truth *truth)
{
    char line[768];
    int length = snprintf(
        line, sizeof(line),
        "{\"type\":\"step\",\"rank\":%d,\"step\":%ju,\"start_ns\":%jd,\"end_ns\":%jd,\"loader_wait_ns\":%jd,"
        "\"sync_start_ns\":%jd,\"gpu_end_ns\":%jd,\"sync_return_ns\":%jd,\"delay_ns\":%jd,\"cpu_ns\":%jd,"
        "\"runnable_ns\":%jd,\"calls\":%ju}\n",
        rank->place.rank, (uintmax_t)step, (intmax_t)truth->start_ns, (intmax_t)now_ns(),
        (intmax_t)(truth->batch_ns - truth->start_ns), (intmax_t)truth->sync_start_ns, (intmax_t)truth->gpu_end_ns,
        (intmax_t)truth->sync_return_ns,
        // When the GPU ended before the call began, the call could not have returned earlier.
        (intmax_t)(truth->sync_return_ns -
                   (truth->gpu_end_ns > truth->sync_start_ns ? truth->gpu_end_ns : truth->sync_start_ns)),
        (intmax_t)(thread_cpu_ns() - truth->cpu_ns), (intmax_t)(thread_runnable_ns() - truth->runnable_ns),
        (uintmax_t)counted_total());

    if (write(STDOUT_FILENO, line, (size_t)length) < 0)
        _exit(0); // the reader has closed the pipe
}

// For a person: a line per second. A program that reads the output gets every step, from print_step().
static void show_step(const struct rank *rank, uint64_t step, const struct step_truth *truth)
{
    static int64_t due_ns;
    int64_t now = now_ns();

    if (now < due_ns)
        return;
    due_ns = now + 1000000000;
    dprintf(STDOUT_FILENO, "rank %d: step %ju takes %.1f ms\n", rank->place.rank, (uintmax_t)step,
            (double)(now - truth->start_ns) / 1e6);
}

static bool is_due(uint64_t step, int64_t every)
{
    return every > 0 && step % (uint64_t)every == 0;
}

void step_run(struct rank *rank, uint64_t step)
{
    struct step_truth truth = {
        .start_ns = now_ns(), .cpu_ns = thread_cpu_ns(), .runnable_ns = thread_runnable_ns()};
    char *batch = pinned_take(rank->place.rank);

    truth.batch_ns = now_ns();
    rank->random = random_of((uint64_t)settings.seed + (uint64_t)rank->place.rank, step);
    memory_use(step);
    fault_before_step(rank, step);
    copy(rank->device_batch, batch, (size_t)settings.batch_bytes, cudaMemcpyHostToDevice, H2D);
    kernels_launch(rank, fault_kernels(rank, step, settings.forward_kernels), settings.kernel_us);
    backward_run(step);
    for (int bucket = 0; bucket < settings.buckets; bucket++)
        CALL(cudaStreamWaitEvent, NULL, bucket_done(bucket), 0);
    kernels_launch(rank, fault_kernels(rank, step, settings.optimizer_kernels), settings.optimizer_kernel_us);
    if (is_due(step, settings.allocate_every))
        allocate_in_stream(rank);
    if (is_due(step, settings.sync_every))
        read_loss(rank, &truth);
    if (is_due(step, settings.evaluate_every))
        evaluate(rank);
    pinned_give(batch);
    if (settings.pace_us)
        sleep_until(truth.start_ns + settings.pace_us * 1000);
    if (rank->is_on_terminal)
        show_step(rank, step, &truth);
    else if (!settings.quiet)
        print_step(rank, step, &truth);
}
