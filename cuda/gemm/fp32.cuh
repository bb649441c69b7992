// Matmul in fp32: A (m × k) and B (k × n) in, C = A·B (m × n) out, all row by row, rows lda, ldb and ldc elements apart.
// Device code only, for nvcc and NVRTC alike. Any m, n, k and leading dimensions.
// SPDX-License-Identifier: Apache-2.0
//
// A product of n × n matrices does 2n³ operations on 3n² elements: at n = 4096, 1365 operations for each element that has to
// move. What decides is how often an element is fetched again, first from memory, then from shared memory, then from registers:
//   naive        a thread an element of C; the lanes of a warp read 32 rows of A      2 loads for 1 multiply-add
//   coalesced    … the lanes lie along a row of C                                     2 loads, 1 of them for all lanes
//   shared_tile  32 × 32 tiles wait in shared memory: memory is read n/32 times       2 shared loads for 1 multiply-add
//   strips       a thread 8 elements of a column                                      9 shared loads for 8
//   squares      a thread 8 × 8                                                       16 shared loads for 64
//   staged       … loads of 16 bytes; A turned on its way; then by tiles of warps     4 shared loads for 64
//   pipelined    … the next tiles come by asynchronous copies, the next fragments while these are multiplied
//
// Counters that show each step (Nsight Compute): sectors a load, l1tex__t_{sectors,requests}_pipe_lsu_mem_global_op_ld.sum (naive →
// coalesced), and how few of these loads there are (→ shared_tile); shared loads for a multiply-add,
// smsp__sass_inst_executed_op_shared_ld.sum (→ strips → squares); wavefronts a shared load,
// l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum (→ vectorized); stalls on barriers and on memory,
// smsp__average_warps_issue_stalled_{barrier,long_scoreboard}_per_issue_active.ratio (→ double_buffer → autotuned); over all of them the
// share of cycles in which the pipe of multiply-adds is busy, sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active.
#pragma once

#include "instructions.cuh"

