// The instructions of attention's backward, besides those of the matmul. Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../attention/tensor.cuh"
#include "../gemm/parts.cuh"

namespace lab {
namespace backward {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// Adds four sums to memory, in any order with others' additions.
__device__ __forceinline__ void add_four(float4* to, const float* sums) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
                 : "memory");
}
// The copy engine adds floats of shared memory to memory, both on 16 bytes, `bytes` a multiple of 16; boxes_wait() waits.
__device__ __forceinline__ void add_bulk(float* to, const void* from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(rows::shared_address(from)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until as many blocks as `before` have added to a place; they came earlier, so they are done or running.
__device__ __forceinline__ void wait_turn(const unsigned* turn, unsigned before) {
    const long long since = clock64();
    unsigned seen = 0;
    while (true) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(turn) : "memory");
        if (seen == before) break;
        if (clock64() - since > gemm::kPatience) __trap();  // rather an error than a GPU that hangs
    }
}
// What this thread had the copy engine add, and waited for, is there for the next one.
__device__ __forceinline__ void pass_turn(unsigned* turn, unsigned to) {
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(to) : "memory");
}
#endif

// The same in all lanes of a warp, and the compiler knows.
__device__ __forceinline__ int uniform(int x) { return __shfl_sync(attention::kAllLanes, x, 0); }

// threadIdx.x and blockIdx.x, read again: else the compiler keeps all that it computes of them in registers that are not there.
__device__ __forceinline__ int thread_now() {
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}
__device__ __forceinline__ int block_now() {
    int x;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
}

#ifdef LAB_WGMMA

// As gemm::store_matrices(), each matrix turned: lane l says where column l % 8 of matrix l / 8 goes.
__device__ __forceinline__ void store_turned(void* row, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(rows::shared_address(row)), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

// Sums of a group, 64 × 2 · (their number), from 64 × 16 of A and 16 columns' or rows' worth of B, both in shared memory.
// kTurnA: A lies along its rows (m), not along k; kTurnB: B along n. `adds` 0: the sums start here.
#define LAB_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LAB_8(i) LAB_4(i), LAB_4(i + 4)
#define LAB_16(i) LAB_8(i), LAB_8(i + 8)
#define LAB_32_NAMES "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                     "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LAB_40_NAMES LAB_32_NAMES ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LAB_64_NAMES LAB_40_NAMES ", %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LAB_PRODUCT(n, names, a_at, b_at, adds_at, turn_a, turn_b, ...)                                                                    \
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, " adds_at ", 0; wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 {" names     \
                 "}, " a_at ", " b_at ", adds, 1, 1, " turn_a ", " turn_b ";}"                                                             \
                 : __VA_ARGS__                                                                                                             \
                 : "l"(a), "l"(b), "r"(adds))
#define LAB_WIDTHS(turn_a, turn_b)                                                                                                         \
    if constexpr (kCount == 32) LAB_PRODUCT("64", LAB_32_NAMES, "%32", "%33", "%34", turn_a, turn_b, LAB_16(0), LAB_16(16));               \
    else if constexpr (kCount == 40) LAB_PRODUCT("80", LAB_40_NAMES, "%40", "%41", "%42", turn_a, turn_b, LAB_16(0), LAB_16(16), LAB_8(32)); \
    else LAB_PRODUCT("128", LAB_64_NAMES, "%64", "%65", "%66", turn_a, turn_b, LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48))
template <bool kTurnA, bool kTurnB, int kCount>
__device__ __forceinline__ void multiply(float (&d)[kCount], gemm::Size a, gemm::Size b, int adds) {
    static_assert(kCount == 32 || kCount == 40 || kCount == 64, "the widths written out here");
    if constexpr (kTurnA && kTurnB) {
        LAB_WIDTHS("1", "1");
    } else if constexpr (kTurnA) {
        LAB_WIDTHS("1", "0");
    } else if constexpr (kTurnB) {
        LAB_WIDTHS("0", "1");
    } else {
        LAB_WIDTHS("0", "0");
    }
}
#undef LAB_WIDTHS
#undef LAB_PRODUCT
#undef LAB_64_NAMES
#undef LAB_40_NAMES
#undef LAB_32_NAMES
#undef LAB_16
#undef LAB_8
#undef LAB_4

#endif

}  // namespace backward
}  // namespace lab
