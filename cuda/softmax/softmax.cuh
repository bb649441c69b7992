// Softmax over rows: a matrix of `rows` × `columns` in, exp(x − m) / Σ exp(x − m) of each row out (m: the row's largest).
// Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel computes in fp32 and takes fp32 or bf16. The steps differ in how often they touch memory:
//   three_passes   reads the row for its largest element, again for the sum, again to write         3 reads, 1 write
//   online         one reading for both, correcting the sum whenever the largest grows              2 reads, 1 write
//   on_chip        the row waits in shared memory between reading and writing                       1 read,  1 write
//   vectorized     … in registers, moved 16 bytes a thread at a time, one barrier a row             1 read,  1 write
//   warp_rows      short rows: a warp a row, no barrier at all                                      1 read,  1 write
//   cluster        long rows: the blocks of a cluster share a row and swap sums through             1 read,  1 write
//                  distributed shared memory (compute capability 9.0)
//   bulk           … and the copy engine fetches the next row meanwhile (compute capability 9.0)    1 read,  1 write
//
// NaN and infinities behave as in PyTorch: a row with a NaN, with +∞, or with nothing but −∞ becomes NaN; other −∞ become 0.
#pragma once

#include "../common/rows.cuh"

namespace lab {
namespace softmax {

using namespace rows;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }

// e^x by the exponential unit, which computes 2^x; results below the normal range become 0.
__device__ __forceinline__ float exponential(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.442695041f));
    return y;
}

// What is known of a part of a row: its largest element, and Σ exp(x − largest).
struct Partial {
    float largest, sum;
};

// What to subtract: the largest, but 0 for a part of nothing but −∞, since −∞ − (−∞) is NaN where e^−∞ = 0 is meant.
__device__ __forceinline__ float base_of(float largest) { return largest == minus_infinity() ? 0.0f : largest; }

__device__ __forceinline__ Partial join(Partial a, Partial b) {
    const float largest = fmaxf(a.largest, b.largest), base = base_of(largest);
    return {largest, a.sum * exponential(a.largest - base) +
                         b.sum * exponential(b.largest - base)};
}

// The partials of a warp's lanes together, known to all of them.
__device__ __forceinline__ Partial over_warp(Partial p) {
    const float largest = warp_largest(p.largest);
    return {largest, warp_sum(p.sum * exponential(p.largest - base_of(largest)))};
}

// `count` partials in shared memory together, known to all lanes of the warps that call this.
__device__ __forceinline__ Partial over_list(const float2* list, int count) {
    Partial p{minus_infinity(), 0.0f};
    for (int i = lane(); i < count; i += kWarp) p = join(p, {list[i].x, list[i].y});
    return over_warp(p);
}

// What takes a warp from the exponentials of its own part to the row's softmax.
__device__ __forceinline__ float scale_of(Partial mine, Partial whole) {
    return exponential(mine.largest - base_of(whole.largest)) / whole.sum;
}

// Step 1. One block per row, every pass from memory.
template <typename T>
__global__ void __launch_bounds__(1024) three_passes(const T* __restrict__ in, T* __restrict__ out, long long rows, int columns) {
    __shared__ float scratch[kWarp];
    const T* x = in + blockIdx.x * static_cast<long long>(columns);
    T* y = out + blockIdx.x * static_cast<long long>(columns);
    float largest = minus_infinity(), sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, widen(x[i]));
    largest = warp_largest(largest);
    if (lane() == 0) scratch[warp()] = largest;
    __syncthreads();
    largest = warp_largest(lane() < warps() ? scratch[lane()] : minus_infinity());
    __syncthreads();
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += exponential(widen(x[i]) - largest);
    sum = block_sum(sum, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = narrow<T>(exponential(widen(x[i]) - largest) / sum);
}

// Step 2. Each thread keeps the largest so far and the sum that belongs to it: Σ exp(x − new) = Σ exp(x − old) · exp(old − new).
template <typename T>
__global__ void __launch_bounds__(1024) online(const T* __restrict__ in, T* __restrict__ out, long long rows, int columns) {
    __shared__ float2 scratch[kWarp];
    const T* x = in + blockIdx.x * static_cast<long long>(columns);
    T* y = out + blockIdx.x * static_cast<long long>(columns);
    Partial p{minus_infinity(), 0.0f};
    for (int i = threadIdx.x; i < columns; i += blockDim.x) p = join(p, {widen(x[i]), 1.0f});
    p = over_warp(p);
    if (lane() == 0) scratch[warp()] = make_float2(p.largest, p.sum);
    __syncthreads();
    p = over_list(scratch, warps());
    const float scale = 1.0f / p.sum;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = narrow<T>(exponential(widen(x[i]) - p.largest) * scale);
}

