// Matmul of bf16 with sums in fp32: A (m × k) and B (k × n) in, C = A·B (m × n) in bf16 out, all row by row, rows lda, ldb
// and ldc elements apart. Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
//
// Tensor cores do in one instruction what hundreds of multiply-adds did; the work is to keep them fed:
//   mma_sync      mma.sync from registers, filled by ldmatrix from swizzled tiles, three tiles under way (compute capability 8.0);
//                 any m, n, k and leading dimensions
//   wgmma_tma     four warps multiply straight from shared memory, the copy engine fills it by tensor maps (9.0, as all below);
//                 the matrices and their rows must start on 16 bytes
//   specialized   one thread asks for tiles, two groups of four warps multiply, a ring of tiles and barriers between them
//     persistent  … a block an SM stays and takes tile after tile: the next tile's data come while this one is written
//     cluster     … two blocks with the same columns share what they fetch of B
//     order       … tiles are taken in bands, so that blocks at work together reuse what L2 holds
//     store       … C leaves through shared memory and the copy engine, in whole lines, while the next tile begins
//     alone       … and the cluster taken back: what it was worth
//
// Counters that show each step (Nsight Compute): how busy the tensor cores are, sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
// (all steps); sectors out of L2, lts__t_sectors_srcunit_tex_op_read.sum (→ cluster), and into it,
// lts__t_sectors_srcunit_tex_op_write.sum (→ store: half as many).
#pragma once

#include "layout.cuh"

