// The instructions that products of 8-bit floats are made of, besides those of bf16. Device code only, for nvcc and NVRTC alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../gemm/bf16.cuh"

namespace lab {
namespace fp8 {

#ifdef LAB_WGMMA

// Scales are read when they are asked for, and looked at no earlier than here().
__device__ __forceinline__ float load_scale(const float* from) {
    float x;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(x) : "l"(from));
    return x;
}
__device__ __forceinline__ float2 load_scales(const float* from) {
    float2 x;
    asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "l"(from));
    return x;
}
__device__ __forceinline__ void here(float& x) { asm volatile("" : "+f"(x)::"memory"); }

// 64 × kN sums of a group, from 64 × 32 of A and 32 × kN of B in shared memory, both along k: 8-bit operands know no other way.
// `adds` 0: the sums start here.
#define LAB_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LAB_16(i) LAB_4(i), LAB_4(i + 4), LAB_4(i + 8), LAB_4(i + 12)
template <int kN>
__device__ __forceinline__ void multiply_e4m3(float (&d)[kN / 2], gemm::Size a, gemm::Size b, int adds) {
    static_assert(kN == 128 || kN == 192 || kN == 256, "the widths written out here");
    if constexpr (kN == 128) {
        asm volatile(
            "{.reg .pred adds; setp.ne.b32 adds, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "%64, %65, adds, 1, 1;}"
            : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48)
            : "l"(a), "l"(b), "r"(adds));
    } else if constexpr (kN == 192) {
        asm volatile(
            "{.reg .pred adds; setp.ne.b32 adds, %98, 0; wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
            "%96, %97, adds, 1, 1;}"
            : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48), LAB_16(64), LAB_16(80)
            : "l"(a), "l"(b), "r"(adds));
    } else {
        asm volatile(
            "{.reg .pred adds; setp.ne.b32 adds, %130, 0; wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
            "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
            "%128, %129, adds, 1, 1;}"
            : LAB_16(0), LAB_16(16), LAB_16(32), LAB_16(48), LAB_16(64), LAB_16(80), LAB_16(96), LAB_16(112)
            : "l"(a), "l"(b), "r"(adds));
    }
}
#undef LAB_16
#undef LAB_4

#endif

}  // namespace fp8
}  // namespace lab
