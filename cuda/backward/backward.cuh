// Attention's backward for bf16 on tensor cores, sums in fp32: from queries, keys, values, the result and the gradient of the result,
// `slope` (heads × length × 128 each), the gradients of queries, keys and values. Device code only, for compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// With weights W = softmax(S), S = Q·Kᵀ / √dim:
//   of V: Wᵀ·slope        of W: slope·Vᵀ        of S: W ∘ (of W − each row's sum of W ∘ of W)        of Q: of S·K / √dim, of K: of Sᵀ·Q / √dim
// Nothing of the scores is kept from the forward pass but a number a row, `log_sums`: the logarithm of the sum of its exponentials. The
// row's sum of W ∘ of W is that of slope ∘ result, which prepare() computes.
//
// A block has 128 keys and goes through all queries that see them, of all heads that share the keys. Each of two groups multiplies 64
// keys by all queries of a tile, so that keys are rows of the sums: Sᵀ and its gradient then lie in registers as the left sides of the
// products that give the gradients of V and K, which stay in registers until the end. The gradient of Q belongs to all blocks of a head:
// the gradient of S goes through shared memory, each group multiplies it by half of the dimensions of K, and the sums are added to
// memory in fp32, in the order of the registers; finish() puts them in theirs.
//
//   two_passes   of K and V by one kernel, of Q by another that makes the scores again: seven products for five, and nothing is added up
//                in memory: every run gives the same bits
//   one_pass     … of Q too, added to memory; a product is waited for before the next one is asked for
//   together     both products of a tile are asked for at once, that of V runs while the gradient of S is computed, that of K while the
//                gradient of Q is added to memory
//   ahead        the scores of the next queries are asked for before the last two products of these: the exponentials run beside them
//   bulk         … the copy engine adds to memory, from shared memory
//   ordered      … blocks add one after the other: every run gives the same bits
//
// Registers a thread, of 240 (232 where warps of the first group add): 64 + 64 gradients of K and V, 32 scores, 32 of their gradient, 32
// of Q's, 16 + 16 left sides, not all of them at a time: together has 64 + 64 + 32 + 32 + 16 while it computes the gradient of the
// scores, ahead would have 64 + 64 + 32 + 32 + 16 while three products are under way, and the rest of what it needs. So «ahead» keeps no
// weights in fp32 and takes the left side for K from shared memory. With tiles of 80 queries these are 40, 40, 40, 20 + 20, which is a
// few too many: no step has them.
//
// A row with a NaN makes what it touches NaN, as in attention.cuh. Rows behind the last one weigh nothing: their log_sums are +∞.
#pragma once

#include "instructions.cuh"

namespace lab {
namespace backward {

using attention::kAllLanes;
using attention::kLog2e;
using attention::kScale;
using attention::minus_infinity;
using gemm::Bf16;
using gemm::kBox;
using gemm::kBoxRow;
using gemm::kGroupThreads;
using gemm::Size;
using gemm::swizzled;

constexpr int kDim = 128, kKeys = 128, kGroups = 2, kBlockThreads = 384, kRowThreads = 256, kSlots = 2;

// Sums of the gradient of Q lie as they come from the registers: a tile's, of each group, four of a thread, thread by thread. Where that
// of dimension `dim` of query `row` of a tile of `queries` lies. `turned`: rows of the product are dimensions, not queries.
__host__ __device__ constexpr int place(bool turned, int queries, int row, int dim) {
    const int m = turned ? dim % 64 : row, n = turned ? row : dim % 64;
    const int thread = m / 16 * 32 + m % 8 * 4 + n % 8 / 2, word = m % 16 / 8 * 2 + n % 2;
    return ((dim / 64 * (queries / 8) + n / 8) * kGroupThreads + thread) * 4 + word;
}

// ---- before and after ------------------------------------------------------------------------------------------------------------

__device__ __forceinline__ float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

// A warp a row of `padded`: the sum of slope ∘ result, the row's log_sum in powers of two; its part of the sums of Q, zero. `turns`: zero.
__global__ void __launch_bounds__(kRowThreads)
    prepare(const Bf16* __restrict__ result, const Bf16* __restrict__ slope, const float* __restrict__ log_sums, float* __restrict__ logs,
            float* __restrict__ means, float* __restrict__ sums_q, unsigned* __restrict__ turns, int length, int padded, int heads) {
    const int row = static_cast<int>(blockIdx.x) * (kRowThreads / 32) + static_cast<int>(threadIdx.x) / 32, lane = threadIdx.x % 32;
    const int head = blockIdx.y;
    if (row >= padded) return;
    const Size at = static_cast<Size>(head) * padded + row, from = (static_cast<Size>(head) * length + row) * kDim + 4 * lane;
    float sum = 0;
    if (row < length) {
        const uint2 x = *reinterpret_cast<const uint2*>(result + from), y = *reinterpret_cast<const uint2*>(slope + from);
        sum = low_half(x.x) * low_half(y.x) + high_half(x.x) * high_half(y.x) + (low_half(x.y) * low_half(y.y) + high_half(x.y) * high_half(y.y));
    }
    sum = attention::sum_over<32>(sum);
    if (sums_q != nullptr) reinterpret_cast<float4*>(sums_q)[at * (kDim / 4) + lane] = make_float4(0, 0, 0, 0);
    if (lane == 0) {
        means[at] = sum;
        logs[at] = row < length ? log_sums[static_cast<Size>(head) * length + row] * kLog2e : -minus_infinity();
        if (turns != nullptr) turns[at] = 0;
    }
}

// The sums of Q in the order of the rows, scaled: eight dimensions a thread.
template <int kQueries, bool kTurned>
__global__ void __launch_bounds__(kRowThreads) finish(const float* __restrict__ sums_q, Bf16* __restrict__ of_q, int length, int padded) {
    const int chunk = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x), row = chunk / (kDim / 8), dim = chunk % (kDim / 8) * 8;
    if (row >= length) return;
    const float* const tile = sums_q + (static_cast<Size>(blockIdx.y) * padded + row / kQueries * kQueries) * kDim;
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float x = tile[place(kTurned, kQueries, row % kQueries, dim + 2 * i)], y = tile[place(kTurned, kQueries, row % kQueries, dim + 2 * i + 1)];
        words[i] = gemm::pack_pair<Bf16>(x * (kScale<kDim> / kLog2e), y * (kScale<kDim> / kLog2e));
    }
    *reinterpret_cast<uint4*>(of_q + (static_cast<Size>(blockIdx.y) * length + row) * kDim + dim) = make_uint4(words[0], words[1], words[2], words[3]);
}

