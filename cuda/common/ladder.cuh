// Ladders: the steps of a kernel in, their times side by side in one run out: in turns, from a cold cache, beside a copy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "args.hpp"
#include "check.cuh"
#include "device.cuh"
#include "json.hpp"
#include "nvtx.hpp"
#include "profiled.hpp"
#include "timing.cuh"

namespace lab {

// Values from a seed and a place, the same on host and GPU: whoever checks a result can make any input again.
__host__ __device__ inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t i) {  // splitmix64
    std::uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15ULL + i * 0xd1342543de82ef95ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

// A normal value: the Box–Muller transform of two uniform ones.
__device__ inline float normal(std::uint64_t seed, std::uint64_t i) {
    const std::uint64_t bits = mixed(seed, i);
    const float u = (static_cast<float>(bits >> 40) + 0.5f) / 16777216.0f, v = static_cast<float>(bits & 0xffffff) / 16777216.0f;
    return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

constexpr int kSpreadBlocks = 2048, kSpreadThreads = 256;  // for the helpers below: enough for any GPU, a loop does the rest

template <typename Body>
__device__ void for_all(std::uint64_t n, Body body) {
    const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) body(i);
}

static __global__ void fill_normal(float* out, std::uint64_t n, std::uint64_t seed) {
    for_all(n, [=](std::uint64_t i) { out[i] = normal(seed, i); });
}

static __global__ void fill_bits(unsigned short* out, std::uint64_t n, std::uint64_t seed) {
    for_all(n, [=](std::uint64_t i) { out[i] = static_cast<unsigned short>(mixed(seed, i)); });
}

static __global__ void read_words(const float4* in, std::uint64_t n, float* sink) {
    float total = 0;
    for_all(n, [&](std::uint64_t i) { total += in[i].x; });
    if (total == 1.2345f) *sink = total;  // never, but the compiler does not know
}

// GPU memory that is given back at the end of its scope. Filled with NaN (all bits one).
template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(std::size_t count) : count_(count) {
        LAB_CUDA(cudaMalloc(&data_, std::max<std::size_t>(1, count) * sizeof(T)));
        poison();
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    void poison() const { LAB_CUDA(cudaMemset(data_, 0xff, count_ * sizeof(T))); }
    void zero() const { LAB_CUDA(cudaMemset(data_, 0, count_ * sizeof(T))); }
    T* get() const { return data_; }
    std::size_t count() const { return count_; }

private:
    T* data_ = nullptr;
    std::size_t count_;
};

// Reads several times the L2 cache, so that what follows finds nothing of its own there and nothing waits to be written back.
class ColdCache {
public:
    explicit ColdCache(const cudaDeviceProp& gpu) : words_(4 * static_cast<std::size_t>(gpu.l2CacheSize) / sizeof(float4)), sink_(1) {}
    void operator()() const {
        read_words<<<kSpreadBlocks, kSpreadThreads>>>(words_.get(), words_.count(), sink_.get());
        LAB_LAUNCHED();
    }
    std::size_t bytes() const { return words_.count() * sizeof(float4); }

private:
    DeviceArray<float4> words_;
    DeviceArray<float> sink_;
};

struct Verdict {
    bool passed;
    std::string detail;
};

// A step of a ladder. `ceiling` and `library` mark what the steps are held against; only steps are checked.
struct Rung {
    enum Kind { kStep, kCeiling, kLibrary };
    std::string name;
    Kind kind;
    double bytes;                     // that the work costs at least
    std::function<void()> run;
    std::vector<double> us = {};
};

// Runs every rung once, from a poisoned output, and has it checked.
inline void check_rungs(const std::vector<Rung>& rungs, const std::function<void()>& poison, const std::function<Verdict(const Rung&)>& verify,
                        Record& record) {
    for (const Rung& rung : rungs) {
        if (rung.kind != Rung::kStep) continue;
        poison();
        {
            const Profiled once;
            rung.run();
        }
        LAB_CUDA(cudaDeviceSynchronize());
        const Verdict verdict = verify(rung);
        record.check(rung.name, verdict.passed, verdict.detail);
    }
}

// Every rung once, then every rung again …; a first round does not count. A rung that takes over 20 ms is repeated three times.
inline void take_turns(std::vector<Rung>& rungs, long long repetitions, const std::function<void()>& before) {
    const Event begin, end;
    for (long long r = 0; r <= repetitions; ++r) {
        if (r == 1) LAB_CUDA(cudaDeviceSynchronize());
        for (Rung& rung : rungs) {
            if (rung.us.size() >= 3 && rung.us.front() > 2e4) continue;
            if (before) before();
            begin.record(nullptr);
            rung.run();
            end.record(nullptr);
            LAB_CUDA(cudaEventSynchronize(end));
            if (r > 0) rung.us.push_back(elapsed_us(begin, end));
        }
    }
}

inline double gb_per_s(const Rung& rung) { return rung.bytes / median(rung.us) / 1e3; }

// Prints the table and fills the record: times, throughput, and throughput over that of the fastest ceiling.
inline void report(const std::vector<Rung>& rungs, Record& record) {
    double roof = 0;
    for (const Rung& rung : rungs) {
        if (rung.kind == Rung::kCeiling) roof = std::max(roof, gb_per_s(rung));
    }
    std::printf("  %-24s %12s %12s %12s %10s %8s\n", "", "median us", "quartile", "quartile", "GB/s", "/ copy");
    for (const Rung& rung : rungs) {
        std::printf("  %-24s %12.1f %12.1f %12.1f %10.1f %8.3f\n", rung.name.c_str(), median(rung.us), quantile(rung.us, 0.25),
                    quantile(rung.us, 0.75), gb_per_s(rung), gb_per_s(rung) / roof);
        add_spread(record.results, rung.name, "us", rung.us);
        record.results.add(rung.name + "_gb_per_s", gb_per_s(rung)).add(rung.name + "_over_copy_ratio", gb_per_s(rung) / roof);
    }
}

// One line about the size of the work.
inline void print_head(const cudaDeviceProp& gpu, const char* what, double bytes) {
    std::printf("%s: %s, %.1f MiB moved = %.1f x the L2 cache of %d MiB\n", gpu.name, what, bytes / (1 << 20),
                bytes / gpu.l2CacheSize, gpu.l2CacheSize >> 20);
}

inline bool supports_bulk(const cudaDeviceProp& gpu) { return gpu.major >= 9; }

}  // namespace lab
