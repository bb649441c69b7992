// Kernels of the Nsight Compute exercises: for each a baseline, which the learner improves, and one improved version. Device code only.
// SPDX-License-Identifier: Apache-2.0
//
//   column_sums     memory metrics: a warp's lanes on 32 lines, against side by side with loads under way
//   row_scores      compute metrics: two paths in each warp and a tree of remainders, against pairs and shuffles
//   polynomial      roofline: powers one by one (special functions), against Horner's rule, which DRAM limits
//   blur            the loop: a Gaussian blur by the formula, against two passes in shared memory
#pragma once

namespace lab::exercises_ncu {

// ---- column_sums: out[c] = Σ_r in[r][c] ---------------------------------------------------------------------------------------

constexpr int kColumnThreads = 256;

// A block a column; its threads go down the rows.
__global__ void __launch_bounds__(kColumnThreads) column_sums_baseline(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    __shared__ float sums[kColumnThreads];
    const int thread = static_cast<int>(threadIdx.x), column = static_cast<int>(blockIdx.x);
    float sum = 0;
    for (int row = thread; row < rows; row += kColumnThreads) sum += in[static_cast<long long>(row) * columns + column];
    sums[thread] = sum;
    __syncthreads();
    for (int half = kColumnThreads / 2; half > 0; half /= 2) {
        if (thread < half) sums[thread] += sums[thread + half];
        __syncthreads();
    }
    if (thread == 0) out[column] = sums[0];
}

// A thread a column and group of rows, lanes side by side, eight rows' loads under way; blocks of 32 × 8, and blockIdx.y takes
// `rows_each` rows. The output starts at zero.
__global__ void __launch_bounds__(kColumnThreads) column_sums_improved(const float* __restrict__ in, float* __restrict__ out, int rows, int columns, int rows_each) {
    constexpr int kGroups = 8, kAtOnce = 8;
    __shared__ float sums[kGroups][32];
    const int x = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y), column = static_cast<int>(blockIdx.x) * 32 + x;
    const int begin = static_cast<int>(blockIdx.y) * rows_each, end = min(begin + rows_each, rows);
    float sum = 0;
    if (column < columns) {
        const float* from = in + column;
        int row = begin + group;
        for (; row + (kAtOnce - 1) * kGroups < end; row += kAtOnce * kGroups) {
            float values[kAtOnce];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) values[k] = from[static_cast<long long>(row + k * kGroups) * columns];
#pragma unroll
            for (int k = 0; k < kAtOnce; ++k) sum += values[k];
        }
        for (; row < end; row += kGroups) sum += from[static_cast<long long>(row) * columns];
    }
    sums[group][x] = sum;
    __syncthreads();
    if (group != 0 || column >= columns) return;
#pragma unroll
    for (int g = 1; g < kGroups; ++g) sum += sums[g][x];
    atomicAdd(out + column, sum);
}

// ---- row_scores: out[r] = Σ over even columns of exp(−x²) + Σ over odd columns of log(1 + x²) ------------------------------------

constexpr int kRowThreads = 256;

__device__ inline float even_score(float x) { return expf(-x * x); }
__device__ inline float odd_score(float x) { return logf(1 + x * x); }

// A block a row. Neighboring lanes take neighboring columns; the tree picks its threads by a remainder.
__global__ void __launch_bounds__(kRowThreads) row_scores_baseline(const float* __restrict__ in, float* __restrict__ out, int columns) {
    __shared__ float sums[kRowThreads];
    const int thread = static_cast<int>(threadIdx.x);
    const float* row = in + static_cast<long long>(blockIdx.x) * columns;
    float sum = 0;
    for (int column = thread; column < columns; column += kRowThreads) {
        if (column % 2 == 0) sum += even_score(row[column]);
        else sum += odd_score(row[column]);
    }
    sums[thread] = sum;
    __syncthreads();
    for (int step = 1; step < kRowThreads; step *= 2) {
        if (thread % (2 * step) == 0) sums[thread] += sums[thread + step];
        __syncthreads();
    }
    if (thread == 0) out[blockIdx.x] = sums[0];
}

// A warp a row. A lane takes pairs of columns, an even and an odd one, so that all lanes are on the same path at any time; four
// pairs' loads under way; exponential and logarithm by the special-function unit; sums by shuffles, without a barrier.
__global__ void __launch_bounds__(kRowThreads) row_scores_improved(const float* __restrict__ in, float* __restrict__ out, int rows, int columns) {
    constexpr int kAtOnce = 4;
    const int lane = static_cast<int>(threadIdx.x) % 32, r = static_cast<int>(blockIdx.x) * (kRowThreads / 32) + static_cast<int>(threadIdx.x) / 32;
    if (r >= rows) return;
    const float* row = in + static_cast<long long>(r) * columns;
    float sum = 0;
    int column = 2 * lane;
    for (; column + 64 * (kAtOnce - 1) + 1 < columns; column += 64 * kAtOnce) {
        float even[kAtOnce], odd[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) even[k] = row[column + 64 * k], odd[k] = row[column + 64 * k + 1];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) sum += __expf(-even[k] * even[k]) + __logf(1 + odd[k] * odd[k]);
    }
    for (; column < columns; column += 64) {
        sum += even_score(row[column]);
        if (column + 1 < columns) sum += odd_score(row[column + 1]);
    }
