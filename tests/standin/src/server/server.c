// SPDX-License-Identifier: Apache-2.0
//
// The stand-in serving engine: bursts of requests, idle between them. Each iteration of its decode loop ends with the sampled
// tokens on the host. It prints how many iterations it made and how long it was idle.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program/counted.h"
#include "program/flags.h"
#include "lib/random.h"
#include "runtime/api.h"
#include "program/truth.h"
#include "program/usage.h"

enum { OUTPUT_COPY, OUTPUT_SYNC, OUTPUT_EVENT, OUTPUT_AHEAD };
enum { SYNC_SPIN, SYNC_YIELD, SYNC_BLOCK };
enum { MAX_COPIES = 8, MAX_BATCH = 4096, SLOTS = 2 };

static int64_t bursts = 3, iterations = 40, idle_ms = 1500, batch = 16, kernels = 4, kernel_us = 1000, copies = 1;
static int64_t prefill_kernels = 8, slow_every, slow_us = 50000, seed = 1;
static int output_way, sync_mode, with_graph;

static const struct flag table[] = {
    {"bursts", FLAG_NUMBER, &bursts, "number of bursts", NULL},
    {"iterations", FLAG_NUMBER, &iterations, "iterations per burst", NULL},
    {"idle-ms", FLAG_NUMBER, &idle_ms, "idle time before each burst", NULL},
    {"batch", FLAG_NUMBER, &batch, "largest batch, at most 4096; the size varies", NULL},
    {"kernels", FLAG_NUMBER, &kernels, "kernels of a decode iteration", NULL},
    {"kernel-us", FLAG_NUMBER, &kernel_us, "length of a kernel", NULL},
    {"prefill-kernels", FLAG_NUMBER, &prefill_kernels, "kernels of the first iteration of a burst", NULL},
    {"graph", FLAG_SWITCH, &with_graph, "decode by launching a graph", NULL},
    {"copies", FLAG_NUMBER, &copies, "copies to the host in an iteration, 1 to 8", NULL},
    {"output", FLAG_CHOICE, &output_way, "how the host gets an output", "copy|sync|event|ahead"},
    {"sync", FLAG_CHOICE, &sync_mode, "how a synchronising call waits", "spin|yield|block"},
    {"slow-every", FLAG_NUMBER, &slow_every, "every so many iterations one is slow, 0: none", NULL},
    {"slow-us", FLAG_NUMBER, &slow_us, "extra time of a slow iteration", NULL},
    {"seed", FLAG_NUMBER, &seed, "seed of every random length", NULL},
    {NULL, FLAG_NUMBER, NULL, NULL, NULL},
};

static const dim3 grid = {64, 1, 1}, block = {256, 1, 1};
static char *ids, *device_ids, *device_tokens, *tokens;
static cudaGraphExec_t graph;
static cudaEvent_t copied[SLOTS];
static uint64_t made, outputs; // iterations enqueued, and iterations whose output has arrived
static int64_t first_output_ns, last_output_ns, idle_ns;

static void refuse(const char *text)
{
    fprintf(stderr, "server: %s\n", text);
    exit(2);
}

static void launch(int64_t us)
{
    uint64_t duration_ns = (uint64_t)us * 1000;
    void *arguments[] = {&duration_ns};

    CALL(cudaLaunchKernel, standin_timed_kernel(), grid, block, arguments, 0, NULL);
}

static void capture(void)
{
    uint64_t duration_ns = (uint64_t)kernel_us * 1000;
    void *arguments[] = {&duration_ns};
    cudaGraph_t captured = NULL;
    cudaStream_t stream;

    CALL(cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking);
    CALL(cudaStreamBeginCapture, stream, cudaStreamCaptureModeThreadLocal);
    for (int64_t i = 0; i < kernels; i++)
        CALL(cudaLaunchKernel, standin_timed_kernel(), grid, block, arguments, 0, stream);
    CALL(cudaStreamEndCapture, stream, &captured);
    CALL(cudaGraphInstantiate, &graph, captured, 0);
    CALL(cudaGraphDestroy, captured);
    CALL(cudaStreamDestroy, stream);
}

