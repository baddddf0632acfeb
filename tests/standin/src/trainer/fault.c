// SPDX-License-Identifier: Apache-2.0
//
// --fault: a fault in a window of steps, with healthy steps before and after it. The step thread runs fault_before_step(), the
// autograd thread fault_before_backward(), the loader fault_in_batch(). The threads pt_holder, pt_spinner and pt_switcher exist
// for faults alone.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "program/counted.h"
#include "trainer/trainer.h"
#include "program/truth.h"

// The step thread takes it before each step. In the window the holder takes it first and holds it for --fault-us.
static pthread_mutex_t step_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t may_hold, is_held;
static _Atomic uint32_t are_busy; // whether the spinners, or the switchers, are active
static char *copied_to, *copied_from;
enum { LEAKS = 1 << 14 };
static void *leaked[LEAKS];
static int leaks;
static cudaStream_t abandoned;

// With --fault-every the window repeats.
static bool is_in_window(uint64_t step)
{
    uint64_t from = (uint64_t)settings.fault_from_step, to = (uint64_t)settings.fault_to_step;

    if (from == 0 || step < from)
        return false;
    if (settings.fault_every > 0)
        step = from + (step - from) % (uint64_t)settings.fault_every;
    return to == 0 || step < to;
}

bool fault_is_on(enum fault fault, int rank, uint64_t step)
{
    return settings.fault == (int)fault && (settings.fault_rank < 0 || settings.fault_rank == rank) && is_in_window(step);
}

// Whether this rank will have the fault.
static bool is_due(enum fault fault, const struct rank *rank)
{
    return settings.fault_from_step > 0 && fault_is_on(fault, rank->place.rank, (uint64_t)settings.fault_from_step);
}

static void *hold(void *argument)
{
    (void)argument;
    for (;;) {
        while (sem_wait(&may_hold) != 0)
            continue;
        pthread_mutex_lock(&step_lock);
        sem_post(&is_held);
        if (settings.fault_holder == HOLDER_BURNS)
            burn_us(settings.fault_us);
        else
            sleep_us(settings.fault_us);
        pthread_mutex_unlock(&step_lock);
    }
    return NULL;
}

static void *be_busy(void *argument)
{
    (void)argument;
    for (;;)
        if (!atomic_load(&are_busy))
            sleep_while(&are_busy, 0, 0);
        else if (settings.fault == FAULT_SPINNERS)
            wait_one_turn(WAIT_SPIN);
        else
            sleep_us(settings.fault_us);
    return NULL;
}

void fault_prepare(struct rank *rank)
{
    if (is_due(FAULT_LOCK, rank)) {
        sem_init(&may_hold, 0, 0);
        sem_init(&is_held, 0, 0);
        thread_start("pt_holder", hold, rank);
    }
    if (is_due(FAULT_SPINNERS, rank))
        for (int64_t i = 0; i < settings.fault_threads; i++)
            thread_start("pt_spinner", be_busy, rank);
    if (is_due(FAULT_SWITCHES, rank))
        for (int64_t i = 0; i < settings.fault_threads; i++)
            thread_start("pt_switcher", be_busy, rank);
    if (is_due(FAULT_COPY, rank)) {
        copied_from = calloc(1, (size_t)settings.fault_bytes);
        if (!copied_from || CALL(cudaMalloc, (void **)&copied_to, (size_t)settings.fault_bytes) != cudaSuccess) {
            fprintf(stderr, "trainer: no memory for --fault-bytes\n");
            exit(1);
        }
    }
}

static void take_step_lock(struct rank *rank, uint64_t step)
{
    if (fault_is_on(FAULT_LOCK, rank->place.rank, step)) {
        sem_post(&may_hold);
        while (sem_wait(&is_held) != 0)
            continue;
    }
    pthread_mutex_lock(&step_lock);
    pthread_mutex_unlock(&step_lock);
}

static void set_busy(bool is_on)
{
    if (atomic_load(&are_busy) == is_on)
        return;
    atomic_store(&are_busy, is_on);
    wake_all(&are_busy);
}

// Allocates more than is free, as a batch that is too large does. Then the rank ends, or retries with less.
static void run_out_of_memory(struct rank *rank, bool may_retry)
{
    size_t free_bytes = 0, total_bytes = 0;
    void *memory = NULL;

    CALL(cudaMemGetInfo, &free_bytes, &total_bytes);
    if (CALL(cudaMalloc, &memory, free_bytes + 1) != cudaSuccess && !may_retry) {
        fprintf(stderr, "trainer: rank %d: CUDA out of memory: %zu bytes requested, %zu free\n", rank->place.rank,
                free_bytes + 1, free_bytes);
        print_final(rank);
        _exit(1);
    }
    CALL(cudaGetLastError);
    if (CALL(cudaMalloc, &memory, free_bytes / 2) == cudaSuccess)
        CALL(cudaFree, memory);
}

// Copies to an invalid address, and aborts as frameworks do on an error in a destructor.
static void crash(struct rank *rank)
{
    char copied[8] = "";

    if (CALL(cudaMemcpy, NULL, copied, sizeof(copied), cudaMemcpyHostToDevice) != cudaSuccess)
        fprintf(stderr, "trainer: rank %d: uncaught CUDA error\n", rank->place.rank);
    print_final(rank);
    abort();
}

