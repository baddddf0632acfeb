// SPDX-License-Identifier: Apache-2.0
//
// The stand-in training job, shaped like PyTorch's DistributedDataParallel: a parent and rank processes. Each rank has a
// step thread, an autograd thread, a NCCL watchdog, a pin-memory thread, and DataLoader worker processes.
//
// The files, from the bottom up; each calls only those above it:
//     flags.c, host.c, source.c, memory.c, kernels.c, stop.c, fault.c, data.c, backward.c, threads.c, step.c, rank.c, trainer.c
#ifndef STANDIN_TRAINER_H
#define STANDIN_TRAINER_H

#include <signal.h>
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

// flags.c. Ends the program with an error message when a flag is wrong.
void settings_read(int argc, char **argv);

struct place {
    int rank, world_size, local_rank;
    int id_pipe[2]; // rank 0 writes the NCCL id for each of the others; -1: settings.id_file is used instead
};

struct rank {
    struct place place;
    ncclComm_t comm;
    cudaStream_t nccl_stream;
    char *device_batch, *device_gradients, *device_loss;
    float *host_loss;
    cudaGraphExec_t graph;
    uint64_t random;
    _Atomic uint64_t steps_done;
    bool is_on_terminal;
};

// host.c
// Uses this much CPU time, as Python and decoding do; takes longer when other programs take the CPU.
void burn_us(int64_t us);
void sleep_us(int64_t us);
// A thread that is never joined.
void thread_start(const char *name, void *(*body)(void *), struct rank *rank);

// source.c
// Reads this many bytes of --loader-file, at a place that follows from the number.
void source_read(int64_t bytes, uint64_t number);
// Requests this many bytes from the server of --loader-connect and waits for all of them.
void source_fetch(int64_t bytes);

// memory.c
void memory_prepare(void);
void memory_use(uint64_t step);

// kernels.c
extern const dim3 kernel_grid, kernel_block;
// The length of a kernel: the flag's value, plus or minus the jitter.
uint64_t kernel_length_ns(struct rank *rank, int64_t us);
void kernel_launch(struct rank *rank, int64_t us);
// Launches kernels with --host-us of CPU time before each.
void kernels_launch(struct rank *rank, int64_t kernels, int64_t us);
// An executable graph of this many kernels, captured on a stream of its own.
cudaGraphExec_t kernels_captured(int64_t kernels);

// stop.c
extern volatile sig_atomic_t must_stop;
// SIGTERM and SIGINT set must_stop; a second one ends the process.
void stop_on_signals(void);
// Prints the final line; only the first call does anything.
void print_final(const struct rank *rank);

// fault.c: --fault
bool fault_is_on(enum fault fault, int rank, uint64_t step);
void fault_prepare(struct rank *rank);
void fault_before_step(struct rank *rank, uint64_t step);
void fault_before_backward(struct rank *rank, uint64_t step);
// Called while the batch of this step is made.
void fault_in_batch(int rank, uint64_t step);
// The number of kernels to launch where the flags set `kernels`.
int64_t fault_kernels(const struct rank *rank, uint64_t step, int64_t kernels);

// data.c: DataLoader workers and their batches.
void data_start_workers(int rank);
// The next batch in order, in the shared memory of the worker that made it. Blocks in read(2) of the worker's pipe.
const char *data_receive(void);
// Lets the worker of the batch received last make another one.
void data_release(void);
// Makes a batch in this thread, for --loader-workers=0.
void data_make(char *batch, int rank, uint64_t number);

// backward.c. ready[b], done[b]: events before and after the all-reduce of bucket b.
void backward_launch(struct rank *rank, uint64_t step, cudaEvent_t *ready, cudaEvent_t *done);

// threads.c: the other threads of a rank, and how the step thread uses them.
void threads_start(struct rank *rank);
// After it the watchdog makes no more calls. For the end, before the communicator is destroyed and the calls are reported.
void watchdog_disable(void);
// A batch in pinned memory, from the pin-memory thread; to be given back with pinned_give() once it is copied.
char *pinned_take(int rank);
void pinned_give(char *batch);
// Lets the autograd thread launch the backward pass of this step, and waits until it has.
void backward_run(uint64_t step);
// The event after the all-reduce of a bucket in the last backward pass.
cudaEvent_t bucket_done(int bucket);

// step.c
void step_prepare(struct rank *rank);
void step_run(struct rank *rank, uint64_t step);

// rank.c: one rank from beginning to end.
int rank_main(const struct place *place);

#endif
