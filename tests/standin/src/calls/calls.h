// SPDX-License-Identifier: Apache-2.0
//
// `calls`: a program that makes exactly the calls it is told to, and says what it made.
#ifndef STANDIN_CALLS_H
#define STANDIN_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/counted.h"
#include "driver/api.h"
#include "nccl/api.h"
#include "runtime/api.h"

// One argument of the command line: name:count[:amount[:option]].
struct order {
    char name[48];
    int64_t count;
    int64_t amount; // bytes, or nanoseconds when written with ns, us, ms or s
    char option[16];
};

enum { KEPT = 4096 };

// What one thread works with.
struct hands {
    int rank, ranks;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraphExec_t graph;
    char *device, *other_device, *pinned, *pageable;
    // Allocated and not yet freed, for the calls that free.
    void *kept[KEPT];
    int keeps;
    ncclComm_t comm, parent; // parent: what comm was split or shrunk from
    int comm_rank, comm_ranks;
};

// calls_cuda.c. The buffers are as large as the largest order.
void cuda_prepare(struct hands *hands, size_t bytes, int64_t kernel_ns);
bool cuda_carry_out(struct hands *hands, const struct order *order);
// A kernel of this many nanoseconds.
void launch_timed(struct hands *hands, int64_t amount);
// calls_host.c
bool is_host(const struct order *order);
bool host_carry_out(const struct order *order);
// calls_wait.c
bool is_wait(const struct order *order);
// Why this order cannot be carried out, NULL: it can.
const char *refusal_of_wait(const struct order *order, bool is_blocking, int processes);
bool wait_carry_out(struct hands *hands, const struct order *order);
// Members "waits" and "jumps" of a JSON object, without the braces around them.
void waits_json(FILE *to);
// calls.c: prints the final line.
void report(int rank);
// calls_nccl.c
enum comm_way { COMM_INIT_RANK, COMM_CONFIG, COMM_SCALABLE, COMM_ALL, COMM_SPLIT, COMM_SHRINK };
void nccl_make(struct hands *hands, enum comm_way way, const ncclUniqueId *id, int colors);
void nccl_make_all(ncclComm_t *comms, int ranks);
void nccl_drop(struct hands *hands);
bool nccl_carry_out(struct hands *hands, const struct order *order);
bool is_nccl(const struct order *order);

#endif