namespace lab {
namespace gemm {

// ---- mma.sync ------------------------------------------------------------------------------------------------------------------

constexpr int kMmaM = 128, kMmaN = 128, kMmaK = 64, kMmaStages = 3, kMmaThreads = 256;
constexpr int kMmaWarpM = 64, kMmaWarpN = 32;                                 // of a warp: 2 × 4 warps a block
constexpr int kChunksA = kMmaK / 8, kChunksB = kMmaN / 8;                     // of a row
constexpr int kMmaStage = kMmaM * kChunksA + kMmaK * kChunksB;                // chunks
constexpr int kMmaBytes = kMmaStages * kMmaStage * 16;

// Eight elements of a row, zeros where it has no more: asynchronously where rows start on 16 bytes.
__device__ __forceinline__ void fetch_chunk(uint4* to, const Bf16* from, int left, bool words, const Bf16* anywhere) {
    const int valid = left < 0 ? 0 : left > 8 ? 8 : left;
    if (words) {
        copy_async<16>(to, valid > 0 ? from : anywhere, 2 * valid);
        return;
    }
    alignas(16) unsigned short each[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) each[i] = i < valid ? reinterpret_cast<const unsigned short*>(from)[i] : 0;
    *to = *reinterpret_cast<const uint4*>(each);
}

// Two neighboring elements of C, as far as they are in it. `pairs`: both halves of a pair lie in one aligned word.
__device__ __forceinline__ void store_pair(Bf16* c, int row, int column, int m, int n, int ldc, bool pairs, float x, float y) {
    if (row >= m) return;
    Bf16* const to = c + static_cast<Size>(row) * ldc + column;
    if (pairs && column + 1 < n) {
        *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
    } else {
        if (column < n) to[0] = __float2bfloat16_rn(x);
        if (column + 1 < n) to[1] = __float2bfloat16_rn(y);
    }
}
__device__ __forceinline__ bool on_pairs(const Bf16* c, int ldc) { return reinterpret_cast<Size>(c) % 4 == 0 && ldc % 2 == 0; }

// Step 1.
static __global__ void __launch_bounds__(kMmaThreads, 2) mma_sync(const Bf16* __restrict__ a, const Bf16* __restrict__ b, Bf16* __restrict__ c,
                                                                 int m, int n, int k, int lda, int ldb, int ldc) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    extern __shared__ uint4 chunks[];
    const int row0 = blockIdx.y * kMmaM, column0 = blockIdx.x * kMmaN, thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_row = warp / (kMmaN / kMmaWarpN) * kMmaWarpM, warp_column = warp % (kMmaN / kMmaWarpN) * kMmaWarpN;
    const bool words_a = on_words(a, lda), words_b = on_words(b, ldb);
    // A thread's chunks lie kMmaThreads apart: whole rows, a multiple of eight of them, so that all have one place in the swizzle.
    constexpr int kApartA = kMmaThreads / kChunksA, kApartB = kMmaThreads / kChunksB;
    static_assert(kApartA % 8 == 0 && kApartB % 8 == 0, "the swizzle repeats every eight rows");
    const int row_a = thread / kChunksA, row_b = thread / kChunksB, chunk_a = thread % kChunksA, chunk_b = thread % kChunksB;
    const bool inside = words_a && words_b && row0 + kMmaM <= m && column0 + kMmaN <= n;
    const auto fetch = [&](int k0, int slot) {
        uint4* const as = chunks + slot * kMmaStage + row_a * kChunksA + swizzled(row_a, chunk_a);
        uint4* const bs = chunks + slot * kMmaStage + kMmaM * kChunksA + row_b * kChunksB + swizzled(row_b, chunk_b);
        const Bf16* const from_a = a + static_cast<Size>(row0 + row_a) * lda + k0 + 8 * chunk_a;
        const Bf16* const from_b = b + static_cast<Size>(k0 + row_b) * ldb + column0 + 8 * chunk_b;
        if (inside && k0 + kMmaK <= k) {
#pragma unroll
            for (int r = 0; r < kMmaM; r += kApartA) copy_async<16>(as + r * kChunksA, from_a + static_cast<Size>(r) * lda, 16);
#pragma unroll
            for (int r = 0; r < kMmaK; r += kApartB) copy_async<16>(bs + r * kChunksB, from_b + static_cast<Size>(r) * ldb, 16);
        } else {
#pragma unroll 1
            for (int r = 0; r < kMmaM; r += kApartA) {
                fetch_chunk(as + r * kChunksA, from_a + static_cast<Size>(r) * lda, row0 + row_a + r < m ? k - k0 - 8 * chunk_a : 0, words_a, a);
            }
#pragma unroll 1
            for (int r = 0; r < kMmaK; r += kApartB) {
                fetch_chunk(bs + r * kChunksB, from_b + static_cast<Size>(r) * ldb, k0 + row_b + r < k ? n - column0 - 8 * chunk_b : 0, words_b, b);
            }
        }
    };
    float sums[kMmaWarpM / 16][kMmaWarpN / 8][4] = {};
#pragma unroll
    for (int s = 0; s < kMmaStages - 1; ++s) {
        if (s * kMmaK < k) fetch(s * kMmaK, s);
        copies_commit();
    }
    int slot = 0;
    for (int k0 = 0; k0 < k; k0 += kMmaK) {
        copies_wait<kMmaStages - 2>();
        __syncthreads();  // this tile is there, and nobody reads the one before any more
        const int ahead = k0 + (kMmaStages - 1) * kMmaK;
        if (ahead < k) fetch(ahead, slot == 0 ? kMmaStages - 1 : slot - 1);
        copies_commit();
        const uint4* const as = chunks + slot * kMmaStage;
        const uint4* const bs = as + kMmaM * kChunksA;
#pragma unroll
        for (int i = 0; i < kMmaK / 16; ++i) {
            unsigned of_a[kMmaWarpM / 16][4], of_b[kMmaWarpN / 16][4];
#pragma unroll
            for (int r = 0; r < kMmaWarpM / 16; ++r) {
                const int row = warp_row + 16 * r + lane % 16;
                load_matrices(of_a[r], as + row * kChunksA + swizzled(row, 2 * i + lane / 16));
            }
#pragma unroll
            for (int s = 0; s < kMmaWarpN / 16; ++s) {
                const int row = 16 * i + lane % 16;
                load_turned(of_b[s], bs + row * kChunksB + swizzled(row, warp_column / 8 + 2 * s + lane / 16));
            }
#pragma unroll
            for (int r = 0; r < kMmaWarpM / 16; ++r) {
#pragma unroll
                for (int s = 0; s < kMmaWarpN / 8; ++s) multiply_add<Bf16>(sums[r][s], of_a[r], of_b[s / 2][s % 2 * 2], of_b[s / 2][s % 2 * 2 + 1]);
            }
        }
        slot = slot + 1 == kMmaStages ? 0 : slot + 1;
    }
    const bool pairs = on_pairs(c, ldc);
#pragma unroll
    for (int r = 0; r < kMmaWarpM / 16; ++r) {
#pragma unroll
        for (int s = 0; s < kMmaWarpN / 8; ++s) {
            const int row = row0 + warp_row + 16 * r + lane / 4, column = column0 + warp_column + 8 * s + lane % 4 * 2;
            store_pair(c, row, column, m, n, ldc, pairs, sums[r][s][0], sums[r][s][1]);
            store_pair(c, row + 8, column, m, n, ldc, pairs, sums[r][s][2], sums[r][s][3]);
        }
    }
#endif
}

// ---- Hopper: wgmma and tensor maps -----------------------------------------------------------------------------------------------

constexpr int kTileM = 128, kTileK = kBox;                 // of A: one box of kTileM rows; of B: boxes of kTileK rows
constexpr int kGroupM = 64;                                // rows of C of a group
constexpr int kBytesA = kTileM * kBoxRow, kBytesBoxB = kTileK * kBoxRow;

// A lies along k: eight rows are 1024 bytes; the leading stride does not count, as k fits into a row. 16 further along k: 32 bytes.
__host__ __device__ constexpr Size descriptor_a(unsigned address) { return descriptor(address, 16, 8 * kBoxRow); }
// B lies along n: 64 columns further is the next box; eight rows (along k) are 1024 bytes. 16 further along k: 16 rows.
__host__ __device__ constexpr Size descriptor_b(unsigned address) { return descriptor(address, kBytesBoxB, 8 * kBoxRow); }
constexpr int kStepA = 32 >> 4, kStepB = 16 * kBoxRow >> 4;

// Tiles in bands of `band` rows; within a band column by column. A band of 1: row by row.
struct Place {
    int row, column;
};
__host__ __device__ constexpr Place place_of(int tile, int down, int across, int band) {
    const int first = tile / (band * across) * band, within = tile % (band * across);
    const int tall = down - first < band ? down - first : band;
    return {first + within % tall, within / tall};
}

// A tile of C of kN columns: what a stage of its ring holds. kStages stages; kBoxes boxes of 64 × 64 a group to write C from.
template <int N, int Stages, int Boxes>
struct Ring {
    static constexpr int kN = N, kStages = Stages, kBoxes = Boxes, kBoxesB = N / kBox;
    static constexpr int kStage = kBytesA + kBoxesB * kBytesBoxB, kOut = kGroupM * kBoxRow;
    static constexpr int kBytes = Stages * kStage + 2 * Boxes * kOut + 1024;  // 1024: to start where the swizzle's pattern does
};

#ifdef LAB_WGMMA
// The multiplications of one stage: kTileK / 16 instructions, a group's 64 rows of A with all of B.
template <int kN>
__device__ __forceinline__ void multiply_stage(float (&sums)[kN / 2], const unsigned char* stage, int group, bool adds) {
    const Size a = descriptor_a(rows::shared_address(stage) + group * kGroupM * kBoxRow), b = descriptor_b(rows::shared_address(stage) + kBytesA);
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) multiply<kN>(sums, a + i * kStepA, b + i * kStepB, adds || i > 0);
}