#pragma unroll
    for (int away = 16; away > 0; away /= 2) sum += __shfl_down_sync(0xffffffffu, sum, away);
    if (lane == 0) out[r] = sum;
}

// ---- polynomial: out[i] = Σ_k coefficients[k] · in[i]^k, k = 0 … 16 ---------------------------------------------------------------

constexpr int kTerms = 17;

__global__ void __launch_bounds__(256) polynomial_baseline(const float* __restrict__ in, const float* __restrict__ coefficients, float* __restrict__ out, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    float sum = 0;
    for (int k = 0; k < kTerms; ++k) sum += coefficients[k] * powf(in[i], static_cast<float>(k));
    out[i] = sum;
}

// Horner's rule; four elements a thread, a block's width apart, so that four loads are under way.
__global__ void __launch_bounds__(256) polynomial_improved(const float* __restrict__ in, const float* __restrict__ coefficients, float* __restrict__ out, int count) {
    constexpr int kEach = 4;
    const int first = static_cast<int>(blockIdx.x * blockDim.x) * kEach + static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
    float x[kEach], sum[kEach];
#pragma unroll
    for (int e = 0; e < kEach; ++e) x[e] = first + e * step < count ? in[first + e * step] : 0, sum[e] = 0;
#pragma unroll
    for (int k = kTerms - 1; k >= 0; --k) {
        const float coefficient = coefficients[k];
#pragma unroll
        for (int e = 0; e < kEach; ++e) sum[e] = fmaf(sum[e], x[e], coefficient);
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        if (first + e * step < count) out[first + e * step] = sum[e];
    }
}

// ---- blur: Gaussian, 15 × 15 pixels, standard deviation 3, the border's pixels repeated beyond it ----------------------------------

constexpr int kBlurRadius = 7, kBlurTaps = 2 * kBlurRadius + 1;

__device__ inline int inside(int i, int count) { return min(max(i, 0), count - 1); }

// By the formula: 225 taps, each with its exponential.
__global__ void __launch_bounds__(256) blur_baseline(const float* __restrict__ in, float* __restrict__ out, int height, int width) {
    const int row = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), column = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= height || column >= width) return;
    float sum = 0, weights = 0;
    for (int dy = -kBlurRadius; dy <= kBlurRadius; ++dy) {
        for (int dx = -kBlurRadius; dx <= kBlurRadius; ++dx) {
            const float weight = expf(static_cast<float>(-(dy * dy + dx * dx)) / 18.0f);
            sum += weight * in[static_cast<long long>(inside(row + dy, height)) * width + inside(column + dx, width)];
            weights += weight;
        }
    }
    out[static_cast<long long>(row) * width + column] = sum / weights;
}

// exp(−d²/18) over the sum of all fifteen, for d = 0 … 7.
__device__ constexpr float blur_weight(int d) {
    constexpr float weights[kBlurRadius + 1] = {0.13459835f, 0.12732458f, 0.10777793f, 0.08163802f, 0.05533504f, 0.03356240f, 0.01821591f, 0.00884695f};
    return weights[d < 0 ? -d : d];
}

// Along the rows into shared memory, then down the columns: 30 taps. A block of 32 × 8 threads makes 32 × 32 pixels; a thread has
// four of them in a column, and reads each value of that column once.
__global__ void __launch_bounds__(256) blur_improved(const float* __restrict__ in, float* __restrict__ out, int height, int width) {
    constexpr int kSide = 32, kEach = 4, kWide = kSide + 2 * kBlurRadius;
    __shared__ float tile[kWide][kWide], along[kWide][kSide];
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int top = static_cast<int>(blockIdx.y) * kSide, left = static_cast<int>(blockIdx.x) * kSide;
    for (int r = y; r < kWide; r += 8) {
        const float* line = in + static_cast<long long>(inside(top + r - kBlurRadius, height)) * width;
        tile[r][x] = line[inside(left + x - kBlurRadius, width)];
        if (x < kWide - kSide) tile[r][x + kSide] = line[inside(left + x + kSide - kBlurRadius, width)];
    }
    __syncthreads();
    for (int r = y; r < kWide; r += 8) {
        float sum = 0;
#pragma unroll
        for (int d = 0; d < kBlurTaps; ++d) sum = fmaf(blur_weight(d - kBlurRadius), tile[r][x + d], sum);
        along[r][x] = sum;
    }
    __syncthreads();
    float sums[kEach] = {};
#pragma unroll
    for (int d = 0; d < kBlurTaps + kEach - 1; ++d) {
        const float value = along[y * kEach + d][x];
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
            if (d - e >= 0 && d - e < kBlurTaps) sums[e] = fmaf(blur_weight(d - e - kBlurRadius), value, sums[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
        const int row = top + y * kEach + e;
        if (row < height && left + x < width) out[static_cast<long long>(row) * width + left + x] = sums[e];
    }
}

}  // namespace lab::exercises_ncu
