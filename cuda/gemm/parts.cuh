// What blocks tell each other of a matmul through memory: partial sums, flags, tickets. Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instructions.cuh"

namespace lab {
namespace gemm {

constexpr long long kPatience = 4'000'000'000;  // cycles

// Four sums for another block, past the L1 cache in both directions.
__device__ __forceinline__ void put_sums(float4* to, const float* sums) { __stcg(to, make_float4(sums[0], sums[1], sums[2], sums[3])); }
__device__ __forceinline__ void add_sums(float* sums, const float4* from) {
    float4 four;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w) : "l"(from) : "memory");
    sums[0] += four.x, sums[1] += four.y, sums[2] += four.z, sums[3] += four.w;
}

// A warp tells that what its lanes wrote is there; another one waits for that and takes the flag back.
__device__ __forceinline__ void tell(unsigned* flag) {
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
__device__ __forceinline__ void hear(unsigned* flag) {
    if (threadIdx.x % 32 == 0) {
        const long long since = clock64();
        unsigned told = 0;
        while (true) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(told) : "l"(flag) : "memory");
            if (told != 0) break;
            if (clock64() - since > kPatience) __trap();  // rather an error than a GPU that hangs
        }
        asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(flag) : "memory");
    }
    __syncwarp();
    __threadfence();
}

// The next number of a queue that starts at 0.
__device__ __forceinline__ int draw(unsigned* queue) { return static_cast<int>(atomicAdd(queue, 1)); }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// Four sums from the shared memory of a block of the cluster.
__device__ __forceinline__ float4 sums_in(int block, const float4* pointer) {
    float4 four;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "r"(rows::address_in(block, pointer))
                 : "memory");
    return four;
}
#endif
// The two groups that multiply meet.
__device__ __forceinline__ void consumers_meet() { asm volatile("bar.sync 3, 256;" ::: "memory"); }

}  // namespace gemm
}  // namespace lab
