// What the ring of pages needs beside the instructions of decoding. Device code only, for NVRTC and nvcc alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LAB_RING

#include "../decode/instructions.cuh"

namespace lab {
namespace paged_decode {

// Waits for the end of the phase of this parity, as rows::wait() does. What is handed over is of this block alone: asking for the order
// of a cluster would empty the L1 cache each time.
__device__ __forceinline__ void wait_for(rows::Barrier* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(rows::shared_address(barrier)),
        "r"(parity)
        : "memory");
}
// The four warps that multiply meet.
__device__ __forceinline__ void consumers_meet() { asm volatile("bar.sync 1, 128;" ::: "memory"); }
// One block more has come by: what its threads wrote before their meeting is there for whoever comes later, and what those that came
// earlier wrote is there for this thread. How many came before.
__device__ __forceinline__ unsigned came_before(unsigned* counter) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

}  // namespace paged_decode
}  // namespace lab

#endif