// A group's sums to memory, two at a time: warp w holds rows 16w …, each row in four lanes.
template <int kN>
__device__ __forceinline__ void store_sums(const float (&sums)[kN / 2], Bf16* c, int row0, int column0, int m, int n, int ldc) {
    const int row = row0 + threadIdx.x % kGroupThreads / 32 * 16 + threadIdx.x % 32 / 4, column = column0 + threadIdx.x % 4 * 2;
    const bool pairs = on_pairs(c, ldc);
#pragma unroll
    for (int i = 0; i < kN / 8; ++i) {
        store_pair(c, row, column + 8 * i, m, n, ldc, pairs, sums[4 * i], sums[4 * i + 1]);
        store_pair(c, row + 8, column + 8 * i, m, n, ldc, pairs, sums[4 * i + 2], sums[4 * i + 3]);
    }
}

// 64 × 64 of a group's sums into a box in shared memory, swizzled as the copy engine expects: four 8 × 8 matrices at a time.
__device__ __forceinline__ void pack_box(const float* sums, unsigned char* box) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % kGroupThreads / 32 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < kBox / 16; ++i) {
        unsigned pair[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) pair[j] = pack_pair<Bf16>(sums[8 * i + 2 * j], sums[8 * i + 2 * j + 1]);
        store_matrices(box + row * kBoxRow + swizzled(row, 2 * i + lane / 16) * 16, pair);
    }
}
#endif

