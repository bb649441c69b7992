// Measures compute-ex02b: the scores of a matrix' rows, a learner's and the baseline's.
// SPDX-License-Identifier: Apache-2.0
#include "kernel.cuh"

#include LEARNERS_FILE

#include "../../../cuda/exercises_ncu/exercises_ncu.cuh"

namespace grading {

void expected(const lab::At& in, lab::Shape s, std::size_t i, double& value, double& scale) {
    value = 0;
    for (int c = 0; c < s.columns; ++c) {
        const double x = in(i * static_cast<std::size_t>(s.columns) + static_cast<std::size_t>(c));
        value += c % 2 == 0 ? std::exp(-x * x) : std::log1p(x * x);
    }
    scale = value + 1;  // every term is positive
}

}  // namespace grading

int main(int argc, char** argv) {
    lab::KernelTask task;
    task.shapes = {{1, 1}, {3, 2}, {5, 255}, {7, 1000}, {1000, 33}, {1001, 512}};
    task.timed = {131072, 512};
    task.inputs = [](lab::Shape s) { return static_cast<std::size_t>(s.rows) * static_cast<std::size_t>(s.columns); };
    task.outputs = [](lab::Shape s) { return static_cast<std::size_t>(s.rows); };
    task.expected = grading::expected;
    task.learner = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) { row_scores(in, out, s.rows, s.columns, stream); };
    task.baseline = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) {
        lab::exercises_ncu::row_scores_baseline<<<static_cast<unsigned>(s.rows), lab::exercises_ncu::kRowThreads, 0, stream>>>(in, out, s.columns);
    };
    task.tolerance = 3e-5;
    task.describe = [](lab::Shape s) { return std::to_string(s.rows) + " rows of " + std::to_string(s.columns); };
    return lab::grade_kernel(task, argc, argv);
}
