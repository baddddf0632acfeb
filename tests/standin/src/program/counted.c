// SPDX-License-Identifier: Apache-2.0
#include "program/counted.h"

#include <stdatomic.h>

#include "runtime/api.h"

#define NAME(function) #function,
static const char *const names[] = {COUNTED_RUNTIME(NAME) COUNTED_DRIVER(NAME) COUNTED_NCCL(NAME)};
#undef NAME
static const char *const direction_names[] = {"h2h", "h2d", "d2h", "d2d"};

static struct {
    atomic_uint_fast64_t calls, errors, total_ns, bytes;
} count[COUNTED_CALLS];
static uint64_t setup_calls[COUNTED_CALLS];
static atomic_uint_fast64_t copied[DIRECTIONS];

int counted_has_times = 1;

void counted(enum counted_call call, int64_t started_ns, int result)
{
    if (counted_has_times)
        atomic_fetch_add_explicit(&count[call].total_ns, (uint64_t)(now_ns() - started_ns), memory_order_relaxed);
    // "Not ready" is a result, not an error.
    if (result != 0 && result != cudaErrorNotReady)
        atomic_fetch_add_explicit(&count[call].errors, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&count[call].calls, 1, memory_order_relaxed);
}

void counted_copy(enum direction direction, uint64_t bytes)
{
    atomic_fetch_add_explicit(&copied[direction], bytes, memory_order_relaxed);
}

void counted_collective(enum counted_call call, uint64_t bytes)
{
    atomic_fetch_add_explicit(&count[call].bytes, bytes, memory_order_relaxed);
}

uint64_t counted_total(void)
{
    uint64_t total = 0;

    for (int i = 0; i < COUNTED_CALLS; i++)
        total += atomic_load(&count[i].calls);
    return total;
}

void counted_end_setup(void)
{
    for (int i = 0; i < COUNTED_CALLS; i++) {
        setup_calls[i] += atomic_exchange(&count[i].calls, 0);
        atomic_store(&count[i].errors, 0);
        atomic_store(&count[i].total_ns, 0);
    }
}

static void print_calls(FILE *to, const char *api, int first, int end)
{
    const char *separator = "";

    fprintf(to, "\"%s\":{", api);
    for (int i = first; i < end; i++) {
        if (atomic_load(&count[i].calls) == 0)
            continue;
        fprintf(to, "%s\"%s\":{\"count\":%ju,\"errors\":%ju,\"sum_ns\":%ju}", separator, names[i],
                (uintmax_t)atomic_load(&count[i].calls), (uintmax_t)atomic_load(&count[i].errors),
                (uintmax_t)atomic_load(&count[i].total_ns));
        separator = ",";
    }
    fputs("}", to);
}

void counted_json(FILE *to)
{
    const char *separator = "";

    fputs("\"calls\":{", to);
    print_calls(to, "runtime", 0, CALL_cuInit);
    fputs(",", to);
    print_calls(to, "driver", CALL_cuInit, CALL_ncclGetUniqueId);
    fputs(",", to);
    print_calls(to, "nccl", CALL_ncclGetUniqueId, COUNTED_CALLS);
    fputs("},\"bytes\":{", to);
    for (int i = 0; i < DIRECTIONS; i++)
        fprintf(to, "%s\"%s\":%ju", i ? "," : "", direction_names[i], (uintmax_t)atomic_load(&copied[i]));
    fputs("},\"nccl_bytes\":{", to);
    for (int i = CALL_ncclGetUniqueId; i < COUNTED_CALLS; i++) {
        if (atomic_load(&count[i].bytes) == 0)
            continue;
        fprintf(to, "%s\"%s\":%ju", separator, names[i], (uintmax_t)atomic_load(&count[i].bytes));
        separator = ",";
    }
    fputs("},\"setup\":{", to);
    separator = "";
    for (int i = 0; i < COUNTED_CALLS; i++) {
        if (setup_calls[i] == 0)
            continue;
        fprintf(to, "%s\"%s\":%ju", separator, names[i], (uintmax_t)setup_calls[i]);
        separator = ",";
    }
    fputs("}", to);
}
