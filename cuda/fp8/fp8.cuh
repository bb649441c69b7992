// Matmul of 8-bit floats (e4m3) with scales: A (m × k) and B (n × k) in, C = A·Bᵀ (m × n) in bf16 out, all row by row without gaps.
// Device code only, for nvcc and NVRTC alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// The steps start from those of bf16 in ../gemm/bf16.cuh, whose pieces they use:
//   simple       one stage of tiles, two groups of four warps multiply; a scale for each matrix
//   pipeline     a ring of four stages, a group that fetches, clusters of two, bands of tiles, C by the copy engine
//   promoted     … sums of 128 products along k are added up in fp32, outside the tensor cores
//   narrow       … in tiles of 192 columns, all of them at once
//   row_column   … a scale for each row of A and of B, applied to the sums at the end
//   beside       … in tiles of 192 columns, and the scales come by a warp of their own
//   blocks       … a scale for 1 × 128 elements of A and 128 × 128 of B, applied whenever sums are added up
//
// Rows must start on 16 bytes: k a multiple of 16, n of 8. The copy engine is told of 2-byte elements, two of ours each: it moves
// bytes, in rows of 128, and computes with none of them.
#pragma once

#include "instructions.cuh"

namespace lab {
namespace fp8 {

using namespace gemm;

constexpr int kDepth = kBoxRow;        // of a stage, along k: rows of 128 bytes
constexpr int kPairs = kDepth / 2;     // … as the copy engine counts
constexpr int kBoxRowsB = 128;
constexpr int kHalf = 128;             // columns that are multiplied at a time where sums are promoted; of a block of B's scales
using Full = Ring<256, 3, 4>;          // three stages of 48 KiB, and a box for each that a group writes of a tile
using Narrow = Ring<192, 4, 3>;        // four of 40 KiB: sums of a stage fit into registers beside those of the tile
// Columns whose sums are promoted together; rows of a box of B, of which a cluster's blocks fetch as many each.
template <typename R>
constexpr int kPart = R::kN % kHalf == 0 ? kHalf : R::kN;
template <typename R>
constexpr int kRowsB = R::kN % kBoxRowsB == 0 ? kBoxRowsB : R::kN / 2;
constexpr int kOneScale = 0, kSides = 1, kBlocksOf128 = 2;

#ifdef LAB_WGMMA
// The multiplications of one stage: kDepth / 32 instructions, a group's 64 rows of A with kN of B's from `first` on.
template <int kN>
__device__ __forceinline__ void multiply_bytes(float (&sums)[kN / 2], const unsigned char* stage, int group, int first, bool adds) {
    const unsigned start = rows::shared_address(stage);
    const Size a = descriptor_a(start + group * kGroupM * kBoxRow), b = descriptor_a(start + kBytesA + first * kBoxRow);
#pragma unroll
    for (int i = 0; i < kDepth / 32; ++i) multiply_e4m3<kN>(sums, a + i * kStepA, b + i * kStepA, adds || i > 0);
}

// The first of the two rows of C that a thread of a group has sums of, the other is 8 below.
__device__ __forceinline__ int my_row() { return threadIdx.x % kGroupThreads / 32 * 16 + threadIdx.x % 32 / 4; }

// The scales of a thread's two rows; of the last row for rows that there are not, which are not written.
__device__ __forceinline__ float2 scales_of_rows(const float* of_a, int row0, int m) {
    const int row = row0 + my_row();
    return make_float2(load_scale(of_a + min(row, m - 1)), load_scale(of_a + min(row + 8, m - 1)));
}
// Applies scales of rows to kColumns columns of sums, and those of the columns, where they have some: unless they change along k.
template <int kScales, int kColumns>
__device__ __forceinline__ void apply_scales(float* sums, float2 of_rows, const float2* of_columns) {
    if constexpr (kScales != kBlocksOf128) {
#pragma unroll
        for (int i = 0; i < kColumns / 8; ++i) {
            const float2 two = kScales == kSides ? of_columns[4 * i + threadIdx.x % 4] : make_float2(1.0f, 1.0f);
            sums[4 * i] *= of_rows.x * two.x, sums[4 * i + 1] *= of_rows.x * two.y;
            sums[4 * i + 2] *= of_rows.y * two.x, sums[4 * i + 3] *= of_rows.y * two.y;
        }
    }
}
#endif

// Step 1. As the second step of bf16: one stage; two blocks an SM cover each other's waiting as far as they happen to.
static __global__ void __launch_bounds__(kSimpleThreads, 2)
    simple(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Bf16* __restrict__ c, const float* __restrict__ of_a,
           const float* __restrict__ of_b, int m, int n, int k) {
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
    for (int k0 = 0; k0 < k; k0 += kDepth, parity ^= 1) {
        if (threadIdx.x == 0) {
            rows::expect(&full, Simple::kStage);
            fetch_box<1>(stage, map_a, k0 / 2, row0, &full);
            fetch_box<1>(stage + kBytesA, map_b, k0 / 2, column0, &full);
        }
        wait_for(&full, parity);
        products_begin();
        multiply_bytes<Simple::kN>(sums, stage, group, 0, k0 > 0);
        products_commit();
        products_wait<0>();
        __syncthreads();  // both groups have read the stage
    }
    take_results(sums);
    const float both = load_scale(of_a) * load_scale(of_b);
    apply_scales<kOneScale, Simple::kN>(sums, make_float2(both, both), nullptr);
    store_sums<Simple::kN>(sums, c, row0 + group * kGroupM, column0, m, n, n);
#endif
}

// Steps 2 to 7. As the last large step of bf16: group 0 fetches, groups 1 and 2 multiply 64 rows each, blocks stay and take tile
// after tile. kPromoted: the tensor cores sum up one stage only, half of the columns at a time, since a thread has no registers
// for two times all of them; while one group adds, the other multiplies. For two times 192 columns it has. kBeside: group 0's second
// warp brings the scales of rows and columns, a tile ahead of their use: who multiplies waits for no read of them.
template <typename R, int kBlocks, int kTall, int kScales, bool kPromoted, bool kBeside = false>
__global__ void LAB_CLUSTER(kBlocks) __launch_bounds__(kWorkThreads, 1)
    specialized(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
                const float* __restrict__ of_a, const float* __restrict__ of_b, int m, int n, int k) {
#ifdef LAB_WGMMA
    static_assert(kPromoted || kScales != kBlocksOf128, "scales that change along k are applied to sums of one stage");
    static_assert(kPart<R> == kHalf || kScales != kBlocksOf128, "a block's columns are promoted together");
    static_assert(!kBeside || (kScales == kSides && R::kN <= 192), "room for scales of that many columns");
    constexpr int kParts = R::kN / kPart<R>, kBoxesEach = R::kN / kRowsB<R> / kBlocks;
    constexpr bool kAsked = kScales == kSides && !kBeside;  // whoever multiplies asks for scales of sides
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages], brought[2], used[2];
    __shared__ float2 of_columns[kAsked ? 2 : 1][kAsked ? R::kN / 2 : 1];
    unsigned char* const stages = aligned(memory);
    float* const ahead = reinterpret_cast<float*>(stages + R::kBytes - 1024);
    const int rank = kBlocks == 1 ? 0 : rows::cluster_rank(), lane = threadIdx.x % 32, group = threadIdx.x / kGroupThreads;
    const int down = parts(m, kBlocks * kTileM), across = parts(n, R::kN), tiles = down * across, step = gridDim.x / kBlocks;
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        for (int i = 0; i < R::kStages; ++i) {
            rows::set_up(&full[i], 1);
            rows::set_up(&empty[i], kBlocks * 2 * kGroupThreads / 32);
        }
        for (int i = 0; kBeside && i < 2; ++i) {
            rows::set_up(&brought[i], 32);
            rows::set_up(&used[i], 2 * kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    if (group == 0) {
        give_registers<40>();
        if (threadIdx.x == 0) {
            Turn<R::kStages> turn;
            for (int tile = blockIdx.x / kBlocks; tile < tiles; tile += step) {
                const Place at = place_of(tile, down, across, kTall);
                const int row0 = (at.row * kBlocks + rank) * kTileM, column0 = at.column * R::kN;
                for (int k0 = 0; k0 < k; k0 += kDepth, turn.next()) {
                    unsigned char* const stage = stages + turn.slot * R::kStage;
                    wait_for(&empty[turn.slot], turn.parity ^ 1);
                    rows::expect(&full[turn.slot], R::kStage);
                    fetch_box<1>(stage, map_a, k0 / 2, row0, &full[turn.slot]);
#pragma unroll
                    for (int i = 0; i < kBoxesEach; ++i) {  // this block's part of B, for all
                        const int box = rank * kBoxesEach + i;
                        fetch_box<kBlocks>(stage + kBytesA + box * kRowsB<R> * kBoxRow, map_b, k0 / 2, column0 + box * kRowsB<R>, &full[turn.slot]);
                    }
                }
            }
        }
        if (kBeside && threadIdx.x / 32 == 1) {
            Turn<2> turn;
            for (int tile = blockIdx.x / kBlocks; tile < tiles; tile += step, turn.next()) {
                const Place at = place_of(tile, down, across, kTall);
                const int row0 = (at.row * kBlocks + rank) * kTileM, column0 = at.column * R::kN;
                float own[(kTileM + R::kN) / 32];
#pragma unroll
                for (int i = 0; i < (kTileM + R::kN) / 32; ++i) {
                    own[i] = load_scale(i < kTileM / 32 ? of_a + min(row0 + 32 * i + lane, m - 1) : of_b + min(column0 + 32 * i - kTileM + lane, n - 1));
                }
                wait_for(&used[turn.slot], turn.parity ^ 1);
#pragma unroll
                for (int i = 0; i < (kTileM + R::kN) / 32; ++i) ahead[turn.slot * (kTileM + R::kN) + 32 * i + lane] = own[i];
                arrive_in(rank, &brought[turn.slot]);
            }
        }
    } else {
        take_registers<232>();
        const int worker = group - 1;
        unsigned char* const boxes = stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut;
        const auto give_back = [&](int slot) {
            if (lane < kBlocks) arrive_in(lane, &empty[slot]);
        };
        float sums[R::kN / 2];
        float2 of_rows = make_float2(1.0f, 1.0f);
        if constexpr (kScales == kOneScale) of_rows.x = of_rows.y = load_scale(of_a) * load_scale(of_b);
        Turn<R::kStages> turn;
        Turn<2> scales;
        int box = 0;
        for (int tile = blockIdx.x / kBlocks; tile < tiles; tile += step) {
            const Place at = place_of(tile, down, across, kTall);
            const int row0 = (at.row * kBlocks + rank) * kTileM + worker * kGroupM, column0 = at.column * R::kN;
            // Scales are asked for early and used late: those of sides after all stages, those of blocks a stage later.
            float2 of_my_columns = make_float2(1.0f, 1.0f);
            if constexpr (kAsked) {
                of_rows = scales_of_rows(of_a, row0, m);
                of_my_columns = load_scales(of_b + min(column0 + static_cast<int>(threadIdx.x) % kGroupThreads * 2, n - 2));
            }
            if constexpr (kPromoted) {
#pragma unroll
                for (int i = 0; i < R::kN / 2; ++i) sums[i] = 0;
                float2 of_part = make_float2(1.0f, 1.0f), of_next = of_part;
                float each[kParts], next[kParts];
                const auto ask = [&](int block, float2& of_two, float (&of_columns_of)[kParts]) {
                    of_two = scales_of_rows(of_a + static_cast<Size>(block) * m, row0, m);
#pragma unroll
                    for (int half = 0; half < kParts; ++half) {
                        const int column = min(column0 + half * kHalf, n - 1);
                        of_columns_of[half] = load_scale(of_b + static_cast<Size>(column / kHalf) * parts(k, kDepth) + block);
                    }
                };
                if constexpr (kScales == kBlocksOf128) ask(0, of_part, each);
                for (int k0 = 0; k0 < k; k0 += kDepth, turn.next()) {
                    const unsigned char* const stage = stages + turn.slot * R::kStage;
                    if constexpr (kScales == kBlocksOf128) ask(min(k0 / kDepth + 1, (k - 1) / kDepth), of_next, next);
                    wait_for(&full[turn.slot], turn.parity);
#pragma unroll
                    for (int half = 0; half < kParts; ++half) {
                        float part[kPart<R> / 2];
                        products_begin();
                        multiply_bytes<kPart<R>>(part, stage, worker, half * kPart<R>, false);
                        products_commit();
                        products_wait<0>();
                        take_results(part);
                        if (half == kParts - 1) give_back(turn.slot);
                        if constexpr (kScales == kBlocksOf128) here(of_part.x), here(of_part.y), here(each[half]);
                        const float low = of_part.x * each[half], high = of_part.y * each[half];
#pragma unroll
                        for (int i = 0; i < kPart<R> / 2; ++i) {
                            float& sum = sums[half * (kPart<R> / 2) + i];
                            if constexpr (kScales == kBlocksOf128) sum += part[i] * (i / 2 % 2 == 0 ? low : high);
                            else sum += part[i];
                        }
                    }
                    if constexpr (kScales == kBlocksOf128) {
                        of_part = of_next;
#pragma unroll
                        for (int half = 0; half < kParts; ++half) each[half] = next[half];
                    }
                }
            } else {
                int before = 0;
                for (int k0 = 0; k0 < k; k0 += kDepth, turn.next()) {
                    wait_for(&full[turn.slot], turn.parity);
                    products_begin();
                    multiply_bytes<R::kN>(sums, stages + turn.slot * R::kStage, worker, 0, k0 > 0);
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
            }
            const float2* of_these = of_columns[kAsked ? worker : 0];
            if constexpr (kBeside) {
                wait_for(&brought[scales.slot], scales.parity);
                const float* const own = ahead + scales.slot * (kTileM + R::kN);
                of_rows = make_float2(own[worker * kGroupM + my_row()], own[worker * kGroupM + my_row() + 8]);
                of_these = reinterpret_cast<const float2*>(own + kTileM);
            }
            if constexpr (kAsked) {
                here(of_my_columns.x), here(of_my_columns.y), here(of_rows.x), here(of_rows.y);
                of_columns[worker][threadIdx.x % kGroupThreads] = of_my_columns;
                group_sync(worker);
            }
#pragma unroll
            for (int i = 0; i < R::kBoxesB; ++i) {
                apply_scales<kScales, kBox>(sums + i * (kBox / 2), of_rows, of_these + i * (kBox / 2));
                if (threadIdx.x % kGroupThreads == 0) boxes_wait<R::kBoxes - 1, false>();  // the box to be filled has been read
                group_sync(worker);
                pack_box(sums + i * (kBox / 2), boxes + box * R::kOut);
                publish_writes();
                group_sync(worker);
                if (threadIdx.x % kGroupThreads == 0) write_box(map_c, column0 + i * kBox, row0, boxes + box * R::kOut);
                box = box + 1 == R::kBoxes ? 0 : box + 1;
            }
            if constexpr (kBeside) {
                if (lane == 0) arrive_in(rank, &used[scales.slot]);  // its warp has met behind the last box
                scales.next();
            }
        }
        if (threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
    }
    if constexpr (kBlocks > 1) {  // a block stays until nobody writes into its shared memory
        __syncwarp();
        rows::cluster_sync<kBlocks>();
    }
#endif
}

}  // namespace fp8
}  // namespace lab
