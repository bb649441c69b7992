// The instructions that decoding is made of, as functions. Device code only, for NVRTC and nvcc alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/rows.cuh"

namespace lab {
namespace decode {

using rows::Barrier;
using Bf16 = __nv_bfloat16;
using Word = unsigned long long;

constexpr int kWarp = 32, kWarps = 8, kConsumers = kWarps * kWarp;  // that multiply
constexpr long long kPatience = 4'000'000'000;                      // cycles

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) x += __shfl_xor_sync(rows::kAllLanes, x, lanes);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(rows::kAllLanes, x, lanes));
    return x;
}

// The warps that multiply meet.
__device__ __forceinline__ void consumers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory"); }
// A slot is free again, as far as so many warps know.
__device__ __forceinline__ void give_back(Barrier* empty, unsigned warps) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(rows::shared_address(empty)), "r"(warps) : "memory");
}
__device__ __forceinline__ Word read_once_policy() {
    Word policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
// As rows::fetch, for what nobody reads again soon.
__device__ __forceinline__ void fetch_once(void* to, const void* from, unsigned bytes, Barrier* barrier, Word policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
            rows::shared_address(to)),
        "l"(from), "r"(bytes), "r"(rows::shared_address(barrier)), "l"(policy)
        : "memory");
}
// One block more has arrived: what its threads wrote before their barrier is there for those that see it.
__device__ __forceinline__ void arrive(unsigned* count) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}
__device__ __forceinline__ unsigned arrived(const unsigned* count) {
    unsigned seen;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
    return seen;
}
__device__ __forceinline__ void wait_for(Barrier* barrier, unsigned parity) { rows::wait(barrier, parity); }
// Waits until so many blocks have arrived. One that never does has no SM: rather an error than a GPU that hangs.
__device__ __forceinline__ void wait_for_blocks(const unsigned* count, unsigned wanted) {
    const long long since = clock64();
    while (arrived(count) < wanted) {
        if (clock64() - since > kPatience) __trap();
    }
}
// A value told to other blocks without a meeting: bf16 in the upper half of a word and, below it, the round that it belongs to.
// Whoever sees the round has the value.
__device__ __forceinline__ void tell(unsigned* word, float value, unsigned round) {
    const unsigned both = static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(value))) << 16 | round;
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(both) : "memory");
}
// Waits until the pairs of words at `at(0)`, `at(1)` and so on have all been told in this round.
template <int kCount, class At>
__device__ __forceinline__ void hear(float2 (&values)[kCount], const At& at, unsigned round) {
    const long long since = clock64();
    for (;;) {
        uint2 words[kCount];
        unsigned other = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[i].x), "=r"(words[i].y) : "l"(at(i)) : "memory");
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            other |= (words[i].x ^ round) | (words[i].y ^ round);
            values[i] = {__uint_as_float(words[i].x & 0xffff0000u), __uint_as_float(words[i].y & 0xffff0000u)};
        }
        if ((other & 0xffffu) == 0) return;
        if (clock64() - since > kPatience) __trap();
    }
}

#endif

}  // namespace decode
}  // namespace lab
