// SPDX-License-Identifier: Apache-2.0
//
// A program's access to the functions of standin.h: the timed kernel, and the true ends of work.
#ifndef STANDIN_TRUTH_H
#define STANDIN_TRUTH_H

#include <stdint.h>

#include "runtime/api.h"

// The kernel to launch; its first argument is a uint64_t of nanoseconds. NULL when the driver is not the stand-in's.
const void *standin_timed_kernel(void);
int64_t true_stream_end_ns(cudaStream_t stream);
void slow_the_gpu(double factor);
// Every later call of a driver function, named without _v2, uses this much CPU time more.
void delay_calls(const char *function, int64_t delay_ns);
void fix_collective_ns(uint64_t duration_ns);

#endif
