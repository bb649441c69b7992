// The instructions that the products are made of, as functions, and what both precisions share.
// Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_fp16.h>

#include "../common/rows.cuh"

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

// ---- tensor cores from registers ---------------------------------------------------------------------------------------------

using Bf16 = __nv_bfloat16;
template <typename T>
constexpr bool kIsBf16 = false;
template <>
constexpr bool kIsBf16<Bf16> = true;

// Two neighboring elements in a word, the first in its lower half.
template <typename T>
__device__ __forceinline__ unsigned pack_pair(float x, float y) {
    unsigned word;
    if constexpr (kIsBf16<T>) {
        const __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
        memcpy(&word, &two, sizeof two);
    } else {
        const __half2 two = __floats2half2_rn(x, y);
        memcpy(&word, &two, sizeof two);
    }
    return word;
}
// 2 to the x in one instruction, 0 where that is below the normal numbers.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
// Four 8 × 8 matrices of 2-byte elements from shared memory; lane l says where row l % 8 of matrix l / 8 lies.
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const uint4* chunk) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(chunk))));
}
// … each of them turned.
__device__ __forceinline__ void load_turned(unsigned (&r)[4], const uint4* chunk) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(chunk))));
}
// 16 × 8 sums of a warp, from 16 × 16 of A and 16 × 8 of B in registers.
#define LAB_MMA(type)                                                                                                             \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "        \
                 "{%0, %1, %2, %3};"                                                                                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
template <typename T>
__device__ __forceinline__ void multiply_add(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (kIsBf16<T>) LAB_MMA("bf16");
    else LAB_MMA("f16");
}
#undef LAB_MMA
#endif

// ---- Hopper: tensor maps, barriers, wgmma ------------------------------------------------------------------------------------

// What cuTensorMapEncodeTiled() makes of a matrix: its start, its sides, the box that one copy moves. A kernel's parameter.
struct alignas(64) TensorMap {
    unsigned long long words[16];
};

// wgmma and setmaxnreg are of compute capability 9.0 alone, not of what follows it.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LAB_WGMMA

__device__ __forceinline__ unsigned char* aligned(unsigned char* start) { return start + (1024 - rows::shared_address(start) % 1024) % 1024; }

// Has the copy engine fetch a map, so that the first copy need not wait for it.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Fetches a box into the same place of each block of a cluster that `mask` names, or (one block) of this one.
template <int kBlocks>
__device__ __forceinline__ void fetch_box(void* to, const TensorMap& map, int column, int row, rows::Barrier* barrier) {
    if constexpr (kBlocks == 1) {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                         rows::shared_address(to)),
                     "l"(&map), "r"(column), "r"(row), "r"(rows::shared_address(barrier))
                     : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
                rows::shared_address(to)),
            "l"(&map), "r"(column), "r"(row), "r"(rows::shared_address(barrier)), "h"(static_cast<unsigned short>((1 << kBlocks) - 1))
            : "memory");
    }
}
// … of one of several matrices behind one another.
__device__ __forceinline__ void fetch_box(void* to, const TensorMap& map, int column, int row, int matrix, rows::Barrier* barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                     rows::shared_address(to)),
                 "l"(&map), "r"(column), "r"(row), "r"(matrix), "r"(rows::shared_address(barrier))
                 : "memory");
}
__device__ __forceinline__ void write_box(const TensorMap& map, int column, int row, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map), "r"(column), "r"(row),
                 "r"(rows::shared_address(from))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most kPending boxes of this thread have still to be read (kDone: to be written).
template <int kPending, bool kDone>
__device__ __forceinline__ void boxes_wait() {
    if constexpr (kDone) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
    else asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Arrives at the same barrier in a block of the cluster. What is handed over has been read by wgmma and is waited for: no ordinary
// write has to be seen by the other side, so the order of a block is enough. Asking for the cluster's would cost a fence of the whole
// GPU here and an emptied L1 cache in wait_for(), each stage.
__device__ __forceinline__ void arrive_in(int block, rows::Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(rows::address_in(block, barrier)) : "memory");
}
// Waits for the end of the phase of this parity, as rows::wait() does.
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
// What this thread stored in shared memory is there for the copy engine, after a barrier.
__device__ __forceinline__ void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Registers a thread, from here on: all threads of a group of four warps.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
// A barrier of one group of four warps.
__device__ __forceinline__ void group_sync(int group) { asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(128) : "memory"); }

