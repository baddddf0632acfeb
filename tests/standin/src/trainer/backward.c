// SPDX-License-Identifier: Apache-2.0
//
// The backward pass, launched by the autograd thread: the kernels of each gradient bucket; the all-reduce of a bucket overlaps
// with the kernels of the next.
#include "program/counted.h"
#include "trainer/trainer.h"

void backward_launch(struct rank *rank, uint64_t step, cudaEvent_t *ready, cudaEvent_t *done)
{
    size_t floats = (size_t)settings.bucket_bytes / 4;

    int64_t all = fault_kernels(rank, step, settings.backward_kernels);

    fault_before_backward(rank, step);
    for (int64_t bucket = 0; bucket < settings.buckets; bucket++) {
        char *gradients = rank->device_gradients + bucket * settings.bucket_bytes;
        // Bucket b has the kernels from b * n / buckets to (b + 1) * n / buckets.
        int64_t kernels = (bucket + 1) * all / settings.buckets - bucket * all / settings.buckets;

        for (int64_t i = 0; i < kernels; i++)
            kernel_launch(rank, settings.backward_kernel_us);
        CALL(cudaEventRecord, ready[bucket], NULL);
        CALL(cudaStreamWaitEvent, rank->nccl_stream, ready[bucket], 0);
        if (CALL(ncclAllReduce, gradients, gradients, floats, ncclFloat32, ncclSum, rank->comm, rank->nccl_stream) ==
            ncclSuccess)
            counted_collective(CALL_ncclAllReduce, floats * 4);
        CALL(cudaEventRecord, done[bucket], rank->nccl_stream);
    }
}
