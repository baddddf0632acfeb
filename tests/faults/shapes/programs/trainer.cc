// SPDX-License-Identifier: Apache-2.0
//
// A training job in C++: two threads make batches, the main thread launches kernels and reads the loss in each step.
#include "inside.h"

namespace {

constexpr int kernels = 80, loaders = 2, ahead = 4;
constexpr double kernel_seconds = 300e-6, batch_seconds = 8e-3;
constexpr size_t usual_bytes = 1 << 20;

// A queue of batches, which threads fill.
class Loader {
public:
    void start()
    {
        for (int i = 0; i < loaders; i++)
            std::thread(&Loader::load, this).detach();
    }

    void take()
    {
        std::unique_lock<std::mutex> lock(mutex);

        changed.wait(lock, [this] { return ready > 0; });
        ready--;
        changed.notify_all();
    }

private:
    void load()
    {
        for (;;) {
            double start = now_seconds();

            compute_for(batch_seconds);
            disturb(start);
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this] { return ready < ahead; });
            ready++;
            changed.notify_all();
        }
    }

    void disturb(double start)
    {
        Fault fault = read_fault();
        double left = start + loaders * usual_seconds * (1 + fault.share) - now_seconds();

        if (fault.kind == "worker-sleeps")
            sleep_for(left);
        else if (fault.kind == "worker-computes")
            compute_for(left);
    }

    std::mutex mutex;
    std::condition_variable changed;
    int ready = 0;
};

} // namespace

int main()
{
    void *from_host, *batch, *loss, *result;
    Loader loader;
    Inside inside(kernels * kernel_seconds, usual_bytes);
    Log log;

    signal(SIGTERM, end);
    check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    check(cudaHostAlloc(&from_host, most * usual_bytes, 0));
    check(cudaMalloc(&batch, 4UL << 30));
    check(cudaMalloc(&loss, 4096));
    check(cudaHostAlloc(&result, 4096, 0));
    inside.start(batch);
    loader.start();
    for (long step = 0;; step++) {
        int64_t start_ns = now_ns();

        inside.look(step);
        loader.take();
        check(cudaMemcpyAsync(batch, from_host, inside.batch(), cudaMemcpyHostToDevice, nullptr));
        for (int i = 0; i < kernels; i++)
            launch(kernel_seconds * inside.scale);
        check(cudaMemcpyAsync(result, loss, sizeof(float), cudaMemcpyDeviceToHost, nullptr));
        check(cudaStreamSynchronize(nullptr));
        inside.host();
        log.add(step, start_ns, !inside.is_on());
    }
}