// Groups take turns, kThreads in all at each barrier: wait for one's own turn, give the next one its.
template <int kThreads>
__device__ __forceinline__ void turn_wait(int group) {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + group), "n"(kThreads) : "memory");
}
template <int kThreads>
__device__ __forceinline__ void turn_give(int group) {
    asm volatile("bar.arrive %0, %1;" ::"r"(1 + group), "n"(kThreads) : "memory");
}

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Results of products that were waited for: the compiler takes them from here on, not from before the wait.
template <int kCount>
__device__ __forceinline__ void take_results(float (&d)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// What comes next stays behind the computation of x, which is never negative: the assembler moves no wait across it.
__device__ __forceinline__ void not_before(float x) {
    asm volatile("{.reg .pred never; setp.lt.f32 never, %0, 0f00000000; @never bar.warp.sync 0xffffffff;}" ::"f"(x) : "memory");
}

// Four 8 × 8 matrices of 2-byte elements to shared memory; lane l says where row l % 8 of matrix l / 8 goes.
__device__ __forceinline__ void store_matrices(void* row, const unsigned (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(rows::shared_address(row)), "r"(r[0]), "r"(r[1]),
                 "r"(r[2]), "r"(r[3])
                 : "memory");
}

// 64 × kN sums of a group, from 64 × 16 of A and 16 × kN of B in shared memory; `adds` 0: the sums start here.
#define LAB_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LAB_16(i) LAB_4(i), LAB_4(i + 4), LAB_4(i + 8), LAB_4(i + 12)
template <int kN>
__device__ __forceinline__ void multiply(float (&d)[kN / 2], Size a, Size b, int adds) {
    static_assert(kN == 128 || kN == 256, "the two widths written out here");
    if constexpr (kN == 128) {
        asm volatile(
            "{.reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "%64, %65, adds, 1, 1, 0, 1;}"
            : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48)
            : "l"(a), "l"(b), "r"(adds));
    } else {
        asm volatile(
            "{.reg .pred adds; setp.ne.b32 adds, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
            "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
            "%128, %129, adds, 1, 1, 0, 1;}"
            : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48), LAB_16(64), LAB_16(80), LAB_16(96), LAB_16(112)
            : "l"(a), "l"(b), "r"(adds));
    }
}
#define LAB_32_NAMES "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                     "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LAB_64_NAMES LAB_32_NAMES ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
                                  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
// … with B turned: both lie along k.
#define LAB_PRODUCT(type)                                                                                                            \
    asm volatile("{.reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type             \
                 " {" LAB_64_NAMES "}, %64, %65, adds, 1, 1, 0, 0;}"                                                                   \
                 : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48)                                                                      \
                 : "l"(a), "l"(b), "r"(adds))
template <typename T>
__device__ __forceinline__ void multiply_turned(float (&d)[64], Size a, Size b, int adds) {
    if constexpr (kIsBf16<T>) LAB_PRODUCT("bf16");
    else LAB_PRODUCT("f16");
}
#undef LAB_PRODUCT
// … with A in registers, laid out as for mma.sync: they must stay as they are until the product is waited for.
#define LAB_PRODUCT(type)                                                                                                            \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" LAB_64_NAMES "}, {%64, %65, %66, %67}, %68, "    \
                 "1, 1, 1, 1;"                                                                                                        \
                 : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48)                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define LAB_NARROW_PRODUCT(type)                                                                                                     \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" LAB_32_NAMES "}, {%32, %33, %34, %35}, %36, "     \
                 "1, 1, 1, 1;"                                                                                                        \
                 : LAB_16(0), LAB_16(16)                                                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <typename T>
__device__ __forceinline__ void multiply_held(float (&d)[64], const unsigned (&a)[4], Size b) {
    if constexpr (kIsBf16<T>) LAB_PRODUCT("bf16");
    else LAB_PRODUCT("f16");
}
template <typename T>
__device__ __forceinline__ void multiply_held(float (&d)[32], const unsigned (&a)[4], Size b) {
    if constexpr (kIsBf16<T>) LAB_NARROW_PRODUCT("bf16");
    else LAB_NARROW_PRODUCT("f16");
}
#undef LAB_NARROW_PRODUCT
#undef LAB_PRODUCT
#undef LAB_64_NAMES
#undef LAB_32_NAMES
#undef LAB_16
#undef LAB_4
#endif

}  // namespace gemm
}  // namespace lab