// Step 2. One stage: ask for it, wait, multiply, wait. Two blocks an SM cover each other's waiting as far as they happen to.
using Simple = Ring<128, 1, 0>;
constexpr int kSimpleThreads = 2 * kGroupThreads;
static __global__ void __launch_bounds__(kSimpleThreads, 2)
    wgmma_tma(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Bf16* __restrict__ c, int m, int n, int k, int ldc) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full;
    unsigned char* const stage = aligned(memory);
    const int row0 = blockIdx.y * kTileM, column0 = blockIdx.x * Simple::kN, group = threadIdx.x / kGroupThreads;
    if (threadIdx.x == 0) {
        rows::set_up(&full, 1);
        rows::publish_barriers();
    }
    __syncthreads();
    float sums[Simple::kN / 2] = {};
    unsigned parity = 0;
    for (int k0 = 0; k0 < k; k0 += kTileK, parity ^= 1) {
        if (threadIdx.x == 0) {
            rows::expect(&full, Simple::kStage);
            fetch_box<1>(stage, map_a, k0, row0, &full);
#pragma unroll
            for (int i = 0; i < Simple::kBoxesB; ++i) fetch_box<1>(stage + kBytesA + i * kBytesBoxB, map_b, column0 + i * kBox, k0, &full);
        }
        wait_for(&full, parity);
        products_begin();
        multiply_stage<Simple::kN>(sums, stage, group, k0 > 0);
        products_commit();
        products_wait<0>();
        __syncthreads();  // both groups have read the stage
    }
    take_results(sums);
    store_sums<Simple::kN>(sums, c, row0 + group * kGroupM, column0, m, n, ldc);
#endif
}

