// Attention forward of bf16 or fp16 on tensor cores, sums and softmax in fp32: queries, keys and values (heads × length × dim) in,
// softmax(Q·Kᵀ / √dim)·V of each head out. Device code only. Any length; dim 64 or 128; arrays start on 16 bytes.
// SPDX-License-Identifier: Apache-2.0
//
//   mma_sync       four warps of 32 queries; scores, weights and result never leave the registers; keys and values in swizzled tiles
//   double_buffer  … while a tile is multiplied, the next one comes by asynchronous copies
//   specialized    one thread asks the copy engine for tiles, two groups of four warps multiply by wgmma, 64 queries each (9.0)
//   ping_pong      … the product of the next keys and that of these values run while the softmax between them is computed, and the
//                  groups take turns: one multiplies while the other computes its softmax
//   no_turns       … and nobody waits for a turn
//   three_groups   … and a third group, with fewer registers each; with dim 128 too few for two products under way
//   lazy           … sums are made smaller only when a score has grown by more than a factor of 2⁸ over what they are relative to
//
// A score of −∞ is a weight of 0. NaN and +∞ make rows NaN, as in attention.cuh.
//
// Counters that show each step (Nsight Compute): the tensor cores' time, sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active;
// waiting for copies, smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio (→ double_buffer); loads from shared
// memory, l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum (→ specialized: none); the exponentials' pipe, smsp__inst_executed_pipe_xu.sum.
#pragma once

#include "../gemm/layout.cuh"
#include "attention.cuh"

namespace lab {
namespace attention {

using gemm::kBox;
using gemm::kBoxRow;
using gemm::kGroupThreads;
using gemm::swizzled;

// ---- softmax of rows in registers ------------------------------------------------------------------------------------------------

// Sums of tensor cores lie alike everywhere: four neighboring lanes share row lane / 4 (elements 0 and 1 of each four) and the row
// eight below (2 and 3); of each eight columns a lane has two neighbors.
struct Rows {
    float largest[2] = {minus_infinity(), minus_infinity()}, sum[2] = {0, 0};
};

// Scores that a query does not see: behind the last key or, with `causal`, behind itself. `row`: of this lane's first.
template <int kCount>
__device__ __forceinline__ void mask(float* scores, int first, int row, int length, int causal) {
    const int column = first + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int key = column + i / 4 * 8 + i % 2;
        if (key >= length || (causal && key > row + i % 4 / 2 * 8)) scores[i] = minus_infinity();
    }
}

// Scores to weights, 2^(score · scale − largest); what is there of sums so far is to be multiplied by `smaller`. kSlack: what
// the weights are relative to stays while no score is larger by more; they then go up to 2^kSlack, which every type holds.
template <int kCount, int kSlack = 0>
__device__ __forceinline__ void weigh(float* scores, Rows& rows, float (&smaller)[2], float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        float found = rows.largest[h];
#pragma unroll
        for (int i = 2 * h; i < kCount; i += 4) found = fmaxf(found, fmaxf(scores[i], scores[i + 1]));
        found = largest_over<4>(found);
        if (kSlack > 0 && !(found * scale > rows.largest[h] * scale + kSlack)) found = rows.largest[h];
        const float base = found == minus_infinity() ? 0.0f : found * scale;
        smaller[h] = gemm::power_of_two(rows.largest[h] * scale - base);
        rows.largest[h] = found;
        float sum = 0;
#pragma unroll
        for (int i = 2 * h; i < kCount; i += 4) {
            scores[i] = gemm::power_of_two(scores[i] * scale - base);
            scores[i + 1] = gemm::power_of_two(scores[i + 1] * scale - base);
            sum += scores[i] + scores[i + 1];
        }
        rows.sum[h] = rows.sum[h] * smaller[h] + sum;
    }
}
template <int kCount>
__device__ __forceinline__ void shrink(float* sums, const float (&smaller)[2]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] *= smaller[i % 4 / 2];
}
// Weights of 16 keys as the left side of the next product: sums of one product lie as operands of the next do.
template <typename T>
__device__ __forceinline__ void pack_weights(unsigned (&a)[4], const float* weights) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = gemm::pack_pair<T>(weights[2 * i], weights[2 * i + 1]);
}
// Rows of the result to memory.
template <typename T, int kDim>
__device__ __forceinline__ void write_rows(T* out, const float* sums, const Rows& rows, int row, int length) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float share = 1 / sum_over<4>(rows.sum[h]);
        if (row + 8 * h >= length) continue;
        T* const to = out + static_cast<Size>(row + 8 * h) * kDim + threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < kDim / 8; ++i) {
            *reinterpret_cast<unsigned*>(to + 8 * i) = gemm::pack_pair<T>(sums[4 * i + 2 * h] * share, sums[4 * i + 2 * h + 1] * share);
        }
    }
}

