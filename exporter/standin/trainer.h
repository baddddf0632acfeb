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

#include "nccl_api.h"
#include "runtime_api.h"

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
    int64_t host_us, pace_us, sync_every, allocate_every, evaluate_every, watchdog_ms;
    int64_t straggler_rank, straggler_us, hang_rank, hang_step;
    double slow_factor;
    int64_t slow_from_step, slow_to_step;
    int64_t rank, world_size, local_rank;
    const char *id_file;
};
enum { RANK_FROM_ENV, RANK_FROM_NCCL };
enum { SYNC_SPIN, SYNC_YIELD, SYNC_BLOCK };

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
void data_make(char *batch, uint64_t number);

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
// One batch in pinned memory, from the pin-memory thread; give it back when it is copied.
char *pinned_take(void);
void pinned_give(char *batch);
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

// Pseudo-random numbers: splitmix64, so that every number follows from the seed and its place alone.
uint64_t random_of(uint64_t seed, uint64_t place);
// Uses the CPU for this long, as Python and decoding do; slower when others take the CPU.
void burn_us(int64_t us);

#endif
