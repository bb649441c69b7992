// The instructions that paged decode is made of, as functions. Device code only, for NVRTC and nvcc alike; compute capability 8.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

namespace lab {
namespace paged_decode {

using Bf16 = __nv_bfloat16;
constexpr unsigned kAllLanes = 0xffffffffu;

// 16 bytes of the cache, past the L1 cache, for nobody reads them again.
__device__ __forceinline__ uint4 read_once(const Bf16* from) {
    uint4 word;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "l"(from));
    return word;
}

// 16 bytes of shared memory, anew each time: what is not kept in registers leaves them to others.
__device__ __forceinline__ uint4 read_again(const uint4* from) {
    uint4 word;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(from))));
    return word;
}

// sums (16 × 8) += a (16 × 16) · b (16 × 8). A warp's lane 4 · g + q has of a, rows g and g + 8: columns 2q, 2q + 1 and those + 8, of
// b, column g: the same rows; of the sums, rows g and g + 8: columns 2q, 2q + 1.
__device__ __forceinline__ void multiply(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    __trap();
#endif
}

// Two values as bf16 in a word, the first in the lower half.
__device__ __forceinline__ unsigned pair_of(float low, float high) {
    return static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(high))) << 16 | __bfloat16_as_ushort(__float2bfloat16_rn(low));
}

}  // namespace paged_decode
}  // namespace lab