// Allocates in every step without freeing. All of it is freed at the end of the window, so that another window can follow.
static void leak(bool is_on)
{
    if (is_on && leaks < LEAKS && CALL(cudaMalloc, &leaked[leaks], (size_t)settings.fault_bytes) == cudaSuccess)
        leaks++;
    while (!is_on && leaks > 0)
        CALL(cudaFree, leaked[--leaks]);
}

// Makes calls of a driver function use CPU time, as mapping memory and loading code do.
static void set_call_cost(const char *function, bool is_on)
{
    delay_calls(function, is_on ? settings.fault_us * 1000 : 0);
}

static void churn(void)
{
    void *memory;

    for (int64_t i = 0; i < settings.fault_threads; i++) {
        if (CALL(cudaMalloc, &memory, (size_t)settings.fault_bytes) != cudaSuccess)
            return;
        CALL(cudaMemsetAsync, memory, 0, (size_t)settings.fault_bytes, NULL);
        CALL(cudaFree, memory);
    }
}

// Begins a capture and does not end it, on a stream that nothing else uses. The job continues.
static void abandon(bool is_on)
{
    cudaGraph_t graph = NULL;

    if (is_on && !abandoned) {
        CALL(cudaStreamCreateWithFlags, &abandoned, cudaStreamNonBlocking);
        CALL(cudaStreamBeginCapture, abandoned, cudaStreamCaptureModeThreadLocal);
    } else if (!is_on && abandoned) {
        if (CALL(cudaStreamEndCapture, abandoned, &graph) == cudaSuccess)
            CALL(cudaGraphDestroy, graph);
        CALL(cudaStreamDestroy, abandoned);
        abandoned = NULL;
    }
}

// One graph for all steps, or a new one for each.
static void replay(bool is_recaptured)
{
    static cudaGraphExec_t exec;

    if (exec && is_recaptured) {
        CALL(cudaGraphExecDestroy, exec);
        exec = NULL;
    }
    if (!exec)
        exec = kernels_captured(settings.fault_threads);
    CALL(cudaGraphLaunch, exec, NULL);
}

// Faults in how the job uses the GPU.
static void gpu_fault(struct rank *rank, uint64_t step)
{
    int self = rank->place.rank;

    switch (settings.fault) {
    case FAULT_LEAK:
        leak(fault_is_on(FAULT_LEAK, self, step));
        break;
    case FAULT_CHURN:
        set_call_cost("cuMemAlloc", fault_is_on(FAULT_CHURN, self, step));
        if (fault_is_on(FAULT_CHURN, self, step))
            churn();
        break;
    case FAULT_RECAPTURE:
        set_call_cost("cuGraphInstantiate", fault_is_on(FAULT_RECAPTURE, self, step));
        replay(fault_is_on(FAULT_RECAPTURE, self, step));
        break;
    case FAULT_ABANDON:
        abandon(fault_is_on(FAULT_ABANDON, self, step));
        break;
    case FAULT_COLD:
        set_call_cost("cuLaunchKernel", fault_is_on(FAULT_COLD, self, step));
        break;
    }
}

static void set_slow(bool is_on)
{
    static bool is_slow;

    if (is_slow != is_on)
        slow_the_gpu(is_on ? settings.fault_factor : 1);
    is_slow = is_on;
}

void fault_before_step(struct rank *rank, uint64_t step)
{
    int self = rank->place.rank;

    set_slow(fault_is_on(FAULT_GPU, self, step));
    set_busy(fault_is_on(FAULT_SPINNERS, self, step) || fault_is_on(FAULT_SWITCHES, self, step));
    take_step_lock(rank, step);
    gpu_fault(rank, step);
    if (fault_is_on(FAULT_HOST, self, step))
        burn_us(settings.fault_us);
    if (fault_is_on(FAULT_COPY, self, step) &&
        CALL(cudaMemcpy, copied_to, copied_from, (size_t)settings.fault_bytes, cudaMemcpyHostToDevice) == cudaSuccess)
        counted_copy(H2D, (uint64_t)settings.fault_bytes);
    if (step == (uint64_t)settings.fault_from_step &&
        (fault_is_on(FAULT_OOM, self, step) || fault_is_on(FAULT_OOM_RETRY, self, step)))
        run_out_of_memory(rank, settings.fault == FAULT_OOM_RETRY);
    if (fault_is_on(FAULT_CRASH, self, step))
        crash(rank);
}

void fault_before_backward(struct rank *rank, uint64_t step)
{
    while (fault_is_on(FAULT_HANG, rank->place.rank, step))
        pause();
    if (fault_is_on(FAULT_STRAGGLER, rank->place.rank, step))
        sleep_us(settings.fault_us);
}

void fault_in_batch(int rank, uint64_t step)
{
    if (fault_is_on(FAULT_LOADER_READ, rank, step))
        source_read(settings.fault_bytes, step);
    if (fault_is_on(FAULT_LOADER_SLEEP, rank, step))
        sleep_us(settings.fault_us);
    if (fault_is_on(FAULT_LOADER_COMPUTE, rank, step))
        burn_us(settings.fault_us);
}

int64_t fault_kernels(const struct rank *rank, uint64_t step, int64_t kernels)
{
    if (fault_is_on(FAULT_PHASE, rank->place.rank, step))
        return (int64_t)((double)kernels * settings.fault_factor);
    return kernels;
}
