// SPDX-License-Identifier: Apache-2.0
//
// A program's way to what only the stand-in knows: the function that is a timed kernel, and true ends (standin.h).
#ifndef STANDIN_TRUTH_H
#define STANDIN_TRUTH_H

#include <stdint.h>

#include "runtime/api.h"

// What to launch; its first argument is a uint64_t of nanoseconds. NULL when the driver is not the stand-in's.
const void *standin_timed_kernel(void);
int64_t true_stream_end_ns(cudaStream_t stream);
void slow_the_gpu(double factor);
// Every call of a function of the driver, named without _v2, takes so much CPU time more.
void delay_calls(const char *function, int64_t delay_ns);
void fix_collective_ns(uint64_t duration_ns);

#endif
