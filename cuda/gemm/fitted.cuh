// Tiles of C that may be smaller than the others: what a block of a matmul fetches, multiplies and writes of one.
// Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
//
// The ring, its barriers and its two consumers are those of bf16.cuh. What differs: a tile of at most 64 rows is multiplied by one
// group, one of at most 128 columns by instructions of that width; what is not needed is not fetched. Sums leave by the copy engine
// or, where a box sticks out of what may be written or C's rows do not start on 16 bytes, from the same box by the threads.
#pragma once

#include "bf16.cuh"
#include "parts.cuh"

namespace lab {
namespace gemm {

constexpr int kNarrow = 128;                  // columns of a tile that is less wide than the others
constexpr int kBytesHalfA = kGroupM * kBoxRow;  // of A, a group's rows

// A run of stages of a tile, for one block: `groups` of 64 rows are there, and `narrow`: at most kNarrow columns of more. Where groups
// are more than two, the tile is one of kNarrow columns and twice the rows: two groups of rows for each worker.
struct Piece {
    int row0, column0, first, last, groups;
    bool narrow;
};

#ifdef LAB_WGMMA
// The barriers of a ring.
template <typename R, int kBlocks>
__device__ __forceinline__ void set_up_ring(rows::Barrier* full, rows::Barrier* empty) {
    for (int i = 0; i < R::kStages; ++i) {
        rows::set_up(&full[i], 1);
        rows::set_up(&empty[i], kBlocks * 2 * kGroupThreads / 32);
    }
}

// Where B lies in a stage: behind two groups' rows of A, or four of a tile of twice the rows.
__device__ __forceinline__ constexpr int behind_a(bool tall) { return tall ? 2 * kBytesA : kBytesA; }

// The producer's part of a piece. fetch_b(to, box, stage, barrier) asks for 64 columns of B.
template <typename R, int kBlocks, typename FetchB>
__device__ __forceinline__ void fetch_piece(Turn<R::kStages>& turn, unsigned char* stages, rows::Barrier* full, rows::Barrier* empty, const TensorMap& map_a,
                                            const Piece& p, int rank, const FetchB& fetch_b) {
    const int boxes = (p.narrow ? kNarrow / kBox : R::kBoxesB) / kBlocks;
    for (int s = p.first; s < p.last; ++s, turn.next()) {
        unsigned char* const stage = stages + turn.slot * R::kStage;
        rows::Barrier* const arrived = &full[turn.slot];
        wait_for(&empty[turn.slot], turn.parity ^ 1);
        rows::expect(arrived, p.groups * kBytesHalfA + kBlocks * boxes * kBytesBoxB);
        for (int i = 0; i < p.groups; ++i) fetch_box<1>(stage + i * kBytesHalfA, map_a, s * kTileK, p.row0 + i * kGroupM, arrived);
        unsigned char* const of_b = stage + behind_a(p.groups > 2);
        for (int i = rank * boxes; i < (rank + 1) * boxes; ++i) fetch_b(of_b + i * kBytesBoxB, i, s, arrived);
    }
}

// The multiplications of one stage: a group's rows of A with kN columns of B, which begins at `of_b`.
template <int kN>
__device__ __forceinline__ void multiply_rows(float (&sums)[kN / 2], const unsigned char* stage, int of_b, int group, bool adds) {
    const Size a = descriptor_a(rows::shared_address(stage) + group * kBytesHalfA), b = descriptor_b(rows::shared_address(stage) + of_b);
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) multiply<kN>(sums, a + i * kStepA, b + i * kStepB, adds || i > 0);
}

// A consumer's part: its rows of the sums over the stages of a piece, in the first kN / 2 of `sums`; of twice the rows (kN 0), in all.
template <typename R, int kBlocks, int kN>
__device__ __forceinline__ void multiply_piece(float (&sums)[R::kN / 2], Turn<R::kStages>& turn, const unsigned char* stages, rows::Barrier* full,
                                               rows::Barrier* empty, const Piece& p, int worker) {
    const int lane = threadIdx.x % 32, own = kBlocks == 1 ? rows::cluster_rank() : 0;  // what it fetches alone may still be in a cluster
    const auto give_back = [&](int slot) {
        if (lane < kBlocks) arrive_in(own + lane, &empty[slot]);
    };
    constexpr int kMine = kN == 0 ? R::kN / 2 : kN / 2;
    float(&mine)[kMine] = reinterpret_cast<float(&)[kMine]>(sums);
    int before = 0;
#pragma unroll 1
    for (int s = p.first; s < p.last; ++s, turn.next()) {
        wait_for(&full[turn.slot], turn.parity);
        products_begin();
        const unsigned char* const stage = stages + turn.slot * R::kStage;
        if constexpr (kN == 0) {
            multiply_rows<kNarrow>(reinterpret_cast<float(&)[kNarrow / 2]>(sums[0]), stage, behind_a(true), 2 * worker, s > p.first);
            multiply_rows<kNarrow>(reinterpret_cast<float(&)[kNarrow / 2]>(sums[kNarrow / 2]), stage, behind_a(true), 2 * worker + 1, s > p.first);
        } else {
            multiply_rows<kN>(mine, stage, behind_a(false), worker, s > p.first);
        }
        products_commit();
        if (s > p.first) {
            products_wait<1>();
            give_back(before);
        }
        before = turn.slot;
    }
    products_wait<0>();
    take_results(mine);
    give_back(before);
}

// … and that of a consumer whose rows are not there.
template <typename R, int kBlocks>
__device__ __forceinline__ void skip_piece(Turn<R::kStages>& turn, rows::Barrier* full, rows::Barrier* empty, const Piece& p) {
    const int lane = threadIdx.x % 32, own = kBlocks == 1 ? rows::cluster_rank() : 0;
    for (int s = p.first; s < p.last; ++s, turn.next()) {
        wait_for(&full[turn.slot], turn.parity);
        if (lane < kBlocks) arrive_in(own + lane, &empty[turn.slot]);
    }
}

// Whichever of them a piece needs.
template <typename R, int kBlocks, bool kTall = false>
__device__ __forceinline__ void work_on(float (&sums)[R::kN / 2], Turn<R::kStages>& turn, const unsigned char* stages, rows::Barrier* full,
                                        rows::Barrier* empty, const Piece& p, int worker) {
    if (kTall && p.groups > 2) multiply_piece<R, kBlocks, 0>(sums, turn, stages, full, empty, p, worker);
    else if (worker >= p.groups) skip_piece<R, kBlocks>(turn, full, empty, p);
    else if (R::kN > kNarrow && p.narrow) multiply_piece<R, kBlocks, kNarrow>(sums, turn, stages, full, empty, p, worker);
    else multiply_piece<R, kBlocks, R::kN>(sums, turn, stages, full, empty, p, worker);
}

// A box of 64 × 64 from shared memory, the first `tall` rows and `wide` columns of it, by the threads of a group.
__device__ __forceinline__ void write_part(const unsigned char* box, Bf16* c, int ldc, int tall, int wide, bool words) {
    const int thread = threadIdx.x % kGroupThreads;
    if (words && wide % 8 == 0) {
        const int chunk = thread % 8;
        for (int row = thread / 8; row < tall; row += kGroupThreads / 8) {
            if (8 * chunk >= wide) break;
            *reinterpret_cast<uint4*>(c + static_cast<Size>(row) * ldc + 8 * chunk) = *reinterpret_cast<const uint4*>(box + row * kBoxRow + swizzled(row, chunk) * 16);
        }
        return;
    }
    for (int row = thread / 32; row < tall; row += kGroupThreads / 32) {  // a row a warp: neighbors write neighbors
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int column = 32 * half + thread % 32;
            if (column < wide) c[static_cast<Size>(row) * ldc + column] = *reinterpret_cast<const Bf16*>(box + row * kBoxRow + swizzled(row, column / 8) * 16 + column % 8 * 2);
        }
    }
}

