// Tensor maps: a matrix of bf16 in memory in, what the copy engine needs to know of it out; one line when it cannot serve it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

#include "../common/check.cuh"
#include "bf16.cuh"

namespace lab {
namespace gemm {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap), "as the driver has it");

// The driver's encoder, found at run time: programs need not be linked with the driver.
inline decltype(&cuTensorMapEncodeTiled) encoder() {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    LAB_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &status));
#else
    LAB_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &status));
#endif
    if (status != cudaDriverEntryPointSuccess || found == nullptr) fail("the NVIDIA driver knows no tensor maps; update it");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
}

// A matrix of rows × columns, rows `ld` elements apart, to be moved in boxes of box_rows × 64; beyond its sides are zeros.
inline TensorMap tensor_map(const Bf16* matrix, int rows, int columns, int ld, int box_rows) {
    const cuuint64_t sides[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t pitch[1] = {sizeof(Bf16) * static_cast<cuuint64_t>(ld)};
    const cuuint32_t box[2] = {kBox, static_cast<cuuint32_t>(box_rows)}, strides[2] = {1, 1};
    CUtensorMap made;
    const CUresult result = encoder()(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<Bf16*>(matrix), sides, pitch, box, strides,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) fail("no tensor map for %d x %d elements, rows %d apart (CUDA error %d)", rows, columns, ld, static_cast<int>(result));
    TensorMap map;
    std::memcpy(&map, &made, sizeof map);
    return map;
}

}  // namespace gemm
}  // namespace lab
