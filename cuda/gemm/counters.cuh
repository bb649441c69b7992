// A counter in memory, by which warps of several blocks agree that all of them are done with something. Device code only, for nvcc and
// NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parts.cuh"

namespace lab {
namespace gemm {

// A warp counts itself: what its lanes wrote is there.
__device__ __forceinline__ void count_in(unsigned* counter) {
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
// A warp waits until so many have counted themselves, and sees what they wrote.
__device__ __forceinline__ void await_count(unsigned* counter, unsigned count) {
    if (threadIdx.x % 32 == 0) {
        const long long since = clock64();
        unsigned now = 0;
        while (true) {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
            if (now >= count) break;
            if (clock64() - since > kPatience) __trap();  // rather an error than a GPU that hangs
        }
    }
    __syncwarp();
    __threadfence();
}
// A warp has read what it waited for; the last of `all` that were counted sets the counter back.
__device__ __forceinline__ void count_out(unsigned* counter, unsigned all) {
    __syncwarp();
    if (threadIdx.x % 32 == 0 && atomicAdd(counter, 1) + 1 == all) *counter = 0;
}

}  // namespace gemm
}  // namespace lab
