// SPDX-License-Identifier: Apache-2.0
//
// Training on a graph whose neighbours are sampled by two processes, as GraphLearn does: they are forked, and put what they have
// sampled into shared memory. Semaphores in that memory say which places are filled.
#include "inside.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>

namespace {

constexpr int kernels = 44, samplers = 2, places = 4;
constexpr double kernel_seconds = 370e-6;
constexpr size_t features = 32, nodes = 60000, neighbours = 10, seeds = 200, first_hop = 6, second_hop = 4;
constexpr size_t sampled = seeds * (1 + first_hop + first_hop * second_hop);
constexpr size_t usual_bytes = sampled * features * sizeof(float);

struct Shared {
    sem_t free, filled, next;
    std::atomic<double> usual;
    size_t place; // that is filled next; the process that has `next` may change it
    float rows[places][sampled * features];
};

void wait_for(sem_t *semaphore)
{
    while (sem_wait(semaphore))
        continue;
}

class Graph {
public:
    Graph()
    {
        for (size_t i = 0; i < edges.size(); i++)
            edges[i] = static_cast<uint32_t>(i * 2654435761u % nodes);
        for (size_t i = 0; i < values.size(); i++)
            values[i] = static_cast<float>(i % 1009) / 1009.0F;
    }

    // Some nodes, some of their neighbours, and some of theirs.
    void sample(uint64_t *state, float *rows) const
    {
        for (size_t i = 0; i < seeds; i++) {
            uint32_t node = static_cast<uint32_t>(draw(state) % nodes);

            copy(node, &rows);
            for (size_t j = 0; j < first_hop; j++) {
                uint32_t near = neighbour(state, node);

                copy(near, &rows);
                for (size_t k = 0; k < second_hop; k++)
                    copy(neighbour(state, near), &rows);
            }
        }
    }

private:
    static uint64_t draw(uint64_t *state)
    {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
    }

    uint32_t neighbour(uint64_t *state, uint32_t node) const
    {
        return edges[node * neighbours + draw(state) % neighbours];
    }

    // Their features, scaled.
    void copy(uint32_t node, float **row) const
    {
        for (size_t i = 0; i < features; i++)
            (*row)[i] = tanhf(values[node * features + i]);
        *row += features;
    }

    std::vector<uint32_t> edges = std::vector<uint32_t>(nodes * neighbours);
    std::vector<float> values = std::vector<float>(nodes * features);
};

void disturb(double start, double usual)
{
    Fault fault = read_fault();
    double left = start + samplers * usual * (1 + fault.share) - now_seconds();

    if (fault.kind == "worker-sleeps")
        sleep_for(left);
    else if (fault.kind == "worker-computes")
        compute_for(left);
}

[[noreturn]] void run_sampler(const Graph &graph, Shared *shared, uint64_t seed)
{
    std::vector<float> rows(sampled * features);

    for (;;) {
        double start = now_seconds();

        graph.sample(&seed, rows.data());
        disturb(start, shared->usual);
        wait_for(&shared->free);
        wait_for(&shared->next);
        std::copy(rows.begin(), rows.end(), shared->rows[shared->place]);
        shared->place = (shared->place + 1) % places;
        sem_post(&shared->filled);
        sem_post(&shared->next);
    }
}

Shared *started_samplers(const Graph &graph)
{
    void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        _exit(1);
    Shared *shared = static_cast<Shared *>(memory);
    sem_init(&shared->free, 1, places);
    sem_init(&shared->filled, 1, 0);
    sem_init(&shared->next, 1, 1);
    pid_t trainer = getpid();
    for (int i = 0; i < samplers; i++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != trainer)
                _exit(0);
            prctl(PR_SET_NAME, "sampler");
            signal(SIGTERM, SIG_DFL);
            run_sampler(graph, shared, static_cast<uint64_t>(atoi(variable("SEED").c_str()) + 1 + i) * 7919);
        }
    return shared;
}

} // namespace

int main()
{
    void *pinned, *on_device, *loss, *result;
    cudaEvent_t done;
    Graph graph;
    Inside inside(kernels * kernel_seconds, usual_bytes);
    Log log;

    signal(SIGTERM, end);
    Shared *shared = started_samplers(graph);
    check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    check(cudaHostAlloc(&pinned, most * usual_bytes, 0));
    check(cudaMalloc(&on_device, 4UL << 30));
    check(cudaMalloc(&loss, 4096));
    check(cudaHostAlloc(&result, 4096, 0));
    check(cudaEventCreateWithFlags(&done, cudaEventBlockingSync | cudaEventDisableTiming));
    inside.start(on_device);
    for (long step = 0, place = 0;; step++, place = (place + 1) % places) {
        int64_t start_ns = now_ns();

        inside.look(step);
        wait_for(&shared->filled);
        std::copy_n(shared->rows[place], sampled * features, static_cast<float *>(pinned));
        sem_post(&shared->free);
        check(cudaMemcpyAsync(on_device, pinned, inside.batch(), cudaMemcpyHostToDevice, nullptr));
        for (int i = 0; i < kernels; i++)
            launch(kernel_seconds * inside.scale);
        check(cudaMemcpyAsync(result, loss, sizeof(float), cudaMemcpyDeviceToHost, nullptr));
        check(cudaEventRecord(done, nullptr));
        check(cudaEventSynchronize(done));
        inside.host();
        log.add(step, start_ns, !inside.is_on());
        shared->usual = usual_seconds.load();
    }
}
