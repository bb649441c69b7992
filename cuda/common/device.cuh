// The GPU at hand: what the program needs in, its properties out; one line and exit code 2 when it cannot serve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "check.cuh"
#include "json.hpp"

namespace lab {

inline std::string version_text(int version) {  // 13000 → "13.0"
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// GPU 0 of those CUDA_VISIBLE_DEVICES leaves, checked against what the program needs.
// `kernel`: one of the program's kernels, to see whether this build holds code for the GPU.
template <typename Kernel>
cudaDeviceProp open_device(Kernel kernel, std::size_t needed_bytes) {
    int driver = 0, runtime = 0, count = 0;
    LAB_CUDA(cudaRuntimeGetVersion(&runtime));
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        fail("no NVIDIA GPU: no NVIDIA driver is installed here (nvidia-smi shows one when there is)");
    }
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found == cudaErrorInsufficientDriver) {
        fail("the NVIDIA driver is too old: it serves CUDA %s and this program was built with CUDA %s; update the driver",
             version_text(driver).c_str(), version_text(runtime).c_str());
    }
    if (found == cudaErrorNoDevice || (found == cudaSuccess && count == 0)) {
        fail("no NVIDIA GPU: the driver shows none (is CUDA_VISIBLE_DEVICES empty?)");
    }
    LAB_CUDA(found);
    LAB_CUDA(cudaSetDevice(0));
    cudaDeviceProp gpu{};
    LAB_CUDA(cudaGetDeviceProperties(&gpu, 0));
    cudaFuncAttributes attributes{};
    const cudaError_t loaded = cudaFuncGetAttributes(&attributes, kernel);
    if (loaded == cudaErrorNoKernelImageForDevice || loaded == cudaErrorInvalidDeviceFunction) {
        fail("this build has no code for %s (compute capability %d.%d); build it for this GPU, see cuda/README.md",
             gpu.name, gpu.major, gpu.minor);
    }
    LAB_CUDA(loaded);
    std::size_t free_bytes = 0, total_bytes = 0;
    LAB_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes < needed_bytes) {
        fail("%s has %zu MiB free and this run needs %zu MiB; choose a smaller size or free some memory", gpu.name,
             free_bytes >> 20, (needed_bytes >> 20) + 1);
    }
    return gpu;
}

// The GPU as the record has it: bytes, MHz.
inline JsonObject describe(const cudaDeviceProp& gpu) {
    int driver = 0, runtime = 0, clock_khz = 0, engines = gpu.asyncEngineCount;
    LAB_CUDA(cudaDriverGetVersion(&driver));
    LAB_CUDA(cudaRuntimeGetVersion(&runtime));
    LAB_CUDA(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
    JsonObject out;
    out.add("name", gpu.name);
    out.add("compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
    out.add("sm_count", gpu.multiProcessorCount).add("memory_bytes", gpu.totalGlobalMem);
    out.add("l2_bytes", gpu.l2CacheSize).add("max_sm_clock_mhz", clock_khz / 1000).add("copy_engines", engines);
    out.add("driver_cuda", version_text(driver)).add("runtime_cuda", version_text(runtime));
    return out;
}

}  // namespace lab
