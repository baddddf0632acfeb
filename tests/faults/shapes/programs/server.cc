// SPDX-License-Identifier: Apache-2.0
//
// An inference server: one thread reads requests in an event loop, one puts them together to batches and launches kernels, and
// one waits for the batches on the GPU and answers. Clients come in waves, with a second between them.
#include "inside.h"

#include <sys/epoll.h>
#include <sys/wait.h>

namespace {

constexpr int kernels = 22, largest_batch = 8, most_waiting = 64;
constexpr double kernel_seconds = 420e-6, longest_delay_seconds = 3e-3;
constexpr size_t usual_bytes = 600 << 10, answer_bytes = 32 << 10;

struct Batch {
    int64_t start_ns;
    bool is_usual;
};

// Requests that wait, and the batch that the GPU has.
class Queue {
public:
    void add(int requests)
    {
        std::lock_guard<std::mutex> lock(mutex);

        waiting = std::min(waiting + requests, most_waiting);
        changed.notify_all();
    }

    // Returns when the GPU is free and a batch is full, or its first request has waited long enough.
    void take()
    {
        std::unique_lock<std::mutex> lock(mutex);

        changed.wait(lock, [this] { return waiting > 0 && !is_running; });
        changed.wait_for(lock, std::chrono::duration<double>(longest_delay_seconds),
                         [this] { return waiting >= largest_batch; });
        waiting -= std::min(waiting, largest_batch);
    }

    void start(const Batch &batch)
    {
        std::lock_guard<std::mutex> lock(mutex);

        running = batch;
        is_running = true;
        changed.notify_all();
    }

    Batch wait_for_start()
    {
        std::unique_lock<std::mutex> lock(mutex);

        changed.wait(lock, [this] { return is_running; });
        return running;
    }

    void finish()
    {
        std::lock_guard<std::mutex> lock(mutex);

        is_running = false;
        changed.notify_all();
    }

private:
    std::mutex mutex;
    std::condition_variable changed;
    Batch running = {};
    int waiting = 0;
    bool is_running = false;
};

Queue queue;
cudaEvent_t batch_done;

// The clients are no children of the server, and end when the pipe does.
int start_clients(const char *program)
{
    int ends[2];
    const char *const line[] = {"setsid", "--fork", "python3", program, "waves", nullptr};

    if (pipe2(ends, O_CLOEXEC))
        _exit(1);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execvp(line[0], const_cast<char *const *>(line));
        _exit(1);
    }
    close(ends[1]);
    waitpid(child, nullptr, 0);
    return ends[0];
}

// A line is a request.
void receive(int clients)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    epoll_event wanted = {}, found;
    char text[4096];

    wanted.events = EPOLLIN;
    epoll_ctl(poll, EPOLL_CTL_ADD, clients, &wanted);
    for (;;) {
        if (epoll_wait(poll, &found, 1, -1) < 1)
            continue;
        ssize_t count = read(clients, text, sizeof(text));
        if (count <= 0)
            _exit(1);
        queue.add(static_cast<int>(std::count(text, text + count, '\n')));
    }
}

void answer()
{
    Log log;

    for (long number = 0;; number++) {
        Batch batch = queue.wait_for_start();

        check(cudaEventSynchronize(batch_done));
        log.add(number, batch.start_ns, batch.is_usual);
        queue.finish();
    }
}

} // namespace

int main(int argc, char **argv)
{
    void *from_host, *on_device, *scores, *to_host;
    Inside inside(kernels * kernel_seconds, usual_bytes);

    if (argc != 2)
        return 2;
    signal(SIGTERM, end);
    std::thread(receive, start_clients(argv[1])).detach();
    check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    check(cudaHostAlloc(&from_host, most * usual_bytes, 0));
    check(cudaMalloc(&on_device, 4UL << 30));
    check(cudaMalloc(&scores, answer_bytes));
    check(cudaHostAlloc(&to_host, answer_bytes, 0));
    check(cudaEventCreateWithFlags(&batch_done, cudaEventBlockingSync | cudaEventDisableTiming));
    inside.start(on_device);
    std::thread(answer).detach();
    for (long number = 0;; number++) {
        queue.take();
        int64_t start_ns = now_ns();
        inside.look(number);
        inside.host();
        check(cudaMemcpyAsync(on_device, from_host, inside.batch(), cudaMemcpyHostToDevice, nullptr));
        for (int i = 0; i < kernels; i++)
            launch(kernel_seconds * inside.scale);
        check(cudaMemcpyAsync(to_host, scores, answer_bytes, cudaMemcpyDeviceToHost, nullptr));
        check(cudaEventRecord(batch_done, nullptr));
        queue.start({start_ns, !inside.is_on()});
    }
}
