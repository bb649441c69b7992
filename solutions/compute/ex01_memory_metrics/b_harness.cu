// Measures compute-ex01b: the sums of a matrix' columns, a learner's and the baseline's.
// SPDX-License-Identifier: Apache-2.0
#include "kernel.cuh"

#include LEARNERS_FILE

#include "../../../cuda/exercises_ncu/exercises_ncu.cuh"

namespace grading {

void expected(const lab::At& in, lab::Shape s, std::size_t i, double& value, double& scale) {
    value = scale = 0;
    for (int r = 0; r < s.rows; ++r) {
        const double x = in(static_cast<std::size_t>(r) * static_cast<std::size_t>(s.columns) + i);
        value += x;
        scale += std::fabs(x);
    }
}

}  // namespace grading

int main(int argc, char** argv) {
    lab::KernelTask task;
    task.shapes = {{1, 1}, {1, 100}, {100, 1}, {513, 33}, {31, 4097}, {3000, 257}};
    task.timed = {32768, 4096};
    task.inputs = [](lab::Shape s) { return static_cast<std::size_t>(s.rows) * static_cast<std::size_t>(s.columns); };
    task.outputs = [](lab::Shape s) { return static_cast<std::size_t>(s.columns); };
    task.expected = grading::expected;
    task.learner = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) { column_sums(in, out, s.rows, s.columns, stream); };
    task.baseline = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) {
        lab::exercises_ncu::column_sums_baseline<<<static_cast<unsigned>(s.columns), lab::exercises_ncu::kColumnThreads, 0, stream>>>(in, out, s.rows, s.columns);
    };
    task.tolerance = 1e-5;
    task.describe = [](lab::Shape s) { return std::to_string(s.rows) + " rows of " + std::to_string(s.columns); };
    return lab::grade_kernel(task, argc, argv);
}