// Step 3. The row comes in once and waits in shared memory, 4 bytes an element: columns · 4 bytes of dynamic shared memory.
template <typename T>
__global__ void __launch_bounds__(1024) on_chip(const T* __restrict__ in, T* __restrict__ out, long long rows, int columns) {
    extern __shared__ float kept[];
    __shared__ float2 scratch[kWarp];
    const T* x = in + blockIdx.x * static_cast<long long>(columns);
    T* y = out + blockIdx.x * static_cast<long long>(columns);
    Partial p{minus_infinity(), 0.0f};
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        kept[i] = widen(x[i]);
        p = join(p, {kept[i], 1.0f});
    }
    p = over_warp(p);
    if (lane() == 0) scratch[warp()] = make_float2(p.largest, p.sum);
    __syncthreads();
    p = over_list(scratch, warps());
    const float scale = 1.0f / p.sum;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = narrow<T>(exponential(kept[i] - p.largest) * scale);
}

// Replaces x by exp(x − the warp's largest), so that one exchange with the other warps is left, not two.
template <typename T, int kEach>
__device__ __forceinline__ Partial soften(Held<T, kEach>& row) {
    float largest = minus_infinity(), sum = 0;
#pragma unroll
    for (int s = 0; s < kEach / kFull<T>; ++s) {
#pragma unroll
        for (int v = 0; v < kFull<T>; ++v) largest = fmaxf(largest, row.at[s][v]);
    }
    largest = warp_largest(largest);
    const float base = base_of(largest);
#pragma unroll
    for (int s = 0; s < kEach / kFull<T>; ++s) {
#pragma unroll
        for (int v = 0; v < kFull<T>; ++v) {
            row.at[s][v] = exponential(row.at[s][v] - base);
            sum += row.at[s][v];
        }
    }
    return {largest, warp_sum(sum)};
}

template <typename T, int kEach>
__device__ __forceinline__ void multiply(Held<T, kEach>& row, float scale) {
#pragma unroll
    for (int s = 0; s < kEach / kFull<T>; ++s) {
#pragma unroll
        for (int v = 0; v < kFull<T>; ++v) row.at[s][v] *= scale;
    }
}

// Step 4. One block per row, the row in registers, 16 bytes per access: up to kThreads ·
// kEach elements.
template <typename T, int kEach, int kThreads>
__global__ void __launch_bounds__(kThreads)
    vectorized(const T* __restrict__ in, T* __restrict__ out, long long rows,
               int columns) {
    __shared__ float2 partials[kThreads / kWarp];
    const bool aligned = starts_align<T>(in, out, columns);
    const long long start = blockIdx.x * static_cast<long long>(columns);
    Held<T, kEach> row;
    row.template read<true>(in + start, columns, aligned, threadIdx.x, kThreads,
                            minus_infinity());
    const Partial mine = soften(row);
    if (lane() == 0) partials[warp()] = make_float2(mine.largest, mine.sum);
    __syncthreads();
    multiply(row, scale_of(mine, over_list(partials, kThreads / kWarp)));
    row.template write<true>(out + start, columns, aligned, threadIdx.x, kThreads);
}

// Step 5. Short rows: one warp per row, kThreads / 32 rows per block. A warp needs no barrier
// to agree with itself.
template <typename T, int kEach, int kThreads>
__global__ void __launch_bounds__(kThreads) warp_rows(const T* __restrict__ in, T* __restrict__ out, long long rows, int columns) {
    const long long index = blockIdx.x * static_cast<long long>(kThreads / kWarp) + warp();
    if (index >= rows) return;
    const bool aligned = starts_align<T>(in, out, columns);
    Held<T, kEach> row;
    row.template read<true>(in + index * columns, columns, aligned, lane(), kWarp, minus_infinity());
    const Partial mine = soften(row);
    multiply(row, scale_of(mine, mine));
    row.template write<true>(out + index * columns, columns, aligned, lane(), kWarp);
}

// Step 6. Long rows: a cluster of kParts blocks a row, a slice a block, each slice in
// its block's registers. The blocks read each other's partials through distributed
// shared memory. Grid: rows · kParts.
template <typename T, int kEach, int kThreads, int kParts>
__global__ void LAB_CLUSTER(kParts) __launch_bounds__(kThreads)
    cluster(const T* __restrict__ in, T* __restrict__ out, long long rows,
            int columns) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr int kWarps = kThreads / kWarp;
    __shared__ float2 partials[kWarps];
    const bool aligned = starts_align<T>(in, out, columns);
    const Slice slice = slice_of<T>(columns, kParts, cluster_rank());
    const long long start =
        blockIdx.x / kParts * static_cast<long long>(columns) + slice.first;
    Held<T, kEach> row;
    row.template read<true>(in + start, slice.length, aligned, threadIdx.x, kThreads,
                            minus_infinity());
    const Partial mine = soften(row);
    if (lane() == 0) partials[warp()] = make_float2(mine.largest, mine.sum);
    cluster_arrive();
    cluster_wait();
    Partial p{minus_infinity(), 0.0f};
    for (int i = lane(); i < kParts * kWarps; i += kWarp) {
        const float2 other = read_from(i / kWarps, &partials[i % kWarps]);
        p = join(p, {other.x, other.y});
    }
    cluster_arrive();  // «I have read»: nobody leaves, and takes its shared memory
                       // along, before everybody has
    multiply(row, scale_of(mine, over_warp(p)));
    row.template write<true>(out + start, slice.length, aligned, threadIdx.x, kThreads);
    cluster_wait();
