// What the products of both precisions share: rounding up, asynchronous copies from memory into shared memory.
// Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lab {
namespace gemm {

using Size = unsigned long long;

__host__ __device__ constexpr int parts(int whole, int part) { return (whole + part - 1) / part; }

// Whether rows can be moved 16 bytes at a time: the matrix and each of its rows start on 16 bytes.
template <typename T>
__host__ __device__ __forceinline__ bool on_words(const T* start, int ld) {
    return reinterpret_cast<Size>(start) % 16 == 0 && ld % (16 / static_cast<int>(sizeof(T))) == 0;
}

// A copy that needs no register and no waiting: `valid` of kBytes bytes, zeros for the rest.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, int valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if constexpr (kBytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(valid) : "memory");
    }
#else
    for (int i = 0; i < kBytes / 4; ++i) static_cast<unsigned*>(to)[i] = 4 * i < valid ? static_cast<const unsigned*>(from)[i] : 0;
#endif
}
// Copies belong to a group; groups end in the order of their commits.
__device__ __forceinline__ void copies_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits until at most kPending groups of this thread are under way; what other threads copied is there after a barrier.
template <int kPending>
__device__ __forceinline__ void copies_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace gemm
}  // namespace lab
