// SPDX-License-Identifier: Apache-2.0
//
// `calls`: makes exactly the calls on its command line, and reports what it measured.
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

// The handles and buffers of one thread.
struct context {
    int rank, ranks;
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraphExec_t graph;
    char *device, *other_device, *pinned, *pageable;
    // Memory that the freeing calls will free.
    void *kept[KEPT];
    int keeps;
    ncclComm_t comm, parent; // parent: what comm was split or shrunk from
    int comm_rank, comm_ranks;
};

// report.c: the final line.
void report_wait(uint64_t wall_ns, uint64_t delay_ns);
void report_jump(void);
void report_print(int rank);

// cuda.c. The buffers are as large as the largest order.
void cuda_prepare(struct context *context, size_t bytes, int64_t kernel_ns);
bool cuda_run(struct context *context, const struct order *order);
// Launches a kernel of this many nanoseconds.
void launch_timed(struct context *context, int64_t amount);

// host.c
bool is_host(const struct order *order);
bool host_run(const struct order *order);

// wait.c
bool is_wait(const struct order *order);
// The reason why this order cannot be run, NULL when it can.
const char *refusal_of_wait(const struct order *order, bool is_blocking, int processes);
bool wait_run(struct context *context, const struct order *order);

// nccl.c
enum comm_way { COMM_INIT_RANK, COMM_CONFIG, COMM_SCALABLE, COMM_ALL, COMM_SPLIT, COMM_SHRINK };
void nccl_make(struct context *context, enum comm_way way, const ncclUniqueId *id, int colors);
void nccl_make_all(ncclComm_t *comms, int ranks);
void nccl_drop(struct context *context);
bool nccl_run(struct context *context, const struct order *order);
bool is_nccl(const struct order *order);

#endif
