// RMSNorm over rows: a matrix of `rows` × `columns` and a weight a column in, x / √(mean(x²) + epsilon) · weight out.
// Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
//
// Every kernel computes in fp32 and takes fp32 or bf16. The steps differ in how often they touch memory:
//   two_passes   reads the row for its sum of squares, again to write                              2 reads, 1 write
//   on_chip      the row waits in shared memory between reading and writing                        1 read,  1 write
//   vectorized   … in registers, moved 16 bytes a thread at a time, one barrier a row              1 read,  1 write
//   warp_rows    short rows: a warp a row, no barrier at all                                       1 read,  1 write
//   cluster      long rows: the blocks of a cluster share a row and swap sums through              1 read,  1 write
//                distributed shared memory (compute capability 9.0)
//   bulk         … and the copy engine fetches the next rows meanwhile; the weights stay in        1 read,  1 write
//                registers (compute capability 9.0)
// All but the last read the weights again for each row: from a cache, but that is a third stream through the L2.
#pragma once

#include "../common/rows.cuh"

namespace lab {
namespace rmsnorm {

using namespace rows;

__device__ __forceinline__ float scale_of(float squares, int columns, float epsilon) {
    return rsqrtf(squares / static_cast<float>(columns) + epsilon);
}

// Step 1. One block per row, both passes from memory.
template <typename T>
__global__ void __launch_bounds__(1024)
    two_passes(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
    __shared__ float scratch[kWarp];
    const T* x = in + blockIdx.x * static_cast<long long>(columns);
    T* y = out + blockIdx.x * static_cast<long long>(columns);
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares = fmaf(widen(x[i]), widen(x[i]), squares);
    const float scale = scale_of(block_sum(squares, scratch), columns, epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = narrow<T>(widen(x[i]) * scale * widen(weight[i]));
}

// Step 2. The row comes in once and waits in shared memory, 4 bytes an element: columns · 4 bytes of dynamic shared memory.
template <typename T>
__global__ void __launch_bounds__(1024)
    on_chip(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
    extern __shared__ float kept[];
    __shared__ float scratch[kWarp];
    const T* x = in + blockIdx.x * static_cast<long long>(columns);
    T* y = out + blockIdx.x * static_cast<long long>(columns);
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const float value = widen(x[i]);
        kept[i] = value;
        squares = fmaf(value, value, squares);
    }
    const float scale = scale_of(block_sum(squares, scratch), columns, epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) y[i] = narrow<T>(kept[i] * scale * widen(weight[i]));
}

template <typename T, int kEach, template <typename, int> typename Row>
__device__ __forceinline__ float warp_squares(const Row<T, kEach>& row) {
    float squares = 0;
#pragma unroll
    for (int s = 0; s < kEach / kFull<T>; ++s) {
#pragma unroll
        for (int v = 0; v < kFull<T>; ++v) squares = fmaf(row.get(s, v), row.get(s, v), squares);
    }
    return warp_sum(squares);
}

// With the weights from memory, where the row is about to be written: a vector at a time, to spare registers.
template <typename T, int kEach>
__device__ __forceinline__ void multiply(Held<T, kEach>& row, float scale, const T* weight, int length, bool aligned, int thread, int threads) {
    if (aligned) {
#pragma unroll
        for (int s = 0; s < kEach / kFull<T>; ++s) {
            const int i = (s * threads + thread) * kFull<T>;
            if (i < length) {
                const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(weight + i);
#pragma unroll
                for (int v = 0; v < kFull<T>; ++v) row.at[s][v] *= scale * widen(pack.at[v]);
            }
        }
    } else {
#pragma unroll
        for (int s = 0; s < kEach / kFull<T>; ++s) {
#pragma unroll
            for (int v = 0; v < kFull<T>; ++v) {
                const int i = (s * kFull<T> + v) * threads + thread;
                if (i < length) row.at[s][v] *= scale * widen(weight[i]);
            }
        }
    }
}

template <typename T>
__device__ __forceinline__ bool all_align(const void* in, const void* weight, const void* out, int columns) {
    return starts_align<T>(in, out, columns) && starts_align<T>(weight, weight, columns);
}

// Step 3. One block per row, the row in registers, 16 bytes per access: up to kThreads · kEach elements.
template <typename T, int kEach, int kThreads>
__global__ void __launch_bounds__(kThreads)
    vectorized(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
    __shared__ float sums[kThreads / kWarp];
    const bool aligned = all_align<T>(in, weight, out, columns);
    const long long start = blockIdx.x * static_cast<long long>(columns);
    Held<T, kEach> row;
    row.template read<true>(in + start, columns, aligned, threadIdx.x, kThreads, 0.0f);
    const float mine = warp_squares(row);
    if (lane() == 0) sums[warp()] = mine;
    __syncthreads();
    const float squares = warp_sum(lane() < kThreads / kWarp ? sums[lane()] : 0.0f);
    multiply(row, scale_of(squares, columns, epsilon), weight, columns, aligned, threadIdx.x, kThreads);
    row.template write<true>(out + start, columns, aligned, threadIdx.x, kThreads);
}

// Step 4. Short rows: one warp per row, kThreads / 32 rows per block. A warp needs no barrier to agree with itself.
template <typename T, int kEach, int kThreads>
__global__ void __launch_bounds__(kThreads)
    warp_rows(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
    const long long index = blockIdx.x * static_cast<long long>(kThreads / kWarp) + warp();
    if (index >= rows) return;
    const bool aligned = all_align<T>(in, weight, out, columns);
    Held<T, kEach> row;
    row.template read<true>(in + index * columns, columns, aligned, lane(), kWarp, 0.0f);
    multiply(row, scale_of(warp_squares(row), columns, epsilon), weight, columns, aligned, lane(), kWarp);
    row.template write<true>(out + index * columns, columns, aligned, lane(), kWarp);
}

// Step 5. Long rows: a cluster of kParts blocks a row, a slice a block, each slice in its block's registers. The blocks read
// each other's sums through distributed shared memory. Grid: rows · kParts.
template <typename T, int kEach, int kThreads, int kParts>
__global__ void LAB_CLUSTER(kParts) __launch_bounds__(kThreads)
    cluster(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr int kWarps = kThreads / kWarp;
    __shared__ float sums[kWarps];
    const bool aligned = all_align<T>(in, weight, out, columns);
    const Slice slice = slice_of<T>(columns, kParts, cluster_rank());
    const long long start = blockIdx.x / kParts * static_cast<long long>(columns) + slice.first;
    Held<T, kEach> row;
    row.template read<true>(in + start, slice.length, aligned, threadIdx.x, kThreads, 0.0f);
    const float mine = warp_squares(row);
    if (lane() == 0) sums[warp()] = mine;
    cluster_arrive();
    cluster_wait();
    float squares = 0;
    for (int i = lane(); i < kParts * kWarps; i += kWarp) squares += read_from(i / kWarps, &sums[i % kWarps]);
    cluster_arrive();  // «I have read»: nobody leaves, and takes its shared memory along, before everybody has
    multiply(row, scale_of(warp_sum(squares), columns, epsilon), weight + slice.first, slice.length, aligned, threadIdx.x, kThreads);
    row.template write<true>(out + start, slice.length, aligned, threadIdx.x, kThreads);
    cluster_wait();
#endif
}

// Step 6. A cluster takes several rows, one after another, so that a block meets the same columns again and again and keeps their
// weights in registers. The copy engine fetches rows into a ring of kStages buffers, so that reading goes on while a row is
// computed and written. Rows and weights of bf16 stay two to a register. The blocks of a cluster send each other their sums, and a
// barrier that counts the bytes that have come tells when all are there. Grid: any multiple of kParts. Dynamic shared memory:
// kStages slices. Rows that do not start on 16 bytes, which the copy engine cannot fetch, are read by the threads.
template <typename T, int kEach, int kThreads, int kParts, int kStages, int kBlocks>
__global__ void LAB_CLUSTER(kParts) __launch_bounds__(kThreads, LAB_CLUSTER_BLOCKS(kBlocks))
    bulk(const T* __restrict__ in, const T* __restrict__ weight, T* __restrict__ out, long long rows, int columns, float epsilon) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    constexpr int kWarps = kThreads / kWarp;
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ float sums[2][kParts * kWarps];
    __shared__ Barrier full[kStages], gathered[2];
    const bool aligned = all_align<T>(in, weight, out, columns);
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
    Packed<T, kEach> weights;
    weights.read(weight + slice.first, slice.length, aligned, threadIdx.x, kThreads);
    cluster_sync<kParts>();  // the barriers of all blocks are set up
    int stage = 0;
    unsigned full_parity = 0;
    for (unsigned turn = 0; index < rows; index += step, ++turn) {
        const unsigned side = turn & 1;  // whoever is a row ahead writes to the other
                                         // side; nobody can be two ahead
        if (kParts > 1 && threadIdx.x == 0)
            expect(&gathered[side], kParts * kWarps * sizeof(float));
        Packed<T, kEach> row;
        if (aligned) {
            wait(&full[stage], full_parity);
            row.read(reinterpret_cast<const T*>(ring + stage * pitch), slice.length, true,
                     threadIdx.x, kThreads);
        } else {
            row.read(in + index * columns + slice.first, slice.length, false,
                     threadIdx.x, kThreads);
        }
        const float mine = warp_squares(row);
        if constexpr (kParts == 1) {  // one block: its shared memory and its barrier do
            if (lane() == 0) sums[side][warp()] = mine;
            __syncthreads();
        } else {
            if (lane() < kParts)
                send(lane(), mine, &sums[side][part * kWarps + warp()], &gathered[side]);
            wait(&gathered[side], (turn >> 1) & 1);
        }
        // Every warp of this block has sent its sum, so it has read its share of the
        // buffer: the buffer is free.
        if (threadIdx.x == 0 && aligned && index + kStages * step < rows)
            fetch_row(index + kStages * step, stage);
        float squares = 0;
        for (int i = lane(); i < kParts * kWarps; i += kWarp) squares += sums[side][i];
        const float scale = scale_of(warp_sum(squares), columns, epsilon);
        row.keep_packed();
        weights.keep_packed();
        row.write(out + index * columns + slice.first, slice.length, aligned,
                  threadIdx.x, kThreads, [&](int s, int v) {
                      return row.get(s, v) * (scale * weights.get(s, v));
                  });
        if (++stage == kStages) {
            stage = 0;
            full_parity ^= 1;
        }
    }
    cluster_sync<kParts>();  // nobody leaves while a message to it may be under way
#endif
}

}  // namespace rmsnorm
}  // namespace lab