// Steps 3 to 7. Group 0 gives its registers away and one of its threads asks for tiles; groups 1 and 2 multiply, 64 rows each, with
// 128 sums a thread. full[i] ends a phase when a stage's bytes are there, empty[i] when all warps that read it have said so: of
// both blocks of a cluster, as each also writes into the other. At most two stages' products are under way: when the older ones
// are done, their stage is given back.
constexpr int kWorkThreads = 3 * kGroupThreads;
template <typename R, bool kPersistent, int kBlocks, int kBand, bool kStore>
__global__ void LAB_CLUSTER(kBlocks) __launch_bounds__(kWorkThreads, 1)
    specialized(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
                Bf16* __restrict__ c, int m, int n, int k, int ldc) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    const int rank = kBlocks == 1 ? 0 : rows::cluster_rank(), lane = threadIdx.x % 32, group = threadIdx.x / kGroupThreads;
    const int down = parts(m, kBlocks * kTileM), across = parts(n, R::kN), tiles = down * across;
    const int step = kPersistent ? gridDim.x / kBlocks : tiles;
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        for (int i = 0; i < R::kStages; ++i) {
            rows::set_up(&full[i], 1);
            rows::set_up(&empty[i], kBlocks * 2 * kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    if (group == 0) {
        give_registers<40>();
        if (threadIdx.x == 0) {
            Turn<R::kStages> turn;
            for (int tile = blockIdx.x / kBlocks; tile < tiles; tile += step) {
                const Place at = place_of(tile, down, across, kBand);
                const int row0 = (at.row * kBlocks + rank) * kTileM, column0 = at.column * R::kN;
                for (int k0 = 0; k0 < k; k0 += kTileK, turn.next()) {
                    unsigned char* const stage = stages + turn.slot * R::kStage;
                    wait_for(&empty[turn.slot], turn.parity ^ 1);  // passes in the first turn: the phase before the first has ended
                    rows::expect(&full[turn.slot], R::kStage);
                    fetch_box<1>(stage, map_a, k0, row0, &full[turn.slot]);
#pragma unroll
                    for (int i = 0; i < R::kBoxesB / kBlocks; ++i) {  // this block's part of B, for all
                        const int box = rank * (R::kBoxesB / kBlocks) + i;
                        fetch_box<kBlocks>(stage + kBytesA + box * kBytesBoxB, map_b, column0 + box * kBox, k0, &full[turn.slot]);
                    }
                }
            }
        }
    } else {
        take_registers<232>();
        const int worker = group - 1;
        unsigned char* const boxes = stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut;
        const auto give_back = [&](int slot) {
            if (lane < kBlocks) arrive_in(lane, &empty[slot]);
        };
        float sums[R::kN / 2] = {};
        Turn<R::kStages> turn;
        int box = 0;
        for (int tile = blockIdx.x / kBlocks; tile < tiles; tile += step) {
            const Place at = place_of(tile, down, across, kBand);
            const int row0 = (at.row * kBlocks + rank) * kTileM + worker * kGroupM, column0 = at.column * R::kN;
            int before = 0;
            for (int k0 = 0; k0 < k; k0 += kTileK, turn.next()) {
                wait_for(&full[turn.slot], turn.parity);
                products_begin();
                multiply_stage<R::kN>(sums, stages + turn.slot * R::kStage, worker, k0 > 0);
                products_commit();
                if (k0 > 0) {
                    products_wait<1>();
                    give_back(before);
                }
                before = turn.slot;
            }
            products_wait<0>();
            take_results(sums);
            give_back(before);
            if constexpr (kStore) {
#pragma unroll
                for (int i = 0; i < R::kBoxesB; ++i) {
                    if (threadIdx.x % kGroupThreads == 0) boxes_wait<R::kBoxes - 1, false>();  // the box to be filled has been read
                    group_sync(worker);
                    pack_box(sums + i * (kBox / 2), boxes + box * R::kOut);
                    publish_writes();
                    group_sync(worker);
                    if (threadIdx.x % kGroupThreads == 0) write_box(map_c, column0 + i * kBox, row0, boxes + box * R::kOut);
                    box = box + 1 == R::kBoxes ? 0 : box + 1;
                }
            } else {
                store_sums<R::kN>(sums, c, row0, column0, m, n, ldc);
            }
        }
        if constexpr (kStore) {
            if (threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
        }
    }
    if constexpr (kBlocks > 1) {  // a block stays until nobody writes into its shared memory
        __syncwarp();
        rows::cluster_sync<kBlocks>();
    }
#endif
}

constexpr int kBand = 8;            // rows of clusters
using Deep = Ring<256, 4, 0>;   // four stages of 48 KiB
using Wide = Ring<256, 4, 2>;   // … and two boxes a group

}  // namespace gemm
}  // namespace lab