// ---- Hopper: wgmma and tensor maps -----------------------------------------------------------------------------------------------

// Negative only if one of numbers is.
template <int kCount>
__device__ __forceinline__ float all_bits(const float (&x)[kCount]) {
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) bits |= __float_as_uint(x[i]);
    return __uint_as_float(bits);
}

// In what order a group asks for the products of a tile, and how the gradient of Q reaches memory.
enum Order { kOneByOne, kTogether, kAhead };
enum Adding { kNone, kThreads, kBulk, kOrdered };  // of Q: not at all; threads, the copy engine, the copy engine of one block after another

// kHeld: the gradient of S comes from registers for that of K, else from shared memory. kNarrow: it is computed from the weights as
// they were rounded for the gradient of V, so that none is kept in fp32. kTurned: the product that gives the gradient of
// Q has dimensions as its rows, as it must with tiles that are no 64 queries.
template <int Queries, Order kOf, Adding kTo, bool Held = (Queries == 64), bool Narrow = (Queries != 64), bool Turned = (Queries != 64)>
struct Plan {
    static constexpr int kQueries = Queries, kStages = 2, kBoxes = kDim / kBox, kCount = kQueries / 2;
    static constexpr Order kOrder = kOf;
    static constexpr Adding kAdding = kTo;
    static constexpr bool kHeld = Held, kNarrow = Narrow, kTurned = Turned, kStaged = kTo == kBulk || kTo == kOrdered;
    static constexpr int kQueryBox = kQueries * kBoxRow, kQueryTile = kBoxes * kQueryBox;  // bytes; a box has 64 of the dimensions
    static constexpr int kKeyBox = kKeys * kBoxRow, kKeyTile = kBoxes * kKeyBox;
    static constexpr int kSlopeTile = kGroups * kQueryBox;  // of the gradient of S: queries × 64 keys of a group
    static constexpr int kRowBytes = kQueries * 4, kPart = kCount * kGroupThreads * 4;  // a group's part of a tile's sums of Q
    static constexpr int kBytes = 2 * kKeyTile + kStages * 2 * kQueryTile + kSlots * kSlopeTile + kStages * 2 * kRowBytes + (kStaged ? kGroups * kPart : 0) + 1024;
    static constexpr int kFew = kStaged ? 40 : 24, kMany = kStaged ? 232 : 240;  // registers a thread
    static_assert(kFew + kGroups * kMany == 504, "65,536 over 384 threads, in eights: who asked for more would wait forever");
    static_assert(kQueries % 16 == 0 && (kTurned || kQueries == 64), "64 queries are rows of a product, or any number of 16 its columns");
};

