// SPDX-License-Identifier: Apache-2.0
//
// Molecules in a box: the GPU computes forces, the host sorts molecules into cells with OpenMP, the GPU moves them. The main
// thread asks again and again whether the forces are there, and spins until a step is over.
#include "inside.h"

namespace {

constexpr int force_kernels = 8, move_kernels = 6, threads = 2, cells_each_way = 16, molecules = 12000;
constexpr double kernel_seconds = 170e-6;
constexpr size_t usual_bytes = molecules * 3 * sizeof(float);

struct Cells {
    std::vector<float> positions = std::vector<float>(molecules * 3);
    std::vector<int> cell = std::vector<int>(molecules);
    std::vector<int> count = std::vector<int>(cells_each_way * cells_each_way * cells_each_way);

    Cells()
    {
        for (size_t i = 0; i < positions.size(); i++)
            positions[i] = static_cast<float>(i * 2654435761u % 1000003) / 1000003.0F;
    }

    // Molecules drift a little, and leave the box at one side to enter it at the other.
    void sort(float time)
    {
        std::fill(count.begin(), count.end(), 0);
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int i = 0; i < molecules; i++) {
            int place = 0;

            for (int axis = 0; axis < 3; axis++) {
                float &at = positions[static_cast<size_t>(i) * 3 + static_cast<size_t>(axis)];

                at += 1e-3F * sinf(time + static_cast<float>(i + axis));
                at -= floorf(at);
                place = place * cells_each_way + std::min(static_cast<int>(at * cells_each_way), cells_each_way - 1);
            }
            cell[static_cast<size_t>(i)] = place;
#pragma omp atomic
            count[static_cast<size_t>(place)]++;
        }
    }
};

} // namespace

int main()
{
    void *pinned, *on_device, *energy, *result;
    cudaEvent_t forces;
    Cells cells;
    Inside inside((force_kernels + move_kernels) * kernel_seconds, usual_bytes);
    Log log;

    signal(SIGTERM, end);
    check(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
    check(cudaHostAlloc(&pinned, most * usual_bytes, 0));
    check(cudaMalloc(&on_device, 4UL << 30));
    check(cudaMalloc(&energy, 4096));
    check(cudaHostAlloc(&result, 4096, 0));
    check(cudaEventCreateWithFlags(&forces, cudaEventDisableTiming));
    inside.start(on_device);
    for (long step = 0;; step++) {
        int64_t start_ns = now_ns();

        inside.look(step);
        for (int i = 0; i < force_kernels; i++)
            launch(kernel_seconds * inside.scale);
        check(cudaMemcpyAsync(pinned, on_device, inside.batch(), cudaMemcpyDeviceToHost, nullptr));
        check(cudaEventRecord(forces, nullptr));
        while (cudaEventQuery(forces) == cudaErrorNotReady)
            continue;
        cells.sort(static_cast<float>(step));
        check(cudaMemcpyAsync(on_device, pinned, inside.batch(), cudaMemcpyHostToDevice, nullptr));
        for (int i = 0; i < move_kernels; i++)
            launch(kernel_seconds * inside.scale);
        check(cudaMemcpyAsync(result, energy, sizeof(double), cudaMemcpyDeviceToHost, nullptr));
        check(cudaStreamSynchronize(nullptr));
        inside.host();
        log.add(step, start_ns, !inside.is_on());
    }
}
