// SPDX-License-Identifier: Apache-2.0
//
// The stand-in training job, shaped like PyTorch's DistributedDataParallel: a parent, rank processes, in each a step
// thread, an autograd thread, a NCCL watchdog, a pin-memory thread, and DataLoader worker processes.
#ifndef STANDIN_TRAINER_H
#define STANDIN_TRAINER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl/api.h"
#include "runtime/api.h"

// Every flag of --help, in the same order.
struct settings {
    int64_t ranks, steps, seed;
    int rank_from, sync, quiet, keep_going;
    int64_t forward_kernels, backward_kernels, optimizer_kernels, kernel_us, backward_kernel_us, optimizer_kernel_us;
    double jitter_percent;
    int64_t buckets, bucket_bytes, collective_us;
    int64_t loader_workers, loader_compute_us, loader_sleep_us, loader_read_bytes, prefetch, batch_bytes;
    int loader_direct;
    const char *loader_file;
    const char *loader_connect;
    int64_t loader_fetch_bytes;
    int64_t host_us, pace_us, sync_every, allocate_every, evaluate_every, watchdog_ms;
    int64_t touch_bytes, map_bytes;
    const char *map_file;
    int fault, fault_holder;
    int64_t fault_from_step, fault_to_step, fault_every, fault_rank, fault_us, fault_threads, fault_bytes;
    double fault_factor;
    int64_t rank, world_size, local_rank;
    const char *id_file;
};
enum { RANK_FROM_ENV, RANK_FROM_NCCL };
enum { SYNC_SPIN, SYNC_YIELD, SYNC_BLOCK };
enum { HOLDER_SLEEPS, HOLDER_BURNS };
enum fault {
    FAULT_NONE,
    FAULT_LOADER_COMPUTE,
    FAULT_LOADER_SLEEP,
    FAULT_LOADER_READ,
    FAULT_LOCK,
    FAULT_SPINNERS,
    FAULT_COPY,
    FAULT_GPU,
    FAULT_STRAGGLER,
    FAULT_HANG,
    FAULT_PHASE,
    FAULT_OOM,
    FAULT_OOM_RETRY,
    FAULT_HOST,
    FAULT_SWITCHES,
    FAULT_CRASH,
    FAULT_LEAK,
    FAULT_CHURN,
    FAULT_RECAPTURE,
    FAULT_ABANDON,
    FAULT_COLD,
};

extern struct settings settings;

// trainer_flags.c: ends the program when they are wrong.
void settings_read(int argc, char **argv);

// trainer_rank.c: one rank from beginning to end.
struct place {
    int rank, world_size, local_rank;
    int id_pipe[2]; // rank 0 writes the NCCL id for each of the others; -1: settings.id_file
};
int rank_main(const struct place *place);

// trainer_data.c: DataLoader workers and the batches they make.
void data_start_workers(int rank);
// The next batch in order, in the shared memory of the worker that made it; blocks in read(2) of its pipe.
const char *data_receive(void);
// The batch is used: its worker may make the next one.
void data_release(void);
// Makes a batch in this thread, for --loader-workers=0.
void data_make(char *batch, int rank, uint64_t number);
// Reads this much of --loader-file, at a place that follows from the number.
void data_read(int64_t bytes, uint64_t number);

// trainer_fetch.c: asks the server of --loader-connect for this much and waits for all of it. One connection a thread.
void data_fetch(int64_t bytes);

// trainer_threads.c: the other threads of a rank and how the step thread meets them.
struct rank {
    struct place place;
    ncclComm_t comm;
    cudaStream_t nccl_stream;
    char *device_batch, *device_gradients, *device_loss;
    float *host_loss;
    cudaGraphExec_t graph;
    uint64_t random;
    _Atomic uint64_t steps_done;
};
void threads_start(struct rank *rank);
// Before the communicator is destroyed and the calls are told: the watchdog makes none from here on.
void watchdog_look_no_more(void);
// One batch in pinned memory, from the pin-memory thread; give it back when it is copied.
char *pinned_take(int rank);
void pinned_give(char *batch);
// A thread that outlives the rank's work.
void thread_start(const char *name, void *(*body)(void *), struct rank *rank);
// Has the autograd thread launch the backward pass of this step, and waits until it has.
void backward_run(uint64_t step);
// The event that bucket `bucket` of the last backward pass is reduced.
cudaEvent_t bucket_done(int bucket);

// trainer_step.c
void step_prepare(struct rank *rank);
void step_run(struct rank *rank, uint64_t step);
// What the autograd thread does.
void step_backward(struct rank *rank, uint64_t step, cudaEvent_t *ready, cudaEvent_t *done);
void print_final(const struct rank *rank);

// trainer_memory.c
void memory_prepare(void);
void memory_use(uint64_t step);

// trainer_fault.c: --fault
bool fault_is_on(enum fault fault, int rank, uint64_t step);
void fault_prepare(struct rank *rank);
void fault_before_step(struct rank *rank, uint64_t step);
void fault_before_backward(struct rank *rank, uint64_t step);
// While the batch of this step is made.
void fault_in_batch(int rank, uint64_t step);
// So many kernels as an executable graph, captured on a stream of its own: trainer_step.c.
cudaGraphExec_t captured(int64_t kernels);
// How many kernels the step launches where the flags say `kernels`.
int64_t fault_kernels(const struct rank *rank, uint64_t step, int64_t kernels);

// Uses the CPU for this long, as Python and decoding do; slower when others take the CPU.
void burn_us(int64_t us);

#endif
