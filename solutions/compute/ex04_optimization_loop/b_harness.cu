// Measures compute-ex04b: a Gaussian blur, a learner's and the baseline's.
// SPDX-License-Identifier: Apache-2.0
#include "kernel.cuh"

#include LEARNERS_FILE

#include "../../../cuda/exercises_ncu/exercises_ncu.cuh"

namespace grading {

void expected(const lab::At& in, lab::Shape s, std::size_t i, double& value, double& scale) {
    constexpr int kRadius = lab::exercises_ncu::kBlurRadius;
    const int row = static_cast<int>(i / static_cast<std::size_t>(s.columns)), column = static_cast<int>(i % static_cast<std::size_t>(s.columns));
    double sum = 0, weights = 0, sizes = 0;
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
            const int y = std::min(std::max(row + dy, 0), s.rows - 1), x = std::min(std::max(column + dx, 0), s.columns - 1);
            const double weight = std::exp(-(dy * dy + dx * dx) / 18.0);
            const double pixel = in(static_cast<std::size_t>(y) * static_cast<std::size_t>(s.columns) + static_cast<std::size_t>(x));
            sum += weight * pixel;
            sizes += weight * std::fabs(pixel);
            weights += weight;
        }
    }
    value = sum / weights;
    scale = sizes / weights;
}

}  // namespace grading

int main(int argc, char** argv) {
    lab::KernelTask task;
    task.shapes = {{1, 1}, {1, 100}, {100, 1}, {33, 57}, {300, 70}, {129, 1025}};
    task.timed = {4096, 4096};
    task.inputs = task.outputs = [](lab::Shape s) { return static_cast<std::size_t>(s.rows) * static_cast<std::size_t>(s.columns); };
    task.expected = grading::expected;
    task.learner = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) { blur(in, out, s.rows, s.columns, stream); };
    task.baseline = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) {
        const dim3 blocks(static_cast<unsigned>((s.columns + 7) / 8), static_cast<unsigned>((s.rows + 31) / 32));
        lab::exercises_ncu::blur_baseline<<<blocks, dim3(32, 8), 0, stream>>>(in, out, s.rows, s.columns);
    };
    task.tolerance = 1e-5;
    task.describe = [](lab::Shape s) { return std::to_string(s.rows) + " x " + std::to_string(s.columns) + " pixels"; };
    return lab::grade_kernel(task, argc, argv);
}
