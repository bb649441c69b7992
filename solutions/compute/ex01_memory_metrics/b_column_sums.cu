// Exercise compute-ex01, part b: sum the columns of a matrix without moving what nobody asked for. Needs a GPU and nvcc.
// SPDX-License-Identifier: Apache-2.0
//
//     out[c] = in[0][c] + in[1][c] + … + in[rows - 1][c]        in: rows × columns floats, row after row
//
// The kernel below gives a block to each column. Its threads take one row each, so that the lanes of a warp read from 32
// different rows: 32 sectors of 32 bytes, of each of which 4 bytes are wanted. Change the kernel and its launch.
//
// What the grader does: calls column_sums(in, out, rows, columns, stream) with pointers on the GPU. `out` holds garbage
// before. Everything must run on `stream`; the host need not wait. Any number of rows and columns from 1 up; the arrays may
// start at any float. Memory that you need beside: cudaMallocAsync(…, stream) and cudaFreeAsync(…, stream).
//
// A worked example: 2 rows of 3, in = 1 2 3 4 5 6: out = 5 7 9.
//
// It is graded in this order: right sums on matrices you have not seen; then at most a quarter of the time of the kernel below,
// for 32,768 rows of 4,096, measured beside it; then, where counters are permitted, the bytes of the sectors that are loaded: at
// most 1.2 times those of the matrix.
//
// Grade it:      labcode exercises compute-ex01b        (or: nox -s exercises -- compute-ex01b)
// Get a hint:    labcode exercises compute-ex01b --hint

#include <cuda_runtime.h>

#include "../../../cuda/common/check.cuh"  // LAB_CUDA(call) stops with a message when a call fails

// [solution]
constexpr int kLanes = 32, kGroups = 8, kAtOnce = 8, kRowsEach = 512;

// A lane a column: a warp reads 128 bytes of one row. Eight warps share a block's rows, and each has eight loads under way.
__global__ void __launch_bounds__(kLanes* kGroups) sum_columns(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    __shared__ float sums[kGroups][kLanes];
    const int x = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
    const int column = static_cast<int>(blockIdx.x) * kLanes + x;
    const int begin = static_cast<int>(blockIdx.y) * kRowsEach, end = min(begin + kRowsEach, rows);
    float sum = 0;
    if (column < columns) {
        int row = begin + group;
        for (; row + (kAtOnce - 1) * kGroups < end; row += kAtOnce * kGroups) {
            float values[kAtOnce];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) values[k] = in[static_cast<long long>(row + k * kGroups) * columns + column];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) sum += values[k];
        }
        for (; row < end; row += kGroups) sum += in[static_cast<long long>(row) * columns + column];
    }
    sums[group][x] = sum;
    __syncthreads();
    if (group != 0 || column >= columns) return;
    for (int g = 1; g < kGroups; ++g) sum += sums[g][x];
    atomicAdd(out + column, sum);
}

inline void column_sums(const float* in, float* out, int rows, int columns, cudaStream_t stream) {
    LAB_CUDA(cudaMemsetAsync(out, 0, static_cast<size_t>(columns) * sizeof(float), stream));
    const dim3 blocks(static_cast<unsigned>((columns + kLanes - 1) / kLanes), static_cast<unsigned>((rows + kRowsEach - 1) / kRowsEach));
    sum_columns<<<blocks, dim3(kLanes, kGroups), 0, stream>>>(in, out, rows, columns);
    LAB_LAUNCHED();
}
// [starter]
// constexpr int kThreads = 256;
//
// __global__ void __launch_bounds__(kThreads) sum_columns(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
//     __shared__ float sums[kThreads];
//     const int thread = static_cast<int>(threadIdx.x), column = static_cast<int>(blockIdx.x);
//     float sum = 0;
//     for (int row = thread; row < rows; row += kThreads) sum += in[static_cast<long long>(row) * columns + column];
//     sums[thread] = sum;
//     __syncthreads();
//     for (int half = kThreads / 2; half > 0; half /= 2) {
//         if (thread < half) sums[thread] += sums[thread + half];
//         __syncthreads();
//     }
//     if (thread == 0) out[column] = sums[0];
// }
//
// inline void column_sums(const float* in, float* out, int rows, int columns, cudaStream_t stream) {
//     sum_columns<<<static_cast<unsigned>(columns), kThreads, 0, stream>>>(in, out, rows, columns);
//     LAB_LAUNCHED();
// }
// [end]