namespace lab {
namespace gemm {

// Step 1. The lanes go down a column of C: each of a warp's 32 reads of A goes to another row, a sector of 32 bytes for 4 of use.
constexpr int kSide = 32;
static __global__ void __launch_bounds__(kSide* kSide) naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                                            int m, int n, int k, int lda, int ldb, int ldc) {
    const int row = blockIdx.y * kSide + threadIdx.x, column = blockIdx.x * kSide + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[static_cast<Size>(row) * lda + i] * b[static_cast<Size>(i) * ldb + column];
    c[static_cast<Size>(row) * ldc + column] = sum;
}

// Step 2. The lanes go along a row of C: a warp reads one element of A for all and a whole line of B.
static __global__ void __launch_bounds__(kSide* kSide) coalesced(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                                                int m, int n, int k, int lda, int ldb, int ldc) {
    const int row = blockIdx.y * kSide + threadIdx.y, column = blockIdx.x * kSide + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[static_cast<Size>(row) * lda + i] * b[static_cast<Size>(i) * ldb + column];
    c[static_cast<Size>(row) * ldc + column] = sum;
}

// Step 3. A block goes through its rows of A and columns of B tile by tile; what one thread fetches, 32 use.
static __global__ void __launch_bounds__(kSide* kSide) shared_tile(const float* __restrict__ a, const float* __restrict__ b,
                                                                  float* __restrict__ c, int m, int n, int k, int lda, int ldb, int ldc) {
    __shared__ float as[kSide][kSide], bs[kSide][kSide];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * kSide + y, column = blockIdx.x * kSide + x;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += kSide) {
        as[y][x] = row < m && k0 + x < k ? a[static_cast<Size>(row) * lda + k0 + x] : 0.0f;
        bs[y][x] = k0 + y < k && column < n ? b[static_cast<Size>(k0 + y) * ldb + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kSide; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    if (row < m && column < n) c[static_cast<Size>(row) * ldc + column] = sum;
}

// Copies a tile element by element, zeros for what lies outside the matrix.
template <int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void copy_tile(const float* from, int ld, int row, int column, int rows, int columns, float* to) {
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kColumns; i += kThreads) {
        const int r = row + i / kColumns, s = column + i % kColumns;
        to[i] = r < rows && s < columns ? from[static_cast<Size>(r) * ld + s] : 0.0f;
    }
}

// Step 4. A thread a strip of 8 elements down a column: an element of B, once in a register, serves 8 multiply-adds.
constexpr int kStrip = 8, kStripTile = 64, kStripThreads = 512;
static __global__ void __launch_bounds__(kStripThreads) strips(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                                              int m, int n, int k, int lda, int ldb, int ldc) {
    __shared__ float as[kStripTile * kStrip], bs[kStrip * kStripTile];
    const int row0 = blockIdx.y * kStripTile, column0 = blockIdx.x * kStripTile;
    const int x = threadIdx.x % kStripTile, y = threadIdx.x / kStripTile * kStrip;
    float sum[kStrip] = {};
    for (int k0 = 0; k0 < k; k0 += kStrip) {
        copy_tile<kStripTile, kStrip, kStripThreads>(a, lda, row0, k0, m, k, as);
        copy_tile<kStrip, kStripTile, kStripThreads>(b, ldb, k0, column0, k, n, bs);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kStrip; ++i) {
            const float of_b = bs[i * kStripTile + x];
#pragma unroll
            for (int r = 0; r < kStrip; ++r) sum[r] += as[(y + r) * kStrip + i] * of_b;
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kStrip; ++r) {
        if (row0 + y + r < m && column0 + x < n) c[static_cast<Size>(row0 + y + r) * ldc + column0 + x] = sum[r];
    }
}

// Step 5. A thread a square of 8 × 8: of 16 elements in registers each serves 8 multiply-adds.
constexpr int kSquare = 8, kSquareTile = 128, kSquareDepth = 8, kSquareThreads = 256;
static __global__ void __launch_bounds__(kSquareThreads, 2)
    squares(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k, int lda, int ldb, int ldc) {
    __shared__ float as[kSquareTile * kSquareDepth], bs[kSquareDepth * kSquareTile];
    constexpr int kAcross = kSquareTile / kSquare;
    const int row0 = blockIdx.y * kSquareTile, column0 = blockIdx.x * kSquareTile;
    const int x = threadIdx.x % kAcross * kSquare, y = threadIdx.x / kAcross * kSquare;
    float sum[kSquare][kSquare] = {};
    for (int k0 = 0; k0 < k; k0 += kSquareDepth) {
        copy_tile<kSquareTile, kSquareDepth, kSquareThreads>(a, lda, row0, k0, m, k, as);
        copy_tile<kSquareDepth, kSquareTile, kSquareThreads>(b, ldb, k0, column0, k, n, bs);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kSquareDepth; ++i) {
            float of_a[kSquare], of_b[kSquare];
#pragma unroll
            for (int r = 0; r < kSquare; ++r) of_a[r] = as[(y + r) * kSquareDepth + i];
#pragma unroll
            for (int s = 0; s < kSquare; ++s) of_b[s] = bs[i * kSquareTile + x + s];
#pragma unroll
            for (int r = 0; r < kSquare; ++r) {
#pragma unroll
                for (int s = 0; s < kSquare; ++s) sum[r][s] += of_a[r] * of_b[s];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < kSquare; ++r) {
#pragma unroll
        for (int s = 0; s < kSquare; ++s) {
            if (row0 + y + r < m && column0 + x + s < n) c[static_cast<Size>(row0 + y + r) * ldc + column0 + x + s] = sum[r][s];
        }
    }
}

// ---- words of 16 bytes, tiles of warps, pipelines ----------------------------------------------------------------------------

// How a block's tile of kM × kN is shared out: kDown × kAcross lanes a group, each kRows × kColumns elements. The groups are
// warps (kWarps) or the whole block. kDepth: of a tile along k; kStages: tiles in shared memory; kBlocks: blocks an SM shall hold.
template <int M, int N, int Depth, int Rows, int Columns, int Down, int Across, int Stages, int Blocks>
struct Tiling {
    static constexpr int kM = M, kN = N, kDepth = Depth, kRows = Rows, kColumns = Columns, kDown = Down, kAcross = Across, kStages = Stages,
                         kBlocks = Blocks;
    static constexpr int kThreads = M * N / (Rows * Columns), kGroup = Down * Across;
    static constexpr int kGroupM = Down * Rows, kGroupN = Across * Columns, kGroupsAcross = N / kGroupN;
    // A lies turned, kDepth rows of kM; four more make the rows' starts differ by 4 banks, so that writing a column meets no bank twice.
    static constexpr int kPitch = M + 4, kFloats = Depth * (kPitch + N), kBytes = Stages * kFloats * 4;
    static_assert(M % kGroupM == 0 && N % kGroupN == 0 && kThreads % kGroup == 0 && Rows % 4 == 0 && Columns % 4 == 0, "whole groups");
    static_assert(M * Depth % (4 * kThreads) == 0 && N * Depth % (4 * kThreads) == 0 && Depth % 8 == 0, "whole words a thread");

    // The first of the i-th four rows (columns) of a thread, in the block's tile. A thread's rows come in fours, a group's lanes
    // apart: then neighboring lanes read neighboring words of 16 bytes.
    __host__ __device__ static constexpr int row(int thread, int i) {
        return thread / kGroup / kGroupsAcross * kGroupM + thread % kGroup / Across * 4 + i * 4 * Down;
    }
    __host__ __device__ static constexpr int column(int thread, int j) {
        return thread / kGroup % kGroupsAcross * kGroupN + thread % kGroup % Across * 4 + j * 4 * Across;
    }
};

// Four elements of a row, zeros where it has no more.
__device__ __forceinline__ float4 four(const float* row, int left, bool word) {
    if (word && left >= 4) return *reinterpret_cast<const float4*>(row);
    return {left > 0 ? row[0] : 0.0f, left > 1 ? row[1] : 0.0f, left > 2 ? row[2] : 0.0f, left > 3 ? row[3] : 0.0f};
}

// What a thread needs of row i of the tiles for its multiply-adds.
template <typename T>
struct Fragment {
    float a[T::kRows], b[T::kColumns];
    __device__ __forceinline__ void load(const float* tile, int i) {
        const float* as = tile + i * T::kPitch + T::row(threadIdx.x, 0);
        const float* bs = tile + T::kDepth * T::kPitch + i * T::kN + T::column(threadIdx.x, 0);
#pragma unroll
        for (int r = 0; r < T::kRows / 4; ++r) reinterpret_cast<float4*>(a)[r] = *reinterpret_cast<const float4*>(as + r * 4 * T::kDown);
#pragma unroll
        for (int s = 0; s < T::kColumns / 4; ++s) reinterpret_cast<float4*>(b)[s] = *reinterpret_cast<const float4*>(bs + s * 4 * T::kAcross);
    }
};

template <typename T>
struct Sums {
    float at[T::kRows][T::kColumns] = {};
    __device__ __forceinline__ void add(const Fragment<T>& f) {
#pragma unroll
        for (int r = 0; r < T::kRows; ++r) {
#pragma unroll
            for (int s = 0; s < T::kColumns; ++s) at[r][s] += f.a[r] * f.b[s];
        }
    }
    __device__ __forceinline__ void store(float* c, int row0, int column0, int m, int n, int ldc) const {
        const bool words = on_words(c, ldc);
#pragma unroll
        for (int r = 0; r < T::kRows; ++r) {
            const int row = row0 + T::row(threadIdx.x, r / 4) + r % 4;
            if (row >= m) continue;
#pragma unroll
            for (int s = 0; s < T::kColumns; s += 4) {
                const int column = column0 + T::column(threadIdx.x, s / 4);
                float* to = c + static_cast<Size>(row) * ldc + column;
                if (words && column + 4 <= n) {
                    *reinterpret_cast<float4*>(to) = {at[r][s], at[r][s + 1], at[r][s + 2], at[r][s + 3]};
                } else {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        if (column + i < n) to[i] = at[r][s + i];
                    }
                }
            }
        }
    }
};

// Steps 6 and 7. Words of 16 bytes from memory; A is turned on its way into shared memory, so that a thread reads its elements of
// both tiles as words too. Step 6 gives a thread places by its place in the block; step 7 (groups of 32) by warps: the lanes of a
// warp then lie close together and ask for fewer different words.
template <typename T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) staged(const float* __restrict__ a, const float* __restrict__ b,
                                                                 float* __restrict__ c, int m, int n, int k, int lda, int ldb, int ldc) {
    extern __shared__ float4 words[];
    float* tile = reinterpret_cast<float*>(words);
    const int row0 = blockIdx.y * T::kM, column0 = blockIdx.x * T::kN;
    const bool words_a = on_words(a, lda), words_b = on_words(b, ldb);
    Sums<T> sums;
    for (int k0 = 0; k0 < k; k0 += T::kDepth) {
#pragma unroll
        for (int i = threadIdx.x; i < T::kM * T::kDepth / 4; i += T::kThreads) {
            const int r = i % T::kM, d = i / T::kM * 4;  // down the lanes: a column of the turned tile has no bank twice
            const int row = row0 + r;
            const float4 v = four(a + static_cast<Size>(row) * lda + k0 + d, row < m ? k - k0 - d : 0, words_a);
            tile[d * T::kPitch + r] = v.x, tile[(d + 1) * T::kPitch + r] = v.y;
            tile[(d + 2) * T::kPitch + r] = v.z, tile[(d + 3) * T::kPitch + r] = v.w;
        }
#pragma unroll
        for (int i = threadIdx.x; i < T::kDepth * T::kN / 4; i += T::kThreads) {
            const int d = i / (T::kN / 4), s = i % (T::kN / 4) * 4;
            reinterpret_cast<float4*>(tile + T::kDepth * T::kPitch)[i] =
                four(b + static_cast<Size>(k0 + d) * ldb + column0 + s, k0 + d < k ? n - column0 - s : 0, words_b);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < T::kDepth; ++i) {
            Fragment<T> f;
            f.load(tile, i);
            sums.add(f);
        }
        __syncthreads();
    }
    sums.store(c, row0, column0, m, n, ldc);
}

