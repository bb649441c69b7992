// One launch for a profiler: from here to the end of the scope, for `ncu --profile-from-start off`; without a profiler, nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

namespace lab {

// A program marks each case once, where neither warm-up nor the emptying of caches runs: a report then has one launch of each.
class Profiled {
public:
    Profiled() {
        if (cudaProfilerStart() != cudaSuccess) (void)cudaGetLastError();  // no profiler that wants to know
    }
    ~Profiled() {
        cudaDeviceSynchronize();
        if (cudaProfilerStop() != cudaSuccess) (void)cudaGetLastError();
    }
    Profiled(const Profiled&) = delete;
    Profiled& operator=(const Profiled&) = delete;
};

}  // namespace lab
