// How tiles of 2-byte elements lie in shared memory, and how rings of them are gone through. Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instructions.cuh"

namespace lab {
namespace gemm {

// Where chunk (16 bytes) `chunk` of row `row` lies in its row of shared memory: eight rows' chunks of one column, which ldmatrix
// reads together, lie in eight different groups of 4 banks. The copy engine's «128-byte swizzle» is the same for rows of 128 bytes.
__host__ __device__ constexpr int swizzled(int row, int chunk) { return chunk ^ (row % 8); }

// Tiles lie in boxes of 64 columns: rows of 128 bytes, their chunks swizzled by the copy engine as by swizzled().
constexpr int kGroupThreads = 128;                         // a group of four warps
constexpr int kBox = 64, kBoxRow = 2 * kBox;               // columns of a box; bytes of its row

// The descriptor by which wgmma finds a matrix in shared memory: its address, two strides (all in units of 16 bytes) and the swizzle.
__host__ __device__ constexpr Size descriptor(unsigned address, unsigned leading_bytes, unsigned stride_bytes) {
    return static_cast<Size>((address & 0x3ffff) >> 4) | static_cast<Size>(leading_bytes >> 4) << 16 |
           static_cast<Size>(stride_bytes >> 4) << 32 | 1ull << 62;  // 1: 128-byte swizzle
}

// A place in a ring of slots, and the parity of the turn: it changes each time the ring is through.
template <int kSlots>
struct Turn {
    int slot = 0;
    unsigned parity = 0;
    __host__ __device__ void next() {
        if (++slot == kSlots) slot = 0, parity ^= 1;
    }
};

}  // namespace gemm
}  // namespace lab
