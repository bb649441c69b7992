// The tensor cores' part of a matmul: what gemm/bf16.cuh multiplies, without what brings the operands and takes the results away.
// Device code only, for nvcc and NVRTC alike; needs sm_90a.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../gemm/bf16.cuh"

namespace lab {
namespace energy {

// As gemm::specialized (persistent, no cluster), with the same instructions on the same tiles of shared memory in the same order; but
// a block fetches its first tile's first R::kStages stages once, and goes round and round in them. Of the tile of C: what was summed
// last, k / (R::kStages · kTileK) times the product of those stages. m, n and k are whole tiles, k whole rounds.
template <typename R>
__global__ void __launch_bounds__(gemm::kWorkThreads, 1)
    cores(const __grid_constant__ gemm::TensorMap map_a, const __grid_constant__ gemm::TensorMap map_b, gemm::Bf16* __restrict__ c, int m, int n, int k, int ldc) {
#ifdef LAB_WGMMA
    using namespace gemm;
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full;
    unsigned char* const stages = aligned(memory);
    const int group = threadIdx.x / kGroupThreads, down = parts(m, kTileM), across = parts(n, R::kN), tiles = down * across;
    const Place at = place_of(blockIdx.x, down, across, kBand);
    const int row0 = at.row * kTileM, column0 = at.column * R::kN;
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        rows::set_up(&full, 1);
        rows::publish_barriers();
    }
    __syncthreads();
    if (group == 0) {
        give_registers<40>();
        if (threadIdx.x == 0) {
            rows::expect(&full, R::kStages * R::kStage);
            for (int slot = 0; slot < R::kStages; ++slot) {
                unsigned char* const stage = stages + slot * R::kStage;
                fetch_box<1>(stage, map_a, slot * kTileK, row0, &full);
                for (int i = 0; i < R::kBoxesB; ++i) fetch_box<1>(stage + kBytesA + i * kBytesBoxB, map_b, column0 + i * kBox, slot * kTileK, &full);
            }
        }
    } else {
        take_registers<232>();
        const int worker = group - 1;
        float sums[R::kN / 2] = {};
        Turn<R::kStages> turn;
        wait_for(&full, 0);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            for (int k0 = 0; k0 < k; k0 += kTileK, turn.next()) {
                products_begin();
                multiply_stage<R::kN>(sums, stages + turn.slot * R::kStage, worker, k0 > 0);
                products_commit();
                if (k0 > 0) products_wait<1>();
            }
            products_wait<0>();
            take_results(sums);
        }
        store_sums<R::kN>(sums, c, row0 + worker * kGroupM, column0, m, n, ldc);
    }
#endif
}

}  // namespace energy
}  // namespace lab