// All but finish(). A block: 128 keys of a head of the keys, and all `group` heads of the queries that share it. `sums_q`: zeros.
template <typename P>
__global__ void __launch_bounds__(kBlockThreads, 1)
    one_pass(const __grid_constant__ gemm::TensorMap map_q, const __grid_constant__ gemm::TensorMap map_k, const __grid_constant__ gemm::TensorMap map_v,
             const __grid_constant__ gemm::TensorMap map_slope, const float* __restrict__ logs, const float* __restrict__ means,
             float* __restrict__ sums_q, unsigned* __restrict__ turns, Bf16* __restrict__ of_k, Bf16* __restrict__ of_v, int length, int group,
             int causal) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char bytes[];
    __shared__ rows::Barrier full_k, full_q[P::kStages], full_s[P::kStages], empty_q[P::kStages], empty_s[P::kStages];
    __shared__ rows::Barrier full_sums[kGroups], empty_sums[kGroups];
    unsigned char* const keys = gemm::aligned(bytes);
    unsigned char* const values = keys + P::kKeyTile;
    unsigned char* const queries = values + P::kKeyTile;
    unsigned char* const slopes = queries + P::kStages * P::kQueryTile;
    unsigned char* const of_scores = slopes + P::kStages * P::kQueryTile;
    unsigned char* const staged = of_scores + kSlots * P::kSlopeTile;
    float* const row_logs = reinterpret_cast<float*>(staged + (P::kStaged ? kGroups * P::kPart : 0));
    float* const row_means = row_logs + P::kStages * P::kQueries;
    const int row0 = static_cast<int>(blockIdx.x) * kKeys, head = blockIdx.y, part = threadIdx.x / kGroupThreads;
    const int tiles = gemm::parts(length, P::kQueries), first = causal ? row0 / P::kQueries : 0, total = group * (tiles - first);
    if (threadIdx.x == 0) {
        gemm::prefetch_map(map_q);
        gemm::prefetch_map(map_k);
        gemm::prefetch_map(map_v);
        gemm::prefetch_map(map_slope);
        rows::set_up(&full_k, 1);
        for (int i = 0; i < P::kStages; ++i) {
            rows::set_up(&full_q[i], 1);
            rows::set_up(&full_s[i], 1);
            rows::set_up(&empty_q[i], kGroups * kGroupThreads / 32);
            rows::set_up(&empty_s[i], kGroups * kGroupThreads / 32);
        }
        for (int i = 0; i < kGroups; ++i) {
            rows::set_up(&full_sums[i], kGroupThreads / 32);
            rows::set_up(&empty_sums[i], 1);
        }
        rows::publish_barriers();
    }
    __syncthreads();
    if (part == 0) {
        gemm::give_registers<P::kFew>();
        if (threadIdx.x == 0) {
            rows::expect(&full_k, 2 * P::kKeyTile);
            for (int i = 0; i < P::kBoxes; ++i) {
                gemm::fetch_box(keys + i * P::kKeyBox, map_k, i * kBox, row0, head, &full_k);
                gemm::fetch_box(values + i * P::kKeyBox, map_v, i * kBox, row0, head, &full_k);
            }
            gemm::Turn<P::kStages> turn;
            int query_head = head * group, tile = first;
            for (int t = 0; t < total; ++t, turn.next()) {
                const int s = turn.slot;
                const Size row = (static_cast<Size>(query_head) * tiles + tile) * P::kQueries;
                gemm::wait_for(&empty_q[s], turn.parity ^ 1);  // passes in the first turn: the phase before the first has ended
                rows::expect(&full_q[s], P::kQueryTile + P::kRowBytes);
                for (int i = 0; i < P::kBoxes; ++i) {
                    gemm::fetch_box(queries + s * P::kQueryTile + i * P::kQueryBox, map_q, i * kBox, tile * P::kQueries, query_head, &full_q[s]);
                }
                rows::fetch(row_logs + s * P::kQueries, logs + row, P::kRowBytes, &full_q[s]);
                gemm::wait_for(&empty_s[s], turn.parity ^ 1);
                rows::expect(&full_s[s], P::kQueryTile + P::kRowBytes);
                for (int i = 0; i < P::kBoxes; ++i) {
                    gemm::fetch_box(slopes + s * P::kQueryTile + i * P::kQueryBox, map_slope, i * kBox, tile * P::kQueries, query_head, &full_s[s]);
                }
                rows::fetch(row_means + s * P::kQueries, means + row, P::kRowBytes, &full_s[s]);
                if (++tile == tiles) tile = first, ++query_head;
            }
        }
        if constexpr (P::kStaged) {
            if (threadIdx.x == 32 || threadIdx.x == 64) {  // a warp adds what a group staged
                const int worker = thread_now() / 32 - 1;
                unsigned at = (static_cast<unsigned>(head) * group * tiles + first) * kGroups + worker;
                int tile = first;
#pragma unroll 1
                for (int t = 0; t < total; ++t) {
                    gemm::wait_for(&full_sums[worker], t % 2);
                    if constexpr (P::kAdding == kOrdered) wait_turn(turns + at, block_now());
                    add_bulk(sums_q + static_cast<Size>(at) * (P::kPart / 4), staged + worker * P::kPart, P::kPart);
                    gemm::boxes_wait<0, P::kAdding == kOrdered>();
                    gemm::arrive_in(0, &empty_sums[worker]);
                    if constexpr (P::kAdding == kOrdered) pass_turn(turns + at, block_now() + 1);
                    at += kGroups;
                    if (++tile == tiles) tile = first, at += first * kGroups;
                }
                gemm::boxes_wait<0, true>();
            }
        }
    } else {
        gemm::take_registers<P::kMany>();
        constexpr int kCount = P::kCount, kDepths = P::kQueries / 16, kTwo = 2 * kGroupThreads;
        constexpr bool kQ = P::kAdding != kNone;
        const int worker = uniform(part - 1);
        // along k: 16 dimensions further are 32 bytes, after four times the next box; along n or m: 16 rows further
        // So that one register stands for all of them, where tiles lie is counted from the first one.
        const Size start = uniform(static_cast<int>(rows::shared_address(keys))) / 16, part_of_rows = start + worker * (64 * kBoxRow / 16);
        constexpr int kValues = P::kKeyTile, kQueryStart = 2 * P::kKeyTile, kSlopeStart = kQueryStart + P::kStages * P::kQueryTile;
        constexpr int kScoreStart = kSlopeStart + P::kStages * P::kQueryTile;
        const Size rows_of_k = part_of_rows + gemm::descriptor(0, 16, 8 * kBoxRow), rows_of_v = rows_of_k + kValues / 16;
        const Size rows_of_q = start + gemm::descriptor(kQueryStart, 16, 8 * kBoxRow), rows_of_slope = start + gemm::descriptor(kSlopeStart, 16, 8 * kBoxRow);
        const Size columns_of_q = start + gemm::descriptor(kQueryStart, P::kQueryBox, 8 * kBoxRow);
        const Size columns_of_slope = start + gemm::descriptor(kSlopeStart, P::kQueryBox, 8 * kBoxRow);
        const Size columns_of_k = start + worker * (P::kKeyBox / 16) + gemm::descriptor(0, P::kKeyBox, 8 * kBoxRow);
        const Size rows_of_s = start + gemm::descriptor(kScoreStart, 16, 8 * kBoxRow);
        const Size own_of_s = start + worker * (P::kQueryBox / 16) + gemm::descriptor(kScoreStart, P::kQueryBox, 8 * kBoxRow);
        float weights[kCount], terms[kCount], sums[kQ ? kCount : 4], sums_k[64] = {}, sums_v[64] = {};
        unsigned left_v[kDepths][4], left_k[kDepths][4];
        constexpr int kTileSums = P::kQueries * kDim / 4;
        unsigned at = (static_cast<unsigned>(head) * group * tiles + first) * kTileSums + worker * (kTileSums / 2);  // of four sums
        int tile = first;

        const auto along = [&](float (&d)[kCount], Size of_a, Size of_b, int slot) {
#pragma unroll
            for (int i = 0; i < kDim / 16; ++i) {
                multiply<false, false>(d, of_a + (i / 4 * P::kKeyBox + i % 4 * 32) / 16, of_b + (slot * P::kQueryTile + i / 4 * P::kQueryBox + i % 4 * 32) / 16, i > 0);
            }
            gemm::products_commit();
        };
        const auto ask_scores = [&](int slot) { along(weights, rows_of_k, rows_of_q, slot); };
        const auto ask_terms = [&](int slot) { along(terms, rows_of_v, rows_of_slope, slot); };
        const auto ask_v = [&](int slot) {
#pragma unroll
            for (int j = 0; j < kDepths; ++j) gemm::multiply_held<Bf16>(sums_v, left_v[j], columns_of_slope + (slot * P::kQueryTile + j * 16 * kBoxRow) / 16);
            gemm::products_commit();
        };
        const auto ask_k = [&](int slot) {
#pragma unroll
            for (int j = 0; j < kDepths; ++j) {
                const Size b = columns_of_q + (slot * P::kQueryTile + j * 16 * kBoxRow) / 16;
                if constexpr (P::kHeld) gemm::multiply_held<Bf16>(sums_k, left_k[j], b);
                else multiply<true, true>(sums_k, own_of_s + (slot * P::kSlopeTile + j * 16 * kBoxRow) / 16, b, 1);
            }
            gemm::products_commit();
        };
        const auto ask_q = [&](int slot) {
            if constexpr (kQ) {
#pragma unroll
                for (int i = 0; i < kKeys / 16; ++i) {
                    const Size s = rows_of_s + (slot * P::kSlopeTile + i / 4 * P::kQueryBox + i % 4 * 32) / 16, k = columns_of_k + i * 16 * kBoxRow / 16;
                    if constexpr (P::kTurned) multiply<true, false>(sums, k, s, i > 0);
                    else multiply<false, true>(sums, s, k, i > 0);
                }
            }
            gemm::products_commit();
        };
        const auto give_back = [&](rows::Barrier* barrier) {
            __syncwarp();  // all lanes have read
            if (threadIdx.x % 32 == 0) gemm::arrive_in(0, barrier);
        };
        // Scores to weights, of this lane's keys key and key + 8 and of two neighboring queries of each eight.
        const auto weigh = [&](int slot) {
            const int thread = thread_now();
            const float2* const of = reinterpret_cast<const float2*>(row_logs + slot * P::kQueries) + thread % 4;
            const int row = tile * P::kQueries, row0 = block_now() * kKeys;
            if (row0 + kKeys > length || (causal && row < row0 + kKeys - 1)) {
                const int key = row0 - 64 + thread / 32 * 16 + thread % 32 / 4, query = row + thread % 4 * 2;
#pragma unroll
                for (int i = 0; i < kCount; ++i) {
                    const int mine = key + i % 4 / 2 * 8;
                    if (mine >= length || (causal && mine > query + i / 4 * 8 + i % 2)) weights[i] = minus_infinity();
                }
            }
#pragma unroll
            for (int i = 0; i < kCount; i += 4) {
                const float2 log = of[i];
                weights[i] = gemm::power_of_two(weights[i] * kScale<kDim> - log.x);
                weights[i + 1] = gemm::power_of_two(weights[i + 1] * kScale<kDim> - log.y);
                weights[i + 2] = gemm::power_of_two(weights[i + 2] * kScale<kDim> - log.x);
                weights[i + 3] = gemm::power_of_two(weights[i + 3] * kScale<kDim> - log.y);
            }
        };
        const auto pack_v = [&] {
#pragma unroll
            for (int j = 0; j < kDepths; ++j) attention::pack_weights<Bf16>(left_v[j], weights + 8 * j);
        };
        // The gradient of the scores: to the left side of a product, and to shared memory, queries as rows, for both groups.
        const auto differ = [&](int slot) {
            const int lane = thread_now() % 32, warp = thread_now() % kGroupThreads / 32;
            const float2* const of = reinterpret_cast<const float2*>(row_means + slot * P::kQueries) + lane % 4;
#pragma unroll
            for (int i = 0; i < kCount; i += 4) {
                const float2 mean = of[i];
                if constexpr (P::kNarrow) {
                    const unsigned upper = left_v[i / 8][i % 8 / 2], lower = left_v[i / 8][i % 8 / 2 + 1];
                    terms[i] = low_half(upper) * (terms[i] - mean.x);
                    terms[i + 1] = high_half(upper) * (terms[i + 1] - mean.y);
                    terms[i + 2] = low_half(lower) * (terms[i + 2] - mean.x);
                    terms[i + 3] = high_half(lower) * (terms[i + 3] - mean.y);
                } else {
                    terms[i] = weights[i] * (terms[i] - mean.x);
                    terms[i + 1] = weights[i + 1] * (terms[i + 1] - mean.y);
                    terms[i + 2] = weights[i + 2] * (terms[i + 2] - mean.x);
                    terms[i + 3] = weights[i + 3] * (terms[i + 3] - mean.y);
                }
            }
            unsigned char* const to = of_scores + slot * P::kSlopeTile + worker * P::kQueryBox;
#pragma unroll
            for (int j = 0; j < kDepths; ++j) {
                attention::pack_weights<Bf16>(left_k[j], terms + 8 * j);
                const int query = 16 * j + lane / 16 * 8 + lane % 8;
                if constexpr (kQ || !P::kHeld) store_turned(to + query * kBoxRow + 16 * swizzled(query, 2 * warp + lane / 8 % 2), left_k[j]);
            }
            if constexpr (kQ || !P::kHeld) {
                gemm::publish_writes();
                gemm::turn_give<kTwo>(2 * slot + (worker ^ 1));
            }
        };
        // Both groups' gradients of the scores are there. Slots have barriers apart: a group may be a tile ahead.
        const auto meet = [&](int slot) {
            const int worker_turn = 2 * slot + worker;
            if constexpr (kQ || !P::kHeld) gemm::turn_wait<kTwo>(worker_turn);
        };
        // The sums of Q to memory, or to where a warp fetches them from; after next().
        const auto add = [&](int t) {
            if constexpr (P::kStaged) {
                float4* const stage = reinterpret_cast<float4*>(staged + worker * P::kPart) + thread_now() % kGroupThreads;
                gemm::wait_for(&empty_sums[worker], t % 2 ^ 1);
#pragma unroll
                for (int i = 0; i < kCount / 4; ++i) stage[i * kGroupThreads] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
                gemm::publish_writes();
                give_back(&full_sums[worker]);
            } else if constexpr (kQ) {
                float4* const to = reinterpret_cast<float4*>(sums_q) + at + thread_now() % kGroupThreads;
#pragma unroll
                for (int i = 0; i < kCount / 4; ++i) add_four(to + i * kGroupThreads, sums + 4 * i);
                at += tile == first ? (first + 1) * kTileSums : kTileSums;
            }
        };
        const auto next = [&] {
            if (++tile == tiles) tile = first;
        };

        gemm::wait_for(&full_k, 0);
        if constexpr (P::kOrder == kAhead) {
            gemm::wait_for(&full_q[0], 0);
            gemm::products_begin();
            ask_scores(0);
            gemm::products_wait<0>();
            gemm::take_results(weights);
            weigh(0);
            for (int t = 0; t < total; ++t) {
                const int s = t % 2;
                pack_v();
                gemm::wait_for(&full_s[s], t / 2 % 2);
                gemm::products_begin();
                ask_terms(s);
                ask_v(s);
                gemm::products_wait<1>();
                gemm::take_results(terms);
                differ(s);
                gemm::products_wait<0>();  // its left side need not be kept any longer
                gemm::take_results(sums_v);
                give_back(&empty_s[s]);
                next();
                const bool last = t + 1 == total;
                const int following = last ? s : s ^ 1;  // after the last tile its scores once more
                if (!last) gemm::wait_for(&full_q[following], (t + 1) / 2 % 2);
                gemm::products_begin();
                ask_scores(following);
                if constexpr (P::kHeld) ask_k(s);
                meet(s);
                gemm::products_begin();
                if constexpr (!P::kHeld) ask_k(s);
                ask_q(s);
                gemm::products_wait<2>();
                gemm::take_results(weights);
                weigh(following);
                gemm::not_before(all_bits(weights));  // else the assembler has the exponentials wait for the other products
                gemm::products_wait<0>();
                gemm::take_results(sums_k);
                if constexpr (kQ) gemm::take_results(sums);
                give_back(&empty_q[s]);
                add(t);
            }
        } else {
            for (int t = 0; t < total; ++t) {
                const int s = t % 2;
                gemm::wait_for(&full_q[s], t / 2 % 2);
                gemm::products_begin();
                ask_scores(s);
                if constexpr (P::kOrder == kOneByOne) {
                    gemm::products_wait<0>();
                    gemm::take_results(weights);
                    weigh(s);
                    pack_v();
                    gemm::wait_for(&full_s[s], t / 2 % 2);
                    gemm::products_begin();
                    ask_v(s);
                    gemm::products_wait<0>();
                    gemm::take_results(sums_v);
                    gemm::products_begin();
                    ask_terms(s);
                    gemm::products_wait<0>();
                    gemm::take_results(terms);
                    differ(s);
                    give_back(&empty_s[s]);  // not before: the rows' means came with the tile
                    meet(s);
                    gemm::products_begin();
                    ask_k(s);
                    gemm::products_wait<0>();
                    gemm::take_results(sums_k);
                    give_back(&empty_q[s]);
                    gemm::products_begin();
                    ask_q(s);
                    gemm::products_wait<0>();
                    if constexpr (kQ) gemm::take_results(sums);
                    next();
                    add(t);
                } else {
                    gemm::wait_for(&full_s[s], t / 2 % 2);
                    gemm::products_begin();
                    ask_terms(s);
                    gemm::products_wait<1>();
                    gemm::take_results(weights);
                    weigh(s);
                    pack_v();
                    gemm::products_begin();
                    ask_v(s);
                    gemm::products_wait<1>();
                    gemm::take_results(terms);
                    differ(s);
                    meet(s);
                    gemm::products_begin();
                    ask_q(s);
                    ask_k(s);
                    gemm::products_wait<1>();
                    gemm::take_results(sums_v);
                    if constexpr (kQ) gemm::take_results(sums);
                    give_back(&empty_s[s]);
                    next();
                    add(t);
                    gemm::products_wait<0>();
                    gemm::take_results(sums_k);
                    give_back(&empty_q[s]);
                }
            }
        }
        const int lane = threadIdx.x % 32, key = row0 - 64 + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if (key + 8 * h >= length) continue;
            const Size to = (static_cast<Size>(head) * length + key + 8 * h) * kDim + lane % 4 * 2;
#pragma unroll
            for (int i = 0; i < kDim / 8; ++i) {
                const int at = 4 * i + 2 * h;
                *reinterpret_cast<unsigned*>(of_v + to + 8 * i) = gemm::pack_pair<Bf16>(sums_v[at], sums_v[at + 1]);
                *reinterpret_cast<unsigned*>(of_k + to + 8 * i) = gemm::pack_pair<Bf16>(sums_k[at] * (kScale<kDim> / kLog2e), sums_k[at + 1] * (kScale<kDim> / kLog2e));
            }
        }
    }
