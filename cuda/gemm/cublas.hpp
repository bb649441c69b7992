// cuBLAS where it is installed: a product's matrices in, a call out that computes it. Found at run time, so that none is needed to build.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <library_types.h>

#include <string>

#include "../common/check.cuh"

namespace lab {

class Cublas {
public:
    Cublas() {
        for (const char* name : {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"}) {
            if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW);
        }
        if (library_ == nullptr) return;
        const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library_, "cublasCreate_v2"));
        product_ = reinterpret_cast<Product>(dlsym(library_, "cublasGemmEx"));
        if (create == nullptr || product_ == nullptr || create(&handle_) != 0) fail("cuBLAS is installed and cannot be used");
    }
    bool found() const { return library_ != nullptr; }
    std::string version() const {
        int part[3] = {};  // major, minor, patch
        const auto property = reinterpret_cast<int (*)(int, int*)>(dlsym(library_, "cublasGetProperty"));
        for (int i = 0; property != nullptr && i < 3; ++i) property(i, &part[i]);
        return std::to_string(part[0]) + "." + std::to_string(part[1]) + "." + std::to_string(part[2]);
    }

    // C = A·B, all row by row: cuBLAS counts columns first, so it is given Cᵀ = Bᵀ·Aᵀ. Sums in fp32, never TF32.
    template <typename T>
    void product(const T* a, const T* b, T* c, int m, int n, int k, int lda, int ldb, int ldc) const {
        const int type = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_16BF;
        const float one = 1, zero = 0;
        const int status = product_(handle_, 0, 0, n, m, k, &one, b, type, ldb, a, type, lda, &zero, c, type, ldc, kCompute32F, kDefault);
        if (status != 0) fail("cublasGemmEx: status %d for %d x %d x %d", status, m, n, k);
    }

private:
    using Product = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*, int,
                            int, int, int);
    static constexpr int kCompute32F = 68, kDefault = -1;  // of cublasComputeType_t and cublasGemmAlgo_t
    void* library_ = nullptr;
    void* handle_ = nullptr;
    Product product_ = nullptr;
};

}  // namespace lab
