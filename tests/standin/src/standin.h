// SPDX-License-Identifier: Apache-2.0
//
// Functions and settings of the stand-in GPU beyond NVIDIA's interfaces: the length of kernels, and the true end of work.
//
// Length of a kernel. Launch the function `standin_timed_kernel` and let the first argument be a uint64_t of
// nanoseconds:
//     uint64_t duration_ns = 500000;
//     void *arguments[] = {&duration_ns};
//     cudaLaunchKernel((void *)standin_timed_kernel(), grid, block, arguments, 0, stream);
// Any other function takes STANDIN_KERNEL_NS.
//
// Environment, read once when a library is loaded:
//     STANDIN_DEVICES        number of devices (8)
//     STANDIN_MEMORY_BYTES   memory of each device; allocations beyond it fail with code 2 (80 GiB)
//     STANDIN_KERNEL_NS      length of kernels that are not timed kernels (5000)
//     STANDIN_GPU_SLOWDOWN   factor on every length: kernels, copies, collectives (1.0)
//     STANDIN_COPY_BYTES     copies up to this length really move their bytes; longer ones only take time (65536)
//     STANDIN_NCCL_NS        length of every collective, 0: derived from its bytes (0)
//     STANDIN_SPIN_US        how long a blocking wait spins before it blocks (0)
//     STANDIN_POLL_US        a blocking wait sleeps for this long between two checks instead of blocking in poll(); 0: off (0)
//     STANDIN_NVML_STATE     the file that sets what libnvidia-ml.so.1 reports, read at each call; syntax: nvml/state.h
//     STANDIN_FAIL           errors on demand: name:code:call[,...], the call counted from 1 in each process, or * for
//                            every call, e.g. cudaMalloc:2:3,ncclAllReduce:2:*. The name is that of the exported
//                            function without _v2, _ptsz, _ptds.
#ifndef STANDIN_STANDIN_H
#define STANDIN_STANDIN_H

#include <stdint.h>

struct event;
struct stream;

// Exported by the driver; to be found with dlsym(), as the runtime and NCCL do. In a program, standin_timed_kernel() of
// program/truth.h does that.
extern char standin_timed_kernel_mark;
extern char standin_collective_kernel_mark;

// Factor on every length from now on, in this process.
void standin_set_slowdown(double factor);
// The length with the factor applied.
int64_t standin_slowed_ns(int64_t duration_ns);
// Every later call of a driver function, named without _v2, uses this much CPU time more; 0: none.
void standin_set_delay(const char *function, int64_t delay_ns);
// The end of the work recorded by the event, CLOCK_MONOTONIC; -1 while it is unknown, or when nothing was recorded.
int64_t standin_event_end_ns(struct event *event);
// The end of all work enqueued on the stream so far; -1 while it is unknown.
int64_t standin_stream_end_ns(struct stream *stream);

// Exported by libnccl.so.2 and libtorch_cuda.so: the length of every collective enqueued from now on, 0: derived from its bytes.
void standin_set_collective_ns(uint64_t duration_ns);

#endif
