// Measures compute-ex03b: a polynomial of many numbers, a learner's and the baseline's. The coefficients lie behind the numbers.
// SPDX-License-Identifier: Apache-2.0
#include "kernel.cuh"

#include LEARNERS_FILE

#include "../../../cuda/exercises_ncu/exercises_ncu.cuh"

namespace grading {

constexpr int kTerms = lab::exercises_ncu::kTerms;

void expected(const lab::At& in, lab::Shape s, std::size_t i, double& value, double& scale) {
    const std::size_t count = static_cast<std::size_t>(s.columns);
    const double x = in(i);
    double power = 1;
    value = scale = 0;
    for (int k = 0; k < kTerms; ++k) {
        const double term = in(count + static_cast<std::size_t>(k)) * power;
        value += term;
        scale += std::fabs(term);
        power *= x;
    }
}

}  // namespace grading

int main(int argc, char** argv) {
    lab::KernelTask task;
    task.shapes = {{1, 1}, {1, 31}, {1, 255}, {1, 1025}, {1, 4099}, {1, 1000003}};
    task.timed = {1, 1 << 26};
    task.inputs = [](lab::Shape s) { return static_cast<std::size_t>(s.columns) + grading::kTerms; };
    task.outputs = [](lab::Shape s) { return static_cast<std::size_t>(s.columns); };
    task.expected = grading::expected;
    task.learner = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) { polynomial(in, in + s.columns, out, s.columns, stream); };
    task.baseline = [](const float* in, float* out, lab::Shape s, cudaStream_t stream) {
        lab::exercises_ncu::polynomial_baseline<<<static_cast<unsigned>((s.columns + 255) / 256), 256, 0, stream>>>(in, in + s.columns, out, s.columns);
    };
    task.tolerance = 1e-5;
    task.describe = [](lab::Shape s) { return std::to_string(s.columns) + " numbers"; };
    return lab::grade_kernel(task, argc, argv);
}
