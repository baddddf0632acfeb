// SPDX-License-Identifier: Apache-2.0
//
// What programs in C++ share: their step log, their end at SIGTERM, and what FAULT_FILE names, which is brought about here as in
// the Python programs (steps.py, inside.py).
#ifndef SHAPES_INSIDE_H
#define SHAPES_INSIDE_H

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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

constexpr int recent_steps = 31;
constexpr size_t most = 4; // for how many times the usual batch there is memory

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
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, cudaGetErrorName(error));
        _exit(1);
    }
}

// kind: empty when the fault is that of another rank. is_there: whether any rank has one.
struct Fault {
    std::string kind;
    double share = 0;
    bool is_there = false;
};

std::string variable(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

int own_rank()
{
    static const int rank = atoi(variable("RANK").c_str());

    return rank;
}

// Which all ranks have.
bool is_decoy(const std::string &kind)
{
    static const std::vector<std::string> decoys = {"batch-size",   "longer-sequences", "evaluation",
                                                    "more-logging", "fewer-requests",   "more-requests"};

    return std::find(decoys.begin(), decoys.end(), kind) != decoys.end();
}

Fault read_fault()
{
    static const std::string path = variable("FAULT_FILE");
    char text[512] = "", kind[64] = "";
    double share = 0;
    int rank = 0;
    FILE *file = fopen(path.c_str(), "re");

    if (!file)
        return {};
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    if (sscanf(text, "{\"kind\": \"%63[^\"]\", \"share\": %lf, \"rank\": %d", kind, &share, &rank) < 2)
        return {};
    return {is_decoy(kind) || rank == own_rank() ? kind : "", share, true};
}

std::atomic<double> usual_seconds;

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
    // gpu_seconds: the time of all kernels of a step. batch_bytes: of a usual batch.
    Inside(double gpu_seconds, size_t batch_bytes) : gpu_seconds(gpu_seconds), batch_bytes(batch_bytes) {}

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

    // Where the GPU has nothing to do: a straggler is late here, and a rank that hangs does not go on.
    void before_collective()
    {
        if (fault.kind == "straggler")
            compute_for(fault.share * usual_seconds);
        while (fault.kind == "hang") {
            sleep_for(0.02);
            look(number);
        }
    }

    // Whether a rank has a fault, so that the step is not usual.
    bool is_on() const
    {
        return fault.is_there;
    }

    void start(void *device_memory)
    {
        device = device_memory;
        holder.start();
    }

    // Bytes of a batch, at most `most` times those of a usual one.
    size_t batch() const
    {
        return fault.kind == "batch-size" ? std::min(static_cast<size_t>(static_cast<double>(batch_bytes) * scale), most * batch_bytes) : batch_bytes;
    }

    double scale = 1;

private:
    void change()
    {
        double longer = 1 + fault.share * usual_seconds / gpu_seconds;

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

    const double gpu_seconds;
    const size_t batch_bytes;
    Fault fault;
    std::string before;
    double since = 0;
    long number = 0, first = 0;
    void *device = nullptr;
    size_t copied_bytes = 0;
    Holder holder;
};

void launch(double seconds, cudaStream_t stream = nullptr)
{
    uint64_t duration_ns = static_cast<uint64_t>(seconds * 1e9);
    void *arguments[] = {&duration_ns};
    static const dim3 grid = {256, 1, 1}, block = {256, 1, 1};

    check(cudaLaunchKernel(&standin_timed_kernel_mark, grid, block, arguments, 0, stream));
}

class Log {
public:
    void add(long step, int64_t start_ns, bool is_usual)
    {
        char line[256];
        int64_t end_ns = now_ns();
        int length = snprintf(line, sizeof(line),
                              "{\"rank\": %d, \"step\": %ld, \"tgid\": %d, \"start_ns\": %jd, \"end_ns\": %jd}\n",
                              own_rank(), step, getpid(), static_cast<intmax_t>(start_ns), static_cast<intmax_t>(end_ns));

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

#endif