static void prepare(void)
{
    static const unsigned int schedule[] = {cudaDeviceScheduleSpin, cudaDeviceScheduleYield,
                                            cudaDeviceScheduleBlockingSync};
    size_t bytes = (size_t)batch * 8;

    CALL(cudaSetDevice, 0);
    CALL(cudaSetDeviceFlags, schedule[sync_mode]);
    if (!standin_timed_kernel())
        refuse("the driver is not the stand-in's libcuda.so.1");
    CALL(cudaMalloc, (void **)&device_ids, bytes);
    CALL(cudaMalloc, (void **)&device_tokens, bytes);
    CALL(cudaHostAlloc, (void **)&ids, bytes, 0);
    CALL(cudaHostAlloc, (void **)&tokens, bytes * MAX_COPIES, 0);
    for (int i = 0; i < SLOTS; i++)
        CALL(cudaEventCreateWithFlags, &copied[i], cudaEventDisableTiming);
    if (with_graph)
        capture();
}

static void copy(void *to, const void *from, size_t bytes, int kind, enum direction direction)
{
    if (CALL(cudaMemcpyAsync, to, from, bytes, kind, NULL) == cudaSuccess)
        counted_copy(direction, bytes);
}

// The batch size changes as requests arrive and finish.
static size_t batch_bytes(void)
{
    return (size_t)(1 + random_of((uint64_t)seed, made) % (uint64_t)batch) * 8;
}

static void compute(bool is_prefill)
{
    bool is_slow = slow_every > 0 && made > 0 && made % (uint64_t)slow_every == 0; // the first one is the warm-up

    if (is_prefill || !with_graph)
        for (int64_t i = 0; i < (is_prefill ? prefill_kernels : kernels); i++)
            launch(kernel_us);
    else
        CALL(cudaGraphLaunch, graph, NULL);
    if (is_slow)
        launch(slow_us);
}

static void got_output(void)
{
    last_output_ns = now_ns();
    if (outputs++ == 0)
        first_output_ns = last_output_ns;
}

static void copy_out(size_t bytes)
{
    for (int64_t i = 0; i < copies; i++) {
        char *to = tokens + i * batch * 8;

        if (output_way == OUTPUT_COPY) {
            if (CALL(cudaMemcpy, to, device_tokens, bytes, cudaMemcpyDeviceToHost) == cudaSuccess)
                counted_copy(D2H, bytes);
        } else {
            copy(to, device_tokens, bytes, cudaMemcpyDeviceToHost, D2H);
        }
        if (output_way == OUTPUT_SYNC)
            CALL(cudaStreamSynchronize, NULL);
    }
    if (output_way == OUTPUT_EVENT || output_way == OUTPUT_AHEAD)
        CALL(cudaEventRecord, copied[made % SLOTS], NULL);
}

// With --output=ahead the next iteration is enqueued before the host waits for this one.
static void wait_for_output(uint64_t number)
{
    if (output_way == OUTPUT_EVENT || output_way == OUTPUT_AHEAD)
        CALL(cudaEventSynchronize, copied[number % SLOTS]);
    got_output();
}

static void iterate(bool is_prefill)
{
    size_t bytes = batch_bytes();

    copy(device_ids, ids, bytes, cudaMemcpyHostToDevice, H2D);
    compute(is_prefill);
    copy_out(bytes);
    made++;
    if (output_way != OUTPUT_AHEAD)
        wait_for_output(made - 1);
    else if (made - outputs == SLOTS)
        wait_for_output(outputs);
}

static void serve(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        iterate(i == 0);
    while (outputs < made)
        wait_for_output(outputs);
}

static void be_idle(void)
{
    sleep_until(last_output_ns + idle_ms * 1000000);
    idle_ns += now_ns() - last_output_ns;
}

int main(int argc, char **argv)
{
    if (flags_read(table, argc, argv, "server [--flag=value ...]") < argc)
        refuse("takes flags only; --help lists them");
    if (batch < 1 || batch > MAX_BATCH || copies < 1 || copies > MAX_COPIES || kernels < 1 || prefill_kernels < 1)
        refuse("--batch must be 1 to 4096, --copies 1 to 8, --kernels and --prefill-kernels at least 1");
    prepare();
    serve(1); // engines warm up before they report ready
    for (int64_t i = 0; i < bursts; i++) {
        be_idle();
        serve(iterations);
    }
    printf("{\"type\":\"final\",\"rank\":0,\"tgid\":%d,\"iterations\":%ju,\"idle_ns\":%jd,\"step_ns\":%jd,", (int)getpid(),
           (uintmax_t)(outputs - 1), (intmax_t)idle_ns, (intmax_t)(last_output_ns - first_output_ns - idle_ns));
    counted_json(stdout);
    fputs(",", stdout);
    usage_json(stdout);
    puts("}");
    return 0;
}
