// Tensor maps: matrices of 2-byte elements in memory in, what the copy engine needs to know of it out; one line when it cannot serve it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

#include "../common/check.cuh"
#include "layout.cuh"

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

// To be moved in boxes of box_rows × 64; beyond the sides are zeros. `pitch`: bytes between rows, and between matrices.
inline TensorMap tensor_map(const void* start, cuuint32_t dimensions, const cuuint64_t* sides, const cuuint64_t* pitch, int box_rows) {
    const cuuint32_t box[3] = {kBox, static_cast<cuuint32_t>(box_rows), 1}, strides[3] = {1, 1, 1};
    CUtensorMap made;  // 2-byte elements of any kind: nothing is computed with them
    const CUresult result = encoder()(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, dimensions, const_cast<void*>(start), sides, pitch, box, strides,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fail("no tensor map for %llu x %llu elements, rows %llu bytes apart (CUDA error %d)", static_cast<unsigned long long>(sides[1]),
             static_cast<unsigned long long>(sides[0]), static_cast<unsigned long long>(pitch[0]), static_cast<int>(result));
    }
    TensorMap map;
    std::memcpy(&map, &made, sizeof map);
    return map;
}

// A matrix of rows × columns, rows `ld` elements apart.
inline TensorMap tensor_map(const Bf16* matrix, int rows, int columns, int ld, int box_rows) {
    const cuuint64_t sides[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t pitch[1] = {sizeof(Bf16) * static_cast<cuuint64_t>(ld)};
    return tensor_map(matrix, 2, sides, pitch, box_rows);
}

// Matrices behind one another, without gaps: what lies beyond the rows of one are zeros, not the next one's rows.
inline TensorMap tensor_maps(const void* start, int matrices, int rows, int columns, int box_rows) {
    const cuuint64_t sides[3] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows), static_cast<cuuint64_t>(matrices)};
    const cuuint64_t pitch[2] = {2 * sides[0], 2 * sides[0] * sides[1]};
    return tensor_map(start, 3, sides, pitch, box_rows);
}

}  // namespace gemm
}  // namespace lab
