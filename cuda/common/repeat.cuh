// Repeated launches: a launch in, its times in microseconds out, each with a cold L2 cache if wanted, and the SM clock meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstddef>
#include <vector>

#include "check.cuh"
#include "timing.cuh"

namespace lab {

// The SM clock as NVML reports it, in MHz; NaN where there is no NVML. Loaded when the program runs, so that none is needed to build.
class ClockMeter {
public:
    ClockMeter() {
        char address[32];
        int device = 0;
        void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (library == nullptr || cudaGetDevice(&device) != cudaSuccess) return;
        const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
        const auto find = reinterpret_cast<int (*)(const char*, void**)>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
        clock_ = reinterpret_cast<Clock>(dlsym(library, "nvmlDeviceGetClockInfo"));
        if (init == nullptr || find == nullptr || clock_ == nullptr || init() != 0) return;
        if (cudaDeviceGetPCIBusId(address, sizeof address, device) != cudaSuccess || find(address, &handle_) != 0) handle_ = nullptr;
    }
    double sm_mhz() const {
        constexpr int kSm = 1;  // nvmlClockType_t
        unsigned mhz = 0;
        return handle_ != nullptr && clock_(handle_, kSm, &mhz) == 0 ? static_cast<double>(mhz) : NAN;
    }

private:
    using Clock = int (*)(void*, int, unsigned*);
    void* handle_ = nullptr;
    Clock clock_ = nullptr;
};

// Memory that is written to push everything else out of the L2 cache.
class Flush {
public:
    explicit Flush(std::size_t l2_bytes) : bytes_(2 * l2_bytes) { LAB_CUDA(cudaMalloc(&memory_, bytes_)); }
    ~Flush() { cudaFree(memory_); }
    Flush(const Flush&) = delete;
    Flush& operator=(const Flush&) = delete;
    void operator()() const { LAB_CUDA(cudaMemsetAsync(memory_, 0, bytes_, nullptr)); }

private:
    void* memory_ = nullptr;
    std::size_t bytes_;
};

// Launches for a tenth of a second, until an idle GPU has raised its clocks.
template <typename Launch>
void warm_up(const Launch& launch) {
    for (const double until = host_us() + 1e5; host_us() < until;) {
        launch();
        LAB_LAUNCHED();
        LAB_CUDA(cudaDeviceSynchronize());
    }
}

// Times of `repetitions` launches on the default stream, each on its own between two events, after `warmup` that are not
// timed. before(): what runs ahead of each launch, outside its time (a Flush, or clearing counters).
template <typename Launch, typename Before>
std::vector<double> launch_times_us(int repetitions, int warmup, const Launch& launch, const Before& before) {
    const Event start, stop;
    std::vector<double> times;
    for (int i = 0; i < warmup + repetitions; ++i) {
        before();
        start.record(nullptr);
        launch();
        LAB_LAUNCHED();
        stop.record(nullptr);
        LAB_CUDA(cudaEventSynchronize(stop));
        if (i >= warmup) times.push_back(elapsed_us(start, stop));
    }
    return times;
}

}  // namespace lab
