// SPDX-License-Identifier: Apache-2.0
//
// The kernel's statistics of this process's threads: ground truth for time on a CPU and time waiting for one.
#ifndef STANDIN_USAGE_H
#define STANDIN_USAGE_H

#include <stdint.h>
#include <stdio.h>

// CPU time of the calling thread.
int64_t thread_cpu_ns(void);
// Time that the calling thread was runnable without a CPU (field 2 of its schedstat); 0 on kernels without that file.
// Keeps a file descriptor, so only one thread of a process may call it.
int64_t thread_runnable_ns(void);
// Members "threads" and "majflt" of a JSON object, without the braces around them. The threads alive now, summed over
// those of one name:
//     wall_ns        since they were created, with the kernel's resolution of 10 ms
//     cpu_ns         on a CPU
//     run_delay_ns   runnable, without a CPU
//     nvcsw, nivcsw  voluntary and involuntary context switches
// majflt: major page faults of the process.
void usage_json(FILE *to);

#endif