#endif
}

// Two groups of 64 queries and a third that asks for tiles, as in the forward pass: rows of the sums are queries.
struct Rows {
    static constexpr int kQueries = 64 * kGroups, kStages = 2, kBoxes = kDim / kBox;
    static constexpr int kQueryBox = kQueries * kBoxRow, kQueryTile = kBoxes * kQueryBox;
    static constexpr int kTileKeys = 64, kKeyBox = kTileKeys * kBoxRow, kTile = kBoxes * kKeyBox, kCount = kTileKeys / 2;
    static constexpr int kBytes = 2 * kQueryTile + kStages * 2 * kTile + 1024, kFew = 24, kMany = 240;
};

// The gradient of Q by a pass of its own; kLogs: log_sums of the rows instead, from queries and keys alone.
template <bool kLogs>
__global__ void __launch_bounds__(kBlockThreads, 1)
    of_rows(const __grid_constant__ gemm::TensorMap map_q, const __grid_constant__ gemm::TensorMap map_k, const __grid_constant__ gemm::TensorMap map_v,
            const __grid_constant__ gemm::TensorMap map_slope, const float* __restrict__ logs, const float* __restrict__ means,
            Bf16* __restrict__ of_q, float* __restrict__ log_sums, int length, int padded, int group, int causal) {
#ifdef LAB_WGMMA
    using P = Rows;
    extern __shared__ unsigned char bytes[];
    __shared__ rows::Barrier full_q, full[P::kStages], empty[P::kStages];
    unsigned char* const queries = gemm::aligned(bytes);
    unsigned char* const slopes = queries + P::kQueryTile;
    unsigned char* const keys = slopes + P::kQueryTile;
    unsigned char* const values = keys + P::kStages * P::kTile;
    const int row0 = attention::block_of_head(causal) * P::kQueries, head = blockIdx.y, part = threadIdx.x / kGroupThreads;
    const int tiles = gemm::parts(causal ? min(row0 + P::kQueries, length) : length, P::kTileKeys);
    if (threadIdx.x == 0) {
        gemm::prefetch_map(map_q);
        gemm::prefetch_map(map_k);
        gemm::prefetch_map(map_v);
        gemm::prefetch_map(map_slope);
        rows::set_up(&full_q, 1);
        for (int i = 0; i < P::kStages; ++i) {
            rows::set_up(&full[i], 1);
            rows::set_up(&empty[i], kGroups * kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    __syncthreads();
    if (part == 0) {
        gemm::give_registers<P::kFew>();
        if (threadIdx.x == 0) {
            rows::expect(&full_q, (kLogs ? 1 : 2) * P::kQueryTile);
            for (int i = 0; i < P::kBoxes; ++i) {
                gemm::fetch_box(queries + i * P::kQueryBox, map_q, i * kBox, row0, head, &full_q);
                if constexpr (!kLogs) gemm::fetch_box(slopes + i * P::kQueryBox, map_slope, i * kBox, row0, head, &full_q);
            }
            gemm::Turn<P::kStages> turn;
            for (int tile = 0; tile < tiles; ++tile, turn.next()) {
                const int s = turn.slot;
                gemm::wait_for(&empty[s], turn.parity ^ 1);
                rows::expect(&full[s], (kLogs ? 1 : 2) * P::kTile);
                for (int i = 0; i < P::kBoxes; ++i) {
                    gemm::fetch_box(keys + s * P::kTile + i * P::kKeyBox, map_k, i * kBox, tile * P::kTileKeys, head / group, &full[s]);
                    if constexpr (!kLogs) gemm::fetch_box(values + s * P::kTile + i * P::kKeyBox, map_v, i * kBox, tile * P::kTileKeys, head / group, &full[s]);
                }
            }
        }
    } else {
        gemm::take_registers<P::kMany>();
        constexpr int kCount = P::kCount;
        const int worker = part - 1, lane = threadIdx.x % 32, first_row = row0 + 64 * worker;
        const int row = first_row + static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + lane / 4;
        const Size rows_of_q = gemm::descriptor(rows::shared_address(queries) + worker * 64 * kBoxRow, 16, 8 * kBoxRow);
        const Size rows_of_slope = gemm::descriptor(rows::shared_address(slopes) + worker * 64 * kBoxRow, 16, 8 * kBoxRow);
        const Size rows_of_k = gemm::descriptor(rows::shared_address(keys), 16, 8 * kBoxRow);
        const Size rows_of_v = gemm::descriptor(rows::shared_address(values), 16, 8 * kBoxRow);
        const Size columns_of_k = gemm::descriptor(rows::shared_address(keys), P::kKeyBox, 8 * kBoxRow);
        float weights[kCount], terms[kLogs ? 4 : kCount], sums[kLogs ? 4 : 64] = {}, log[2], mean[2], smaller[2];
        unsigned left[P::kTileKeys / 16][4];
        attention::Rows mine;
        if constexpr (!kLogs) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                const bool there = row + 8 * h < length;
                log[h] = there ? logs[static_cast<Size>(head) * padded + row + 8 * h] : -minus_infinity();
                mean[h] = there ? means[static_cast<Size>(head) * padded + row + 8 * h] : 0.0f;
            }
        }
        const auto along = [&](float (&d)[kCount], Size of_a, Size of_b, int slot) {
#pragma unroll
            for (int i = 0; i < kDim / 16; ++i) {
                multiply<false, false>(d, of_a + (i / 4 * P::kQueryBox + i % 4 * 32) / 16, of_b + (slot * P::kTile + i / 4 * P::kKeyBox + i % 4 * 32) / 16, i > 0);
            }
            gemm::products_commit();
        };
        gemm::wait_for(&full_q, 0);
        gemm::Turn<P::kStages> turn;
        for (int tile = 0; tile < tiles; ++tile, turn.next()) {
            const int s = turn.slot, first = tile * P::kTileKeys;
            gemm::wait_for(&full[s], turn.parity);
            gemm::products_begin();
            along(weights, rows_of_q, rows_of_k, s);
            if constexpr (!kLogs) {
                along(terms, rows_of_slope, rows_of_v, s);
                gemm::products_wait<1>();
            } else {
                gemm::products_wait<0>();
            }
            gemm::take_results(weights);
            if (first + P::kTileKeys > length || (causal && first + P::kTileKeys > first_row)) attention::mask<kCount>(weights, first, row, length, causal);
            if constexpr (kLogs) {
                attention::weigh<kCount>(weights, mine, smaller, kScale<kDim>);
            } else {
#pragma unroll
                for (int i = 0; i < kCount; ++i) weights[i] = gemm::power_of_two(weights[i] * kScale<kDim> - log[i % 4 / 2]);
                gemm::products_wait<0>();
                gemm::take_results(terms);
#pragma unroll
                for (int i = 0; i < kCount; ++i) terms[i] = weights[i] * (terms[i] - mean[i % 4 / 2]);
#pragma unroll
                for (int j = 0; j < P::kTileKeys / 16; ++j) attention::pack_weights<Bf16>(left[j], terms + 8 * j);
                gemm::products_begin();
#pragma unroll
                for (int j = 0; j < P::kTileKeys / 16; ++j) gemm::multiply_held<Bf16>(sums, left[j], columns_of_k + (s * P::kTile + j * 16 * kBoxRow) / 16);
                gemm::products_commit();
                gemm::products_wait<0>();
                gemm::take_results(sums);
            }
            if (lane == 0) gemm::arrive_in(0, &empty[s]);
        }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            if constexpr (kLogs) {
                const float sum = attention::sum_over<4>(mine.sum[h]);
                if (row + 8 * h < length && lane % 4 == 0) log_sums[static_cast<Size>(head) * length + row + 8 * h] = (mine.largest[h] * kScale<kDim> + log2f(sum)) / kLog2e;
            } else {
                if (row + 8 * h >= length) continue;
                Bf16* const to = of_q + (static_cast<Size>(head) * length + row + 8 * h) * kDim + lane % 4 * 2;
#pragma unroll
                for (int i = 0; i < kDim / 8; ++i) {
                    *reinterpret_cast<unsigned*>(to + 8 * i) = gemm::pack_pair<Bf16>(sums[4 * i + 2 * h] * (kScale<kDim> / kLog2e), sums[4 * i + 2 * h + 1] * (kScale<kDim> / kLog2e));
                }
            }
        }
    }
#endif
}

}  // namespace backward
}  // namespace lab