// Blocks of a head: with `causal` the longest come first, so that short ones fill what is left at the end.
__device__ __forceinline__ int block_of_head(int causal) { return static_cast<int>(causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x); }

// ---- mma.sync --------------------------------------------------------------------------------------------------------------------

constexpr int kMmaQueries = 128, kMmaKeys = 64, kMmaThreads = 128;
template <int kDim, int kStages>
constexpr int kMmaBytes = (kMmaQueries + kStages * 2 * kMmaKeys) * kDim * 2;

template <bool kSwizzle>
__device__ __forceinline__ int chunk_at(int row, int chunk) {
    return kSwizzle ? swizzled(row, chunk) : chunk;
}
// Rows first … first + kRows - 1 of a head, zeros for those it does not have.
template <int kRows, int kDim, bool kSwizzle, typename T>
__device__ __forceinline__ void fetch_rows(uint4* to, const T* from, int first, int length) {
    constexpr int kChunks = kDim / 8, kApart = kMmaThreads / kChunks;
    static_assert(kApart % 8 == 0, "the swizzle repeats every eight rows");
    const int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
    uint4* const place = to + row * kChunks + chunk_at<kSwizzle>(row, chunk);
    const T* const start = from + static_cast<Size>(first + row) * kDim + 8 * chunk;
#pragma unroll 8
    for (int r = 0; r < kRows; r += kApart) {
        const bool there = first + row + r < length;
        gemm::copy_async<16>(place + r * kChunks, there ? start + static_cast<Size>(r) * kDim : from, there ? 16 : 0);
    }
}