// Steps 8 and 9. kStages tiles in shared memory: while a block multiplies one, the copies of the next are under way, past all
// registers. A is turned element by element, as 4-byte copies can go anywhere: 8 along k times 4 rows a warp, whole sectors on one
// side, 32 different banks on the other. Fragments are fetched one row ahead. Step 9: the tiling that measured fastest.
template <typename T>
__global__ void __launch_bounds__(T::kThreads, T::kBlocks) pipelined(const float* __restrict__ a, const float* __restrict__ b,
                                                                    float* __restrict__ c, int m, int n, int k, int lda, int ldb, int ldc) {
    extern __shared__ float4 words[];
    float* const shared = reinterpret_cast<float*>(words);
    constexpr int kDown = T::kThreads / 8, kAcross = T::kN / 4;  // rows of A, words of B that one turn of all threads takes
    const int row0 = blockIdx.y * T::kM, column0 = blockIdx.x * T::kN, thread = threadIdx.x;
    const bool words_b = on_words(b, ldb);
    const bool inside = row0 + T::kM <= m && column0 + T::kN <= n && words_b;
    const float* from_a = a + static_cast<Size>(row0 + thread / 8) * lda + thread % 8;
    const float* from_b = b + static_cast<Size>(thread / kAcross) * ldb + column0 + thread % kAcross * 4;
    float* const to_a = shared + thread % 8 * T::kPitch + thread / 8;
    float* const to_b = shared + T::kDepth * T::kPitch + thread * 4;
    const auto fetch = [&](int k0, int slot) {
        float* const slot_a = to_a + slot * T::kFloats;
        float* const slot_b = to_b + slot * T::kFloats;
        if (inside && k0 + T::kDepth <= k) {
#pragma unroll
            for (int d = 0; d < T::kDepth; d += 8) {
#pragma unroll
                for (int r = 0; r < T::kM; r += kDown) copy_async<4>(slot_a + d * T::kPitch + r, from_a + static_cast<Size>(r) * lda + d, 4);
            }
#pragma unroll
            for (int d = 0; d < T::kDepth; d += T::kThreads / kAcross) copy_async<16>(slot_b + d * T::kN, from_b + static_cast<Size>(d) * ldb, 16);
        } else {
            for (int d = 0; d < T::kDepth; d += 8) {
                for (int r = 0; r < T::kM; r += kDown) {
                    const bool valid = row0 + thread / 8 + r < m && k0 + thread % 8 + d < k;
                    copy_async<4>(slot_a + d * T::kPitch + r, valid ? from_a + static_cast<Size>(r) * lda + d : a, valid ? 4 : 0);
                }
            }
            for (int d = 0; d < T::kDepth; d += T::kThreads / kAcross) {
                const int left = k0 + thread / kAcross + d < k ? n - column0 - thread % kAcross * 4 : 0;
                const float* from = from_b + static_cast<Size>(d) * ldb;
                if (words_b && (left >= 4 || left <= 0)) copy_async<16>(slot_b + d * T::kN, left > 0 ? from : b, left > 0 ? 16 : 0);
                else
                    for (int i = 0; i < 4; ++i) copy_async<4>(slot_b + d * T::kN + i, i < left ? from + i : b, i < left ? 4 : 0);
            }
        }
        from_a += T::kDepth, from_b += static_cast<Size>(T::kDepth) * ldb;
    };
    int fetched = 0, into = 0;  // along k; the slot that comes next
    const auto next = [&] {
        if (fetched < k) fetch(fetched, into);
        fetched += T::kDepth;
        into = into + 1 == T::kStages ? 0 : into + 1;
        copies_commit();
    };
#pragma unroll
    for (int s = 0; s < T::kStages - 1; ++s) next();
    copies_wait<T::kStages - 2>();
    __syncthreads();
    Sums<T> sums;
    Fragment<T> fragments[2];
    const float* tile = shared;
    fragments[0].load(tile, 0);
    int slot = 0;
    for (int k0 = 0; k0 < k; k0 += T::kDepth) {
#pragma unroll
        for (int i = 0; i < T::kDepth; ++i) {
            if (i == T::kDepth - 1) {
                copies_wait<T::kStages - 2>();
                __syncthreads();  // the next tile is there, and nobody reads this one any more
                slot = slot + 1 == T::kStages ? 0 : slot + 1;
                tile = shared + slot * T::kFloats;
            }
            fragments[(i + 1) % 2].load(tile, (i + 1) % T::kDepth);
            if (i == 0) next();
            sums.add(fragments[i % 2]);
        }
    }
    copies_wait<0>();
    sums.store(c, row0, column0, m, n, ldc);
}

//                        M    N   depth  thread   lanes  stages blocks
using ByBlock = Tiling<  128, 128,   8,   8,  8, 16, 16,    1,     2>;
using ByWarp = Tiling<   128, 128,   8,   8,  8,  8,  4,    1,     2>;
using TwoStages = Tiling<128, 128,   8,   8,  8,  8,  4,    2,     2>;
using Tuned = Tiling<    128, 256,  16,   8, 16,  8,  4,    3,     1>;

}  // namespace gemm
}  // namespace lab
