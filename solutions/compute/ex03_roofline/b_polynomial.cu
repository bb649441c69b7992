// Exercise compute-ex03, part b: bring a polynomial to the roof of the memory. Needs a GPU and nvcc.
// SPDX-License-Identifier: Apache-2.0
//
//     out[i] = c[0] + c[1] x + c[2] x² + … + c[16] x^16        x = in[i]
//
// The formula needs 32 operations for the 8 bytes a number costs: 4 FLOP/byte, far left of the ridge. The kernel below spends
// hundreds of instructions instead: each power is computed by powf. Change it, and ask then how many loads are under way.
//
// What the grader does: calls polynomial(in, coefficients, out, count, stream) with pointers on the GPU; there are 17 coefficients.
// `out` holds garbage before. Everything must run on `stream`; the host need not wait. Any count from 1 up; the arrays may
// start at any float.
//
// A worked example: c = 1 2 3 0 … 0, x = 2: 1 + 2·2 + 3·4 = 17.
//
// It is graded in this order: right values for numbers and coefficients you have not seen (1e-5 of the sum of the terms' sizes); then at
// most an eighth of the time of the kernel below, for 2^26 numbers, measured beside it; then, where counters are permitted, at most
// 60 instructions a number.
//
// Grade it:      labcode exercises compute-ex03b        (or: nox -s exercises -- compute-ex03b)
// Get a hint:    labcode exercises compute-ex03b --hint

#include <cuda_runtime.h>

#include "../../../cuda/common/check.cuh"  // LAB_LAUNCHED() stops with a message when a launch fails

constexpr int kTerms = 17, kThreads = 256;

// [solution]
// Horner's rule: a multiply-add a term. Four numbers a thread, a block's width apart, so that four loads are under way.
__global__ void __launch_bounds__(kThreads) evaluate(const float* __restrict__ in, const float* __restrict__ coefficients, float* __restrict__ out, int count) {
    constexpr int kEach = 4;
    const int first = static_cast<int>(blockIdx.x) * kThreads * kEach + static_cast<int>(threadIdx.x);
    float x[kEach], sum[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) x[e] = first + e * kThreads < count ? in[first + e * kThreads] : 0, sum[e] = 0;
#pragma unroll
    for (int k = kTerms - 1; k >= 0; --k) {
        const float coefficient = coefficients[k];
#pragma unroll
        for (int e = 0; e < kEach; ++e) sum[e] = fmaf(sum[e], x[e], coefficient);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        if (first + e * kThreads < count) out[first + e * kThreads] = sum[e];
    }
}

inline void polynomial(const float* in, const float* coefficients, float* out, int count, cudaStream_t stream) {
    evaluate<<<static_cast<unsigned>((count + 4 * kThreads - 1) / (4 * kThreads)), kThreads, 0, stream>>>(in, coefficients, out, count);
    LAB_LAUNCHED();
}
// [starter]
// __global__ void __launch_bounds__(kThreads) evaluate(const float* __restrict__ in, const float* __restrict__ coefficients, float* __restrict__ out, int count) {
//     const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
//     if (i >= count) return;
//     float sum = 0;
//     for (int k = 0; k < kTerms; ++k) sum += coefficients[k] * powf(in[i], static_cast<float>(k));
//     out[i] = sum;
// }
//
// inline void polynomial(const float* in, const float* coefficients, float* out, int count, cudaStream_t stream) {
//     evaluate<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(in, coefficients, out, count);
//     LAB_LAUNCHED();
// }
// [end]
