// Grouped matmul of bf16, as a mixture of experts needs it: tokens (t × k), sorted by expert, each expert's with its own weights
// (k × n); out (t × n), all row by row. Device code only, for nvcc and NVRTC alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// How many tokens an expert has is known on the GPU alone: ends[e] is the row behind the last one of expert e. Tiles of 128 × 256
// never mix experts, so where an expert ends a tile sticks into the rows of the next one, which it may read and must not write:
//   by_expert     one launch, a block for each tile that there can be; each finds its tile from `ends`, and surplus ones leave
//   persistent    a block a multiprocessor stays and takes tile after tile
//     store       … rows leave through shared memory: whole boxes by the copy engine, where an expert ends by the threads
//     fitted      … a tile of at most 64 rows, or 128 columns, fetches and multiplies no more than that
//     queue       … tiles, no longer of one price, are drawn from a queue
//     paired      … and narrow tiles that lie above each other are one of twice the rows
#pragma once

#include "fitted.cuh"

namespace lab {
namespace gemm {

constexpr int kMostExperts = 192;  // as many as there is shared memory for

// Where a tile of this number lies. `first`: of each expert, the number of its first tile, and behind them that of all tiles. `paired`: a last column of at most kNarrow is in tiles of twice the rows, at the end of each band.
struct Finder {
    const int *first, *ends;
    int wide, paired, expert;
    __host__ __device__ constexpr Finder(const int* first_, const int* ends_, int wide_, int paired_)
        : first(first_), ends(ends_), wide(wide_), paired(paired_), expert(0) {}
    static constexpr int kTall = 2 * kBand;
    __host__ __device__ static constexpr int count(int rows, int wide, int paired) { return parts(rows, kTileM) * wide + parts(rows, 2 * kTileM) * paired; }
    __host__ __device__ constexpr int rows_before() const { return expert == 0 ? 0 : ends[expert - 1]; }
    // Numbers only grow.
    __host__ __device__ constexpr Place find(int tile) {
        while (first[expert + 1] <= tile) ++expert;
        const int of = tile - first[expert], down = parts(ends[expert] - rows_before(), kTileM);
        if (paired == 0) return place_of(of, down, wide, kTall);
        const int a_band = kTall * wide + kTall / 2, above = of / a_band * kTall, within = of % a_band;
        const int tall = down - above < kTall ? down - above : kTall;
        if (within < tall * wide) return {above + within % tall, within / tall};
        return {above + 2 * (within - tall * wide), wide};
    }
};

#ifdef LAB_WGMMA
template <bool kFitted>
__device__ __forceinline__ Piece piece_at(const Finder& finder, Place at, int n, int width, int stages) {
    const int row0 = finder.rows_before() + at.row * kTileM, column0 = at.column * width, left = finder.ends[finder.expert] - row0;
    const int most = at.column < finder.wide ? 2 : 4, groups = parts(left, kGroupM);
    return {row0, column0, 0, stages, !kFitted ? 2 : groups < most ? groups : most, kFitted && n - column0 <= kNarrow};
}
#endif

template <typename R, bool kPersistent, bool kStore, bool kFitted, bool kQueue, bool kPaired>
__global__ void __launch_bounds__(kWorkThreads, 1)
    grouped(const __grid_constant__ TensorMap map_tokens, const __grid_constant__ TensorMap map_weights, const __grid_constant__ TensorMap map_out,
            Bf16* __restrict__ out, const int* __restrict__ ends, unsigned* queue, int experts, int n, int k) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages], told[2], heard[2];
    __shared__ int own_ends[kMostExperts], first[kMostExperts + 1], drawn[2];
    unsigned char* const stages = aligned(memory);
    const int paired = kPaired && n % R::kN > 0 && n % R::kN <= kNarrow ? 1 : 0, wide = parts(n, R::kN) - paired;
    const int depth = parts(k, kTileK), lane = threadIdx.x % 32, group = threadIdx.x / kGroupThreads, expert = threadIdx.x;
    if (threadIdx.x == 0) {
        prefetch_map(map_tokens);
        prefetch_map(map_weights);
        set_up_ring<R, 1>(full, empty);
        for (int i = 0; i < 2; ++i) {
            rows::set_up(&told[i], 1);
            rows::set_up(&heard[i], 2 * kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    if (expert < experts) own_ends[expert] = ends[expert];
    __syncthreads();
    if (expert <= experts) {
        int before = 0;
        for (int i = 0; i < expert; ++i) before += Finder::count(own_ends[i] - (i == 0 ? 0 : own_ends[i - 1]), wide, paired);
        first[expert] = before;
    }
    __syncthreads();
    const int tiles = first[experts];
    Finder finder(first, own_ends, wide, paired);
    if (group == 0) {
        give_registers<40>();
        if (threadIdx.x == 0) {
            Turn<R::kStages> turn;
            Turn<2> talk;
            for (int tile = blockIdx.x; tile < tiles;) {
                int next = kPersistent && !kQueue ? tile + gridDim.x : tiles, ticket = 0;
                if constexpr (kQueue) ticket = draw(queue);  // not looked at until this tile is asked for: nobody waits for it
                const Piece p = piece_at<kFitted>(finder, finder.find(tile), n, R::kN, depth);
                fetch_piece<R, 1>(turn, stages, full, empty, map_tokens, p, 0, [&](void* to, int box, int s, rows::Barrier* arrived) {
                    fetch_box(to, map_weights, p.column0 + box * kBox, s * kTileK, finder.expert, arrived);
                });
                if constexpr (kQueue) {
                    if (ticket == tiles - 1) *queue = 0;  // the last one that anybody draws
                    next = gridDim.x + ticket;
                    wait_for(&heard[talk.slot], talk.parity ^ 1);
                    drawn[talk.slot] = next;
                    rows::expect(&told[talk.slot], 0);
                    talk.next();
                }
                tile = next;
            }
        }
    } else {
        take_registers<232>();
        const int worker = group - 1;
        unsigned char* const boxes = stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut;
        const bool words = on_words(out, n);
        float sums[R::kN / 2] = {};
        Turn<R::kStages> turn;
        Turn<2> talk;
        int box = 0;
        for (int tile = blockIdx.x; tile < tiles;) {
            const Piece p = piece_at<kFitted>(finder, finder.find(tile), n, R::kN, depth);
            work_on<R, 1, kPaired>(sums, turn, stages, full, empty, p, worker);
            const bool tall = kPaired && p.groups > 2;
            const int row0 = p.row0 + (tall ? 2 : 1) * worker * kGroupM, left = own_ends[finder.expert] - row0;
            if constexpr (kStore) {
                if (left > 0) {
                    write_sums<R>(sums, boxes, box, worker, map_out, out, n, row0, p.column0, left, n - p.column0, words, kGroupM, words, tall,
                                  [](int, float*) {});
                }
            } else {
                store_sums<R::kN>(sums, out, row0, p.column0, own_ends[finder.expert], n, n);
            }
            if constexpr (kQueue) {
                wait_for(&told[talk.slot], talk.parity);
                tile = drawn[talk.slot];
                __syncwarp();
                if (lane == 0) arrive_in(0, &heard[talk.slot]);
                talk.next();
            } else {
                tile = kPersistent ? tile + gridDim.x : tiles;
            }
        }
        if constexpr (kStore) {
            if (threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
        }
    }
#endif
}

}  // namespace gemm
}  // namespace lab