// A group's sums to C, box by box: `rows_left` and `columns_left` may be written from (row0, column0) on. By the copy engine, where
// `engine` says that it can reach C and there are `least` rows: it leaves out what lies beyond C's sides, and nothing else. `tall`: of
// four boxes two lie below the others. add(i, of_box) may add something to the 32 sums that a thread has of box i.
template <typename R, typename Add>
__device__ __forceinline__ void write_sums(const float* sums, unsigned char* boxes, int& box, int worker, const TensorMap& map_c, Bf16* c, int ldc, int row0,
                                           int column0, int rows_left, int columns_left, bool engine, int least, bool words, bool tall, const Add& add) {
    const bool asks = threadIdx.x % kGroupThreads == 0;
#pragma unroll
    for (int i = 0; i < R::kBoxesB; ++i) {
        const int right = (tall ? i % 2 : i) * kBox, down = tall ? i / 2 * kGroupM : 0, wide = columns_left - right, high = rows_left - down;
        if (wide > 0 && high > 0) {
            float of_box[kBox / 2];
#pragma unroll
            for (int j = 0; j < kBox / 2; ++j) of_box[j] = sums[i * (kBox / 2) + j];
            add(i, of_box);
            const bool by_engine = engine && high >= least;
            if (asks && by_engine) boxes_wait<R::kBoxes - 1, false>();  // the box to be filled has been read
            if (asks && !by_engine) boxes_wait<0, false>();             // … and so have all, for this one will not be counted
            group_sync(worker);
            unsigned char* const at = boxes + box * R::kOut;
            pack_box(of_box, at);
            if (by_engine) publish_writes();
            group_sync(worker);
            if (!by_engine) {
                write_part(at, c + static_cast<Size>(row0 + down) * ldc + column0 + right, ldc, high < kGroupM ? high : kGroupM, wide < kBox ? wide : kBox, words);
            } else if (asks) {
                write_box(map_c, column0 + right, row0 + down, at);
            }
            box = box + 1 == R::kBoxes ? 0 : box + 1;
        }
    }
}
#endif

}  // namespace gemm
}  // namespace lab
