// SPDX-License-Identifier: Apache-2.0
//
// What the stand-in GPU offers beyond NVIDIA's interfaces: how long a kernel takes, and the true end of work.
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
//     STANDIN_MEMORY_BYTES   memory of each device; what exceeds it fails with code 2 (80 GiB)
//     STANDIN_KERNEL_NS      length of kernels that are not timed kernels (5000)
//     STANDIN_GPU_SLOWDOWN   factor on every length: kernels, copies, collectives (1.0)
//     STANDIN_COPY_BYTES     copies up to this length really move their bytes; longer ones only take time (65536)
//     STANDIN_NCCL_NS        length of every collective, 0: by its bytes (0)
//     STANDIN_SPIN_US        a wait that blocks spins this long first (0)
//     STANDIN_POLL_US        instead of blocking in poll(), a wait sleeps this long between two looks; 0: it blocks (0)
//     STANDIN_NVML_STATE     a file that says what libnvidia-ml.so.1 tells, read at each call: nvml/state.h has its syntax
//     STANDIN_FAIL           errors on demand: name:code:call[,...], the call counted from 1 in each process, or * for
//                            every call, e.g. cudaMalloc:2:3,ncclAllReduce:2:*. The name is that of the exported
//                            function without _v2, _ptsz, _ptds.
#ifndef STANDIN_STANDIN_H
#define STANDIN_STANDIN_H

#include <stdint.h>

struct event;
struct stream;

// The driver exports these; find them with dlsym(), as the runtime and NCCL do. In a program, standin_timed_kernel()
// of truth.h does it.
extern char standin_timed_kernel_mark;
extern char standin_collective_kernel_mark;

// Factor on every length from now on, in this process.
void standin_set_slowdown(double factor);
// The length with the factor applied.
int64_t standin_slowed_ns(int64_t duration_ns);
// From here on each call of a function of the driver, named without _v2, takes so much CPU time more; 0: none.
void standin_set_delay(const char *function, int64_t delay_ns);
// When the work recorded by the event ends, CLOCK_MONOTONIC; -1 while that is not known or nothing was recorded.
int64_t standin_event_end_ns(struct event *event);
// When all work enqueued on the stream so far ends; -1 while that is not known.
int64_t standin_stream_end_ns(struct stream *stream);

// libnccl.so.2 and libtorch_cuda.so export this: the length of each collective enqueued from now on, 0: by its bytes.
void standin_set_collective_ns(uint64_t duration_ns);

#endif
