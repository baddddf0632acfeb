// SPDX-License-Identifier: Apache-2.0
//
// What the kernel says about the threads of this process: the truth for their time on the CPU and waiting for one.
#ifndef STANDIN_USAGE_H
#define STANDIN_USAGE_H

#include <stdint.h>
#include <stdio.h>

// CPU time of the calling thread.
int64_t thread_cpu_ns(void);
// Time that the calling thread was ready to run and had no CPU (field 2 of its schedstat); 0 on kernels without it.
// Keeps a descriptor: for one thread of a process.
int64_t thread_runnable_ns(void);
// Members "threads" and "majflt" of a JSON object, without the braces around them. The threads alive now, summed over
// those of one name:
//     wall_ns        since they were made (the kernel knows it to 10 ms)
//     cpu_ns         on a CPU
//     run_delay_ns   ready to run, without a CPU
//     nvcsw, nivcsw  switches: they gave up the CPU, it was taken from them
// majflt: pages that the process had to wait for.
void usage_json(FILE *to);

#endif
