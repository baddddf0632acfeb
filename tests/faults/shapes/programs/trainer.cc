// SPDX-License-Identifier: Apache-2.0
//
// A training job in C++: two threads make batches, the main thread launches kernels and reads the loss in each step. What
// FAULT_FILE names is brought about here as in the Python programs (inside.py).
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "runtime/api.h"
#include "standin.h"
}

namespace {

constexpr int kernels = 80, loaders = 2, ahead = 4;
constexpr double kernel_seconds = 300e-6, batch_seconds = 8e-3;
constexpr size_t batch_bytes = 1 << 20, most_bytes = 4 * batch_bytes;
constexpr int recent_steps = 31;

int64_t now_ns()
{
    timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

double now_seconds()
{
    return static_cast<double>(now_ns()) / 1e9;
}

void sleep_for(double seconds)
{
    if (seconds > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void compute_for(double seconds)
{
    volatile double value = 1;

    for (double until = now_seconds() + seconds; now_seconds() < until;)
        for (int i = 0; i < 100; i++)
            value = value + sin(value);
}

void check(cudaError_t error)
{
    if (error) {
        fprintf(stderr, "trainer: %s\n", cudaGetErrorName(error));
        _exit(1);
    }
}

struct Fault {
    std::string kind;
    double share = 0;
};

std::string variable(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

Fault read_fault()
{
    static const std::string path = variable("FAULT_FILE");
    char text[512] = "", kind[64] = "";
    double share = 0;
    FILE *file = fopen(path.c_str(), "re");

    if (!file)
        return {};
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (sscanf(text, "{\"kind\": \"%63[^\"]\", \"share\": %lf", kind, &share) != 2)
        return {};
    return {kind, share};
}

std::atomic<double> usual_seconds;

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

// A thread that takes a lock when it is signalled, and holds it for a while.
class Holder {
public:
    void start()
    {
        std::thread(&Holder::hold, this).detach();
    }

    // Returns when the lock has been taken and released again.
    void meet(double seconds, bool computes)
    {
        {
            std::unique_lock<std::mutex> lock(signal_mutex);

            length = seconds;
            is_computing = computes;
            is_taken = false;
            is_wanted = true;
            changed.notify_all();
            changed.wait(lock, [this] { return is_taken; });
        }
        std::lock_guard<std::mutex> lock(held);
    }

private:
    void hold()
    {
        for (;;) {
            std::unique_lock<std::mutex> lock(signal_mutex);
            changed.wait(lock, [this] { return is_wanted; });
            is_wanted = false;
            std::lock_guard<std::mutex> holding(held);
            is_taken = true;
            changed.notify_all();
            lock.unlock();
            is_computing ? compute_for(length) : sleep_for(length);
        }
    }

    std::mutex held, signal_mutex;
    std::condition_variable changed;
    double length = 0;
    bool is_computing = false, is_taken = false, is_wanted = false;
};

class Inside {
public:
    void look(long step)
    {
        fault = read_fault();
        if (fault.kind != before)
            change();
        if (fault.kind == "longer-sequences")
            scale = 1 + 0.05 / 60 * (now_seconds() - since);
        number = step;
    }

    void host()
    {
        double seconds = fault.share * usual_seconds;

        if (fault.kind == "sleep")
            sleep_for(seconds);
        else if (fault.kind == "python") // here as well: the step computes
            compute_for(seconds);
        else if (fault.kind == "pause" && (number - first) % 40 == 0)
            sleep_for(0.7);
        else if (fault.kind == "lock-holder-sleeps" || fault.kind == "lock-holder-computes")
            holder.meet(seconds, fault.kind == "lock-holder-computes");
        else if (fault.kind == "checkpoint")
            checkpoint(seconds);
        else if (fault.kind == "churn")
            churn(seconds);
        else if (fault.kind == "pageable-copy")
            copy_pageable(seconds);
        else if (fault.kind == "more-logging")
            fputs("a line of the log\n", stderr);
    }

    bool is_on() const
    {
        return !fault.kind.empty();
    }

    void start(void *device_memory)
    {
        device = device_memory;
        holder.start();
    }

    // Bytes of a batch.
    size_t batch() const
    {
        return fault.kind == "batch-size" ? std::min(static_cast<size_t>(batch_bytes * scale), most_bytes) : batch_bytes;
    }

    double scale = 1;

private:
    void change()
    {
        double longer = 1 + fault.share * usual_seconds / (kernels * kernel_seconds);

        since = now_seconds();
        first = number + 1;
        before = fault.kind;
        scale = fault.kind == "batch-size" ? longer : 1;
        standin_set_slowdown(fault.kind == "slow-gpu" ? longer : 1);
        standin_set_delay("cuMemAlloc", fault.kind == "churn" ? 200000 : 0);
        standin_set_delay("cuMemFree", fault.kind == "churn" ? 200000 : 0);
        copied_bytes = 0;
    }

    void checkpoint(double seconds)
    {
        static const std::string path = variable("STEP_LOG") + ".checkpoint";
        static const std::vector<char> piece(256 << 10, 'x');
        static int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        off_t at = 0;

        for (double until = now_seconds() + seconds; now_seconds() < until;) {
            at += pwrite(file, piece.data(), piece.size(), at % (64 << 20));
            fsync(file);
        }
    }

    void churn(double seconds)
    {
        for (double until = now_seconds() + seconds; now_seconds() < until;) {
            void *memory;

            check(cudaMalloc(&memory, 8 << 20));
            check(cudaFree(memory));
        }
    }

    // Of a copy of this length the stand-in takes only the time.
    void copy_pageable(double seconds)
    {
        static char pageable[64];

        if (!copied_bytes)
            copied_bytes = std::max<size_t>(128 << 10, static_cast<size_t>(seconds * 6e9));
        check(cudaMemcpy(device, pageable, copied_bytes, cudaMemcpyHostToDevice));
    }

    Fault fault;
    std::string before;
    double since = 0;
    long number = 0, first = 0;
    void *device = nullptr;
    size_t copied_bytes = 0;
    Holder holder;
};

void launch(double seconds)
{
    uint64_t duration_ns = static_cast<uint64_t>(seconds * 1e9);
    void *arguments[] = {&duration_ns};
    static const dim3 grid = {256, 1, 1}, block = {256, 1, 1};

    check(cudaLaunchKernel(&standin_timed_kernel_mark, grid, block, arguments, 0, nullptr));
}

class Log {
public:
    void add(long step, int64_t start_ns, bool is_usual)
    {
        char line[256];
        int64_t end_ns = now_ns();
        int length = snprintf(line, sizeof(line),
                              "{\"rank\": 0, \"step\": %ld, \"tgid\": %d, \"start_ns\": %jd, \"end_ns\": %jd}\n", step,
                              getpid(), static_cast<intmax_t>(start_ns), static_cast<intmax_t>(end_ns));

        if (write(file, line, static_cast<size_t>(length)) != length)
            _exit(1);
        if (!is_usual)
            return;
        recent.push_back(static_cast<double>(end_ns - start_ns) / 1e9);
        if (recent.size() > recent_steps)
            recent.pop_front();
        std::vector<double> sorted(recent.begin(), recent.end());
        std::sort(sorted.begin(), sorted.end());
        usual_seconds = sorted[sorted.size() / 2];
    }

private:
    int file = open(variable("STEP_LOG").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    std::deque<double> recent;
};

void end(int)
{
    _exit(0);
}

} // namespace

int main()
{
    void *from_host, *batch, *loss, *result;
    Loader loader;
    Inside inside;
    Log log;

    signal(SIGTERM, end);
    check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    check(cudaHostAlloc(&from_host, most_bytes, 0));
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