#endif
}

// Step 7. A cluster takes several rows, one after another. The copy engine fetches them
// into a ring of kStages buffers, so that reading goes on while a row is computed and
// written. The blocks of a cluster send each other their partials, and a barrier that
// counts the bytes that have come tells when all are there: one wait a row, and nobody
// asks for anything. Grid: any multiple of kParts. Dynamic shared memory: kStages
// slices. Rows that do not start on 16 bytes, which the copy engine cannot fetch, are
// read by the threads.
//
// Measured on an H200 and left out, since each made it slower: results handed to the
// copy engine instead of being stored by the threads; loads marked as the first to
// leave the L2; streaming stores, which help all the other steps.
template <typename T, int kEach, int kThreads, int kParts, int kStages, int kBlocks>
__global__ void LAB_CLUSTER(kParts) __launch_bounds__(kThreads, LAB_CLUSTER_BLOCKS(kBlocks))
    bulk(const T* __restrict__ in, T* __restrict__ out, long long rows, int columns) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr int kWarps = kThreads / kWarp;
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ float2 partials[2][kParts * kWarps];
    __shared__ Barrier full[kStages], gathered[2];
    const bool aligned = starts_align<T>(in, out, columns);
    const int part = kParts == 1 ? 0 : cluster_rank();
    const Slice slice = slice_of<T>(columns, kParts, part);
    const unsigned pitch = slice_length<T>(columns, kParts) * static_cast<unsigned>(sizeof(T));
    const long long step = gridDim.x / kParts;
    const auto fetch_row = [&](long long index, int stage) {
        const unsigned bytes = slice.length * static_cast<unsigned>(sizeof(T));
        expect(&full[stage], bytes);
        if (bytes != 0) fetch(ring + stage * pitch, in + index * columns + slice.first, bytes, &full[stage]);
    };
    long long index = blockIdx.x / kParts;
    if (threadIdx.x == 0) {
        for (int s = 0; s < kStages; ++s) set_up(&full[s], 1);
        set_up(&gathered[0], 1);
        set_up(&gathered[1], 1);
        publish_barriers();
        for (int s = 0; s < kStages && aligned; ++s) {
            if (index + s * step < rows) fetch_row(index + s * step, s);
        }
    }
    cluster_sync<kParts>();  // the barriers of all blocks are set up
    int stage = 0;
    unsigned full_parity = 0;
    for (unsigned turn = 0; index < rows; index += step, ++turn) {
        const unsigned side = turn & 1;  // whoever is a row ahead writes to the other
                                         // side; nobody can be two ahead
        if (kParts > 1 && threadIdx.x == 0)
            expect(&gathered[side], kParts * kWarps * sizeof(float2));
        Held<T, kEach> row;
        if (aligned) {
            wait(&full[stage], full_parity);
            row.template read<false>(reinterpret_cast<const T*>(ring + stage * pitch),
                                     slice.length, true, threadIdx.x, kThreads,
                                     minus_infinity());
        } else {
            row.template read<true>(in + index * columns + slice.first, slice.length,
                                    false, threadIdx.x, kThreads, minus_infinity());
        }
        const Partial mine = soften(row);
        if constexpr (kParts == 1) {  // one block: its shared memory and its barrier do
            if (lane() == 0) partials[side][warp()] = make_float2(mine.largest, mine.sum);
            __syncthreads();
        } else {
            if (lane() < kParts)
                send(lane(), make_float2(mine.largest, mine.sum),
                     &partials[side][part * kWarps + warp()], &gathered[side]);
            wait(&gathered[side], (turn >> 1) & 1);
        }
        // Every warp of this block has sent its partial, so it has read its share of
        // the buffer: the buffer is free.
        if (threadIdx.x == 0 && aligned && index + kStages * step < rows)
            fetch_row(index + kStages * step, stage);
        multiply(row, scale_of(mine, over_list(partials[side], kParts * kWarps)));
        row.template write<false>(out + index * columns + slice.first, slice.length,
                                  aligned, threadIdx.x, kThreads);
        if (++stage == kStages) {
            stage = 0;
            full_parity ^= 1;
        }
    }
    cluster_sync<kParts>();  // nobody leaves while a message to it may be under way
#endif
}

}  // namespace softmax
}  // namespace lab