// Steps 4 (one stage) and 5 (two). A warp 32 queries: what it reads of keys and values serves two products. To be diagnosed:
// kSwizzle false, tiles lie in plain rows; kBlocks 4, as many blocks an SM shall have, and threads few registers.
template <typename T, int kDim, int kStages, bool kSwizzle = true, int kBlocks = 2>
__global__ void __launch_bounds__(kMmaThreads, kBlocks)
    mma_sync(const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, T* __restrict__ out, int length, int causal) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    extern __shared__ uint4 chunks[];
    constexpr int kChunks = kDim / 8, kTile = kMmaKeys * kChunks, kScores = kMmaKeys / 2, kSums = kDim / 2;
    uint4* const tiles = chunks + kMmaQueries * kChunks;
    const int row0 = block_of_head(causal) * kMmaQueries, lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 32;
    const int end = causal ? min(row0 + kMmaQueries, length) : length;
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim;
    const auto fetch = [&](int first, int slot) {
        fetch_rows<kMmaKeys, kDim, kSwizzle>(tiles + slot * 2 * kTile, k + head, first, length);
        fetch_rows<kMmaKeys, kDim, kSwizzle>(tiles + (slot * 2 + 1) * kTile, v + head, first, length);
    };
    fetch_rows<kMmaQueries, kDim, kSwizzle>(chunks, q + head, row0, length);
    if constexpr (kStages > 1) fetch(0, 0);
    gemm::copies_commit();
    float sums[2][kSums] = {};
    Rows rows[2];
    int slot = 0;
    for (int first = 0; first < end; first += kMmaKeys) {
        if constexpr (kStages == 1) {
            __syncthreads();  // nobody reads the tiles before any more
            fetch(first, 0);
            gemm::copies_commit();
        }
        gemm::copies_wait<0>();
        __syncthreads();  // these tiles are there, and nobody reads the ones before any more
        const uint4* const keys = tiles + slot * 2 * kTile;
        const uint4* const values = keys + kTile;
        if constexpr (kStages > 1) {
            slot ^= 1;
            if (first + kMmaKeys < end) fetch(first + kMmaKeys, slot);
            gemm::copies_commit();
        }
        float scores[2][kScores] = {};
#pragma unroll
        for (int i = 0; i < kDim / 16; ++i) {
            unsigned of_q[2][4];
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = warp_row + 16 * r + lane % 16;
                gemm::load_matrices(of_q[r], chunks + row * kChunks + chunk_at<kSwizzle>(row, 2 * i + lane / 16));
            }
#pragma unroll
            for (int s = 0; s < kMmaKeys / 16; ++s) {
                unsigned of_k[4];
                const int row = 16 * s + lane / 16 * 8 + lane % 8;
                gemm::load_matrices(of_k, keys + row * kChunks + chunk_at<kSwizzle>(row, 2 * i + lane / 8 % 2));
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    gemm::multiply_add<T>(scores[r] + 8 * s, of_q[r], of_k[0], of_k[1]);
                    gemm::multiply_add<T>(scores[r] + 8 * s + 4, of_q[r], of_k[2], of_k[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = row0 + warp_row + 16 * r;
            float smaller[2];
            if (first + kMmaKeys > length || (causal && first + kMmaKeys > row)) mask<kScores>(scores[r], first, row + lane / 4, length, causal);
            weigh<kScores>(scores[r], rows[r], smaller, kScale<kDim>);
            shrink<kSums>(sums[r], smaller);
        }
#pragma unroll
        for (int j = 0; j < kMmaKeys / 16; ++j) {
            unsigned of_w[2][4];
#pragma unroll
            for (int r = 0; r < 2; ++r) pack_weights<T>(of_w[r], scores[r] + 8 * j);
#pragma unroll
            for (int s = 0; s < kDim / 16; ++s) {
                unsigned of_v[4];
                const int row = 16 * j + lane % 16;
                gemm::load_turned(of_v, values + row * kChunks + chunk_at<kSwizzle>(row, 2 * s + lane / 16));
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    gemm::multiply_add<T>(sums[r] + 8 * s, of_w[r], of_v[0], of_v[1]);
                    gemm::multiply_add<T>(sums[r] + 8 * s + 4, of_w[r], of_v[2], of_v[3]);
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) write_rows<T, kDim>(out + head, sums[r], rows[r], row0 + warp_row + 16 * r + lane / 4, length);
#endif
}

// ---- Hopper: wgmma and tensor maps -----------------------------------------------------------------------------------------------

// A block: kGroups groups of 64 queries, and one that asks for tiles.
template <int Dim, int Groups>
struct Shape {
    static constexpr int kDim = Dim, kGroups = Groups, kThreads = (kGroups + 1) * kGroupThreads, kQueries = 64 * kGroups;
    static constexpr int kKeys = 128, kStages = 2, kBoxes = kDim / kBox;
    static constexpr int kQueryBox = kQueries * kBoxRow, kKeyBox = kKeys * kBoxRow;  // bytes; a box has 64 of the dimensions
    static constexpr int kTile = kBoxes * kKeyBox, kBytes = kBoxes * kQueryBox + kStages * 2 * kTile + 1024;
    static constexpr int kFew = kGroups == 3 ? 32 : 24, kMany = kGroups == 3 ? 160 : 240;  // registers a thread
};

// Steps 6 to 10 (kOverlap: two products under way; kTurns: one group after the other asks for its products; kSlack: see weigh()).
// Barriers as in the matmul, for keys and values apart: scores are done with keys earlier.
template <typename T, typename S, bool kOverlap, bool kTurns, int kSlack = 0>
__global__ void __launch_bounds__(S::kThreads, 1)
    specialized(const __grid_constant__ gemm::TensorMap map_q, const __grid_constant__ gemm::TensorMap map_k,
                const __grid_constant__ gemm::TensorMap map_v, T* __restrict__ out, int length, int causal) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char bytes[];
    __shared__ rows::Barrier full_q, full_k[S::kStages], full_v[S::kStages], empty_k[S::kStages], empty_v[S::kStages];
    unsigned char* const queries = gemm::aligned(bytes);
    unsigned char* const keys = queries + S::kBoxes * S::kQueryBox;
    unsigned char* const values = keys + S::kStages * S::kTile;
    const int row0 = block_of_head(causal) * S::kQueries, head = blockIdx.y, group = threadIdx.x / kGroupThreads, lane = threadIdx.x % 32;
    const int tiles = gemm::parts(causal ? min(row0 + S::kQueries, length) : length, S::kKeys);
    if (threadIdx.x == 0) {
        gemm::prefetch_map(map_q);
        gemm::prefetch_map(map_k);
        gemm::prefetch_map(map_v);
        rows::set_up(&full_q, 1);
        for (int i = 0; i < S::kStages; ++i) {
            rows::set_up(&full_k[i], 1);
            rows::set_up(&full_v[i], 1);
            rows::set_up(&empty_k[i], S::kGroups * kGroupThreads / 32);
            rows::set_up(&empty_v[i], S::kGroups * kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    __syncthreads();
    if (group == 0) {
        gemm::give_registers<S::kFew>();
        if (threadIdx.x == 0) {
            rows::expect(&full_q, S::kBoxes * S::kQueryBox);
            for (int i = 0; i < S::kBoxes; ++i) gemm::fetch_box(queries + i * S::kQueryBox, map_q, i * kBox, row0, head, &full_q);
            gemm::Turn<S::kStages> turn;
            for (int tile = 0; tile < tiles; ++tile, turn.next()) {
                const int s = turn.slot;
                gemm::wait_for(&empty_k[s], turn.parity ^ 1);  // passes in the first turn: the phase before the first has ended
                rows::expect(&full_k[s], S::kTile);
                for (int i = 0; i < S::kBoxes; ++i) {
                    gemm::fetch_box(keys + s * S::kTile + i * S::kKeyBox, map_k, i * kBox, tile * S::kKeys, head, &full_k[s]);
                }
                gemm::wait_for(&empty_v[s], turn.parity ^ 1);
                rows::expect(&full_v[s], S::kTile);
                for (int i = 0; i < S::kBoxes; ++i) {
                    gemm::fetch_box(values + s * S::kTile + i * S::kKeyBox, map_v, i * kBox, tile * S::kKeys, head, &full_v[s]);
                }
            }
        }
    } else {
        gemm::take_registers<S::kMany>();
        constexpr int kDim = S::kDim, kScores = S::kKeys / 2, kSums = kDim / 2;
        const int worker = group - 1, first_row = row0 + 64 * worker, row = first_row + threadIdx.x % kGroupThreads / 32 * 16 + lane / 4;
        const Size of_q = gemm::descriptor(rows::shared_address(queries) + worker * 64 * kBoxRow, 16, 8 * kBoxRow);
        const Size of_k = gemm::descriptor(rows::shared_address(keys), 16, 8 * kBoxRow);
        const Size of_v = gemm::descriptor(rows::shared_address(values), S::kKeyBox, 8 * kBoxRow);
        float scores[kScores], sums[kSums] = {}, smaller[2];
        unsigned weights[S::kKeys / 16][4];
        Rows mine;
        const auto multiply_keys = [&](int slot) {
#pragma unroll
            for (int i = 0; i < kDim / 16; ++i) {  // 16 dimensions further: 32 bytes, after four times the next box
                const Size a = of_q + (i / 4 * S::kQueryBox + i % 4 * 32) / 16, b = of_k + (slot * S::kTile + i / 4 * S::kKeyBox + i % 4 * 32) / 16;
                gemm::multiply_turned<T>(scores, a, b, i > 0);
            }
            gemm::products_commit();
        };
        const auto multiply_values = [&](int slot) {
#pragma unroll
            for (int j = 0; j < S::kKeys / 16; ++j) gemm::multiply_held<T>(sums, weights[j], of_v + (slot * S::kTile + j * 16 * kBoxRow) / 16);
            gemm::products_commit();
        };
        const auto give_back = [&](rows::Barrier* barrier) {
            if (lane == 0) gemm::arrive_in(0, barrier);
        };
        const auto soften = [&](int tile) {
            const int first = tile * S::kKeys;
            if (first + S::kKeys > length || (causal && first + S::kKeys > first_row)) mask<kScores>(scores, first, row, length, causal);
            weigh<kScores, kSlack>(scores, mine, smaller, kScale<kDim>);
        };
        const auto correct = [&] {
            if (kSlack == 0 || __any_sync(kAllLanes, smaller[0] != 1 || smaller[1] != 1)) shrink<kSums>(sums, smaller);
        };
        const auto pack = [&] {
#pragma unroll
            for (int j = 0; j < S::kKeys / 16; ++j) pack_weights<T>(weights[j], scores + 8 * j);
        };
        gemm::wait_for(&full_q, 0);
        gemm::Turn<S::kStages> turn, before;
        if constexpr (!kOverlap) {
            for (int tile = 0; tile < tiles; ++tile, turn.next()) {
                gemm::wait_for(&full_k[turn.slot], turn.parity);
                gemm::products_begin();
                multiply_keys(turn.slot);
                gemm::products_wait<0>();
                gemm::take_results(scores);
                give_back(&empty_k[turn.slot]);
                soften(tile);
                correct();
                pack();
                gemm::wait_for(&full_v[turn.slot], turn.parity);
                gemm::products_begin();
                multiply_values(turn.slot);
                gemm::products_wait<0>();
                gemm::take_results(sums);
                give_back(&empty_v[turn.slot]);
            }
        } else {
            constexpr int kTwo = 2 * kGroupThreads;
            if (kTurns && worker == S::kGroups - 1 && tiles > 1) gemm::turn_give<kTwo>(0);
            gemm::wait_for(&full_k[0], 0);
            gemm::products_begin();
            multiply_keys(0);
            gemm::products_wait<0>();
            gemm::take_results(scores);
            give_back(&empty_k[0]);
            soften(0);
            pack();
            turn.next();
            for (int tile = 1; tile < tiles; ++tile, turn.next(), before.next()) {
                gemm::wait_for(&full_k[turn.slot], turn.parity);
                if constexpr (kTurns) gemm::turn_wait<kTwo>(worker);
                gemm::products_begin();
                multiply_keys(turn.slot);
                gemm::wait_for(&full_v[before.slot], before.parity);
                gemm::products_begin();
                multiply_values(before.slot);
                if (kTurns && worker < S::kGroups - 1) gemm::turn_give<kTwo>(worker + 1);
                if (kTurns && worker == S::kGroups - 1 && tile + 1 < tiles) gemm::turn_give<kTwo>(0);
                gemm::products_wait<1>();
                gemm::take_results(scores);
                give_back(&empty_k[turn.slot]);
                soften(tile);
                gemm::not_before(mine.sum[0] + mine.sum[1]);  // else the assembler has the softmax wait for the values' product
                gemm::products_wait<0>();
                gemm::take_results(sums);
                give_back(&empty_v[before.slot]);
                correct();
                pack();
            }
            gemm::wait_for(&full_v[before.slot], before.parity);
            gemm::products_begin();
            multiply_values(before.slot);
            gemm::products_wait<0>();
            gemm::take_results(sums);
        }
        write_rows<T, kDim>(out + static_cast<Size>(head) * length * kDim, sums, mine, row, length);
    }
#endif
}

}  // namespace attention
}  // namespace lab
