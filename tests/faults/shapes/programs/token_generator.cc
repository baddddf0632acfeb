// SPDX-License-Identifier: Apache-2.0
//
// A language model for one user, as llama.cpp runs it: each token is a graph that is replayed, a wait that spins, and a choice
// that two threads make among all words. The graph is captured again when the context has become longer by a page.
#include "inside.h"

namespace {

constexpr int kernels = 56, prompt_kernels = 10, helpers = 1;
constexpr double kernel_seconds = 34e-6, prompt_seconds = 300e-6;
constexpr size_t usual_bytes = 16 << 10;
constexpr long page_tokens = 256, prompt_tokens = 700;
constexpr size_t words = 32000, likeliest = 40;

// A part of the words for each thread; those of a helper are looked at while the main thread looks at its own.
class Team {
public:
    void start()
    {
        for (size_t i = 0; i < scores.size(); i++)
            scores[i] = static_cast<float>(i * 2654435761u % 999983);
        for (int i = 1; i <= helpers; i++)
            std::thread(&Team::help, this, i).detach();
    }

    // The word that is chosen, of the likeliest.
    size_t choose(size_t token)
    {
        std::rotate(scores.begin(), scores.begin() + 1 + static_cast<long>(token % 7), scores.end());
        {
            std::lock_guard<std::mutex> lock(mutex);

            round++;
            busy = helpers;
            changed.notify_all();
        }
        size_t best = best_of(0);
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return busy == 0; });
        return (best + found) % words;
    }

private:
    size_t best_of(int part) const
    {
        constexpr size_t size = words / (helpers + 1);
        std::vector<float> own(scores.begin() + static_cast<long>(size) * part,
                               scores.begin() + static_cast<long>(size) * (part + 1));

        std::partial_sort(own.begin(), own.begin() + likeliest, own.end(), std::greater<float>());
        float sum = 0;
        for (size_t i = 0; i < likeliest; i++)
            sum += expf((own[i] - own[0]) / 1e5F);
        return static_cast<size_t>(sum * 1000);
    }

    void help(int part)
    {
        for (long seen = 0;;) {
            std::unique_lock<std::mutex> lock(mutex);
            changed.wait(lock, [this, seen] { return round > seen; });
            seen = round;
            lock.unlock();
            size_t best = best_of(part);
            lock.lock();
            found = best;
            busy--;
            changed.notify_all();
        }
    }

    std::vector<float> scores = std::vector<float>(words);
    std::mutex mutex;
    std::condition_variable changed;
    long round = 0;
    int busy = 0;
    size_t found = 0;
};

class Model {
public:
    Model()
    {
        check(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        check(cudaMalloc(&weights, 4UL << 30));
        check(cudaMalloc(&on_device, most * usual_bytes));
        check(cudaHostAlloc(&pinned, most * words * sizeof(float), 0));
    }

    void *memory() const
    {
        return weights;
    }

    void read_prompt(double scale)
    {
        for (int i = 0; i < prompt_kernels; i++)
            launch(prompt_seconds * scale, stream);
    }

    // Scores of all words for the next token.
    void decode(long page, double scale, size_t input_bytes)
    {
        if (page != captured_page || scale != captured_scale)
            capture(page, scale);
        check(cudaMemcpyAsync(on_device, pinned, input_bytes, cudaMemcpyHostToDevice, stream));
        check(cudaGraphLaunch(graph, stream));
        check(cudaMemcpyAsync(pinned, weights, words * sizeof(float), cudaMemcpyDeviceToHost, stream));
        check(cudaStreamSynchronize(stream));
    }

private:
    void capture(long page, double scale)
    {
        cudaGraph_t plan;

        if (graph)
            check(cudaGraphExecDestroy(graph));
        check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < kernels; i++)
            launch(kernel_seconds * scale, stream);
        check(cudaStreamEndCapture(stream, &plan));
        check(cudaGraphInstantiate(&graph, plan, 0));
        check(cudaGraphDestroy(plan));
        captured_page = page;
        captured_scale = scale;
    }

    cudaStream_t stream = nullptr;
    cudaGraphExec_t graph = nullptr;
    void *weights = nullptr, *on_device = nullptr, *pinned = nullptr;
    long captured_page = -1;
    double captured_scale = 0;
};

} // namespace

int main()
{
    Inside inside(kernels * kernel_seconds, usual_bytes);
    Model model;
    Team team;
    Log log;
    size_t token = 0;

    signal(SIGTERM, end);
    inside.start(model.memory());
    team.start();
    for (long number = 0;; number++) {
        int64_t start_ns = now_ns();

        inside.look(number);
        if (number % prompt_tokens == 0)
            model.read_prompt(inside.scale);
        model.decode(number % prompt_tokens / page_tokens, inside.scale, inside.batch());
        token = team.choose(token);
        inside.host();
        log.add(number, start_ns, !inside.is_on());
    }
}
