// SPDX-License-Identifier: Apache-2.0
//
// Heat in a plate of which two GPUs have a half each: one process, with a thread for each GPU. The rows at the border are
// computed first and copied to the other GPU while the rest is computed. Both threads meet before the next step.
#include "inside.h"

#include <pthread.h>

namespace {

constexpr int halves = 2, border_kernels = 2, inner_kernels = 5;
constexpr double border_seconds = 120e-6, inner_seconds = 620e-6;
constexpr size_t border_bytes = 256 << 10, results_bytes = 4096;

pthread_barrier_t all_copied, all_done;

struct Half {
    int device = 0;
    void *plate = nullptr, *border = nullptr, *change = nullptr, *result = nullptr;
    cudaStream_t copies = nullptr;
    cudaEvent_t computed = nullptr, copied = nullptr, done = nullptr;

    void set_up(int number)
    {
        device = number;
        check(cudaSetDevice(device));
        check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
        check(cudaMalloc(&plate, 4UL << 30));
        check(cudaMalloc(&border, most * border_bytes));
        check(cudaMalloc(&change, results_bytes));
        check(cudaHostAlloc(&result, results_bytes, 0));
        check(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
        for (cudaEvent_t *event : {&computed, &copied, &done})
            check(cudaEventCreateWithFlags(event, cudaEventBlockingSync | cudaEventDisableTiming));
    }

    // A step, up to the point where the other half may use what it has got.
    void step(const Half &other, double scale, size_t copied_bytes)
    {
        for (int i = 0; i < border_kernels; i++)
            launch(border_seconds * scale);
        check(cudaEventRecord(computed, nullptr));
        check(cudaStreamWaitEvent(copies, computed, 0));
        check(cudaMemcpyPeerAsync(other.border, other.device, plate, device, copied_bytes, copies));
        check(cudaEventRecord(copied, copies));
        for (int i = 0; i < inner_kernels; i++)
            launch(inner_seconds * scale);
        check(cudaEventSynchronize(copied));
        pthread_barrier_wait(&all_copied);
    }

    // The largest change of all places, which says whether the heat has settled.
    void finish()
    {
        check(cudaMemcpyAsync(result, change, sizeof(double), cudaMemcpyDeviceToHost, nullptr));
        check(cudaEventRecord(done, nullptr));
        check(cudaEventSynchronize(done));
        pthread_barrier_wait(&all_done);
    }
};

Half half[halves];
std::atomic<double> scale_now{1};
std::atomic<size_t> bytes_now{border_bytes};

void run_second()
{
    check(cudaSetDevice(half[1].device));
    for (;;) {
        half[1].step(half[0], scale_now, bytes_now);
        half[1].finish();
    }
}

} // namespace

int main()
{
    Inside inside(border_kernels * border_seconds + inner_kernels * inner_seconds, border_bytes);
    Log log;

    signal(SIGTERM, end);
    pthread_barrier_init(&all_copied, nullptr, halves);
    pthread_barrier_init(&all_done, nullptr, halves);
    for (int i = halves - 1; i >= 0; i--)
        half[i].set_up(i);
    inside.start(half[0].plate);
    std::thread(run_second).detach();
    for (long step = 0;; step++) {
        int64_t start_ns = now_ns();

        inside.look(step);
        scale_now = inside.scale;
        bytes_now = inside.batch();
        half[0].step(half[1], scale_now, bytes_now);
        half[0].finish();
        inside.host();
        log.add(step, start_ns, !inside.is_on());
    }
}
