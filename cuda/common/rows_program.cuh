// Programs of row kernels: the variants of a kernel in; each checked and timed beside the device copy, a table and a record out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ladder.cuh"
#include "rows.cuh"

namespace lab {
namespace rows {

struct Options {
    std::string variant = "all", type = "float", json;
    long long rows = 0, columns = 8192, mebibytes = 1024, offset = 0, repetitions = 15, seed = 1, plan = 0;

    bool takes(const std::string& name) const { return variant == "all" || variant == name; }
};

inline Options parse(int argc, char** argv, const std::string& description, const std::vector<std::string>& variants) {
    Options o;
    Args args(description);
    std::vector<std::string> words{"all"};
    words.insert(words.end(), variants.begin(), variants.end());
    args.choice("--variant", &o.variant, words, "which step to run");
    args.choice("--type", &o.type, {"float", "bf16"}, "type of the elements; the arithmetic is in fp32");
    args.integer("--columns", &o.columns, 1, 1LL << 30, "elements of a row");
    args.integer("--rows", &o.rows, 0, 0x7fffffff, "rows; 0: as many as fill --mebibytes");
    args.integer("--mebibytes", &o.mebibytes, 1, 1LL << 20, "size of the matrix, in MiB, where --rows is 0");
    args.integer("--offset", &o.offset, 0, 1024, "elements by which both matrices start late, to misalign them");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random numbers");
    args.integer("--plan", &o.plan, 0, 1, "1: say which kernel each variant takes for these rows, and stop; needs no GPU");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    const long long item = o.type == "float" ? 4 : 2;
    if (o.rows == 0) o.rows = std::max(1LL, (o.mebibytes << 20) / (o.columns * item));
    return o;
}

// What the kernels of a run get.
template <typename T>
struct Matrix {
    const T *in, *weight;
    T* out;
    long long rows;
    int columns;
};

// A step as it would be launched for rows of one length: the kernel's name and what it needs, or why there is none.
template <typename T>
struct Plan {
    std::string variant, kernel, unfit;
    std::size_t shared_bytes = 0;     // dynamic
    int compute_capability = 75;      // the least
    std::function<void(const Matrix<T>&)> launch;

    bool open() const { return kernel.empty(); }
};

// The name of a template's instance, as the Python catalogue writes it: name<float, 32, 512>.
template <typename T>
std::string name_of(const std::string& step, std::initializer_list<int> sizes) {
    std::string text = step + "<" + (sizeof(T) == 4 ? "float" : "__nv_bfloat16");
    for (const int size : sizes) text += ", " + std::to_string(size);
    return text + ">";
}

// The first kernel of a list that holds rows this long; without one, a plan that says how long they may be.
template <typename T>
Plan<T> first_of(const char* variant, void (*list)(Plan<T>&, const Options&), const Options& o, const char* most) {
    Plan<T> plan{variant, "", "", 0, 75, nullptr};
    list(plan, o);
    if (plan.open()) plan.unfit = std::string("holds rows of up to ") + most + " elements";
    return plan;
}

// A block's threads for the steps that loop over a row: about 16 elements each.
inline int threads_for(long long columns) { return static_cast<int>(std::clamp((columns / 16 + kWarp - 1) / kWarp * kWarp, 32LL, 1024LL)); }

template <typename Kernel>
void allow_shared(Kernel kernel, std::size_t bytes) {
    LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

// Shared memory that a kernel leaves alone, so that an SM holds at most so many of its blocks of fp32 rows (twice as many of
// bf16); 0: as many as fit.
template <typename T, typename Kernel>
std::size_t unused_shared(Kernel kernel, int at_most) {
    if (at_most == 0) return 0;
    int of_sm = 0, reserved = 0;
    LAB_CUDA(cudaDeviceGetAttribute(&of_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
    LAB_CUDA(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0));
    const int bytes = of_sm / (at_most * 4 / static_cast<int>(sizeof(T))) - reserved - 512;  // less what the kernel takes itself
    allow_shared(kernel, static_cast<std::size_t>(bytes));
    return static_cast<std::size_t>(bytes);
}

// The grid of a kernel whose clusters stay and take row after row: `share` rows a cluster, but clusters for all SMs.
inline unsigned staying_blocks(long long rows, int parts, int blocks_per_sm, long long share) {
    int sm_count = 0;
    LAB_CUDA(cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, 0));
    const long long clusters = std::max((rows + share - 1) / share, static_cast<long long>(sm_count) * blocks_per_sm / parts);
    return static_cast<unsigned>(std::min(rows, clusters) * parts);
}

template <typename T>
__global__ void fill(T* out, std::uint64_t count, std::uint64_t seed) {
    for_all(count, [=](std::uint64_t i) { out[i] = narrow<T>(normal(seed, i)); });
}

template <typename T>
__global__ void count_nan(const T* x, std::uint64_t count, unsigned long long* found) {
    unsigned long long mine = 0;
    for_all(count, [&](std::uint64_t i) { mine += isnan(widen(x[i])) ? 1 : 0; });
    if (mine != 0) atomicAdd(found, mine);
}

inline double widen_on_host(float x) { return static_cast<double>(x); }
inline double widen_on_host(__nv_bfloat16 x) { return static_cast<double>(__bfloat162float(x)); }

// One row in double precision: x, the weights, and where the result goes.
using Reference = std::function<void(const std::vector<double>&, const std::vector<double>&, std::vector<double>&)>;

// Some rows, the first and the last among them: about four million elements of them at most.
inline std::vector<long long> sample_rows(long long rows, int columns, std::uint64_t seed) {
    const long long most = std::min(std::clamp(4000000LL / columns, 2LL, 256LL), rows);
    std::vector<long long> chosen{0, rows - 1};
    while (static_cast<long long>(chosen.size()) < most) {
        chosen.push_back(static_cast<long long>(mixed(seed, chosen.size()) % static_cast<std::uint64_t>(rows)));
    }
    return chosen;
}

// ‖out − reference‖ / ‖reference‖ over some rows.
template <typename T>
double relative_error(const Matrix<T>& m, const std::vector<long long>& chosen, const Reference& reference) {
    const std::size_t columns = static_cast<std::size_t>(m.columns);
    std::vector<T> raw(columns);
    std::vector<double> x(columns), weight(columns), expected(columns);
    LAB_CUDA(cudaMemcpy(raw.data(), m.weight, columns * sizeof(T), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < columns; ++i) weight[i] = widen_on_host(raw[i]);
    double error = 0, size = 0;
    for (const long long row : chosen) {
        LAB_CUDA(cudaMemcpy(raw.data(), m.in + row * m.columns, columns * sizeof(T), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < columns; ++i) x[i] = widen_on_host(raw[i]);
        reference(x, weight, expected);
        LAB_CUDA(cudaMemcpy(raw.data(), m.out + row * m.columns, columns * sizeof(T), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < columns; ++i) {
            error += std::pow(widen_on_host(raw[i]) - expected[i], 2);
            size += expected[i] * expected[i];
        }
    }
    return std::sqrt(error / size);
}

// The whole run of a program: plans in, the exit code out. `weight_bytes`: what is read beside the matrix.
template <typename T>
int run(const Options& o, const std::vector<Plan<T>>& all, const Reference& reference, std::size_t weight_bytes) {
    std::vector<Plan<T>> plans;
    for (const Plan<T>& plan : all) {
        if (o.takes(plan.variant)) plans.push_back(plan);
    }
    if (o.plan != 0) {
        for (const Plan<T>& plan : plans) std::printf("%s: %s\n", plan.variant.c_str(), plan.unfit.empty() ? plan.kernel.c_str() : plan.unfit.c_str());
        return 0;
    }
    const std::size_t count = static_cast<std::size_t>(o.rows * o.columns), room = count + static_cast<std::size_t>(o.offset);
    const cudaDeviceProp gpu = open_device(fill<T>, 2 * room * sizeof(T));
    for (Plan<T>& plan : plans) {
        char why[120];
        const std::size_t most = gpu.sharedMemPerBlockOptin - 1024;  // what a kernel's own variables take is less than that
        if (10 * gpu.major + gpu.minor < plan.compute_capability) {
            std::snprintf(why, sizeof why, "needs compute capability %.1f; this GPU has %d.%d", plan.compute_capability / 10.0, gpu.major, gpu.minor);
        } else if (plan.shared_bytes > most) {
            std::snprintf(why, sizeof why, "needs %zu KiB of shared memory a block; this GPU has %zu", plan.shared_bytes >> 10, most >> 10);
        } else {
            continue;
        }
        if (plan.unfit.empty()) plan.unfit = why;
    }
    if (o.variant != "all" && !plans.front().unfit.empty()) fail("--variant %s: %s", o.variant.c_str(), plans.front().unfit.c_str());

    const DeviceArray<T> in(room), out(room), weight(static_cast<std::size_t>(o.columns + o.offset));
    const DeviceArray<unsigned long long> nan(1);
    const Matrix<T> m{in.get() + o.offset, weight.get() + o.offset, out.get() + o.offset, o.rows, static_cast<int>(o.columns)};
    const auto seed = static_cast<std::uint64_t>(o.seed);
    fill<<<kSpreadBlocks, kSpreadThreads>>>(in.get() + o.offset, count, seed);
    LAB_LAUNCHED();
    fill<<<kSpreadBlocks, kSpreadThreads>>>(weight.get() + o.offset, static_cast<std::uint64_t>(o.columns), seed + 1);
    LAB_LAUNCHED();

    const double copied = 2.0 * static_cast<double>(count) * sizeof(T), moved = copied + static_cast<double>(weight_bytes);
    std::vector<Rung> rungs;
    rungs.push_back({"copy", Rung::kCeiling, copied, [&] { LAB_CUDA(cudaMemcpyAsync(out.get(), in.get(), count * sizeof(T), cudaMemcpyDeviceToDevice)); }});
    Record record{program_name, o.variant, {}, {}, {}, describe(gpu)};
    record.parameters.add("type", o.type).add("rows", o.rows).add("columns", o.columns).add("offset", o.offset);
    record.parameters.add("repetitions", o.repetitions).add("seed", o.seed).add("bytes_moved", moved);
    for (const Plan<T>& plan : plans) {
        if (!plan.unfit.empty()) continue;
        record.parameters.add(plan.variant + "_kernel", plan.kernel);
        rungs.push_back({plan.variant, Rung::kStep, moved, [&plan, &m] { plan.launch(m); LAB_LAUNCHED(); }});
    }

    const std::vector<long long> chosen = sample_rows(o.rows, static_cast<int>(o.columns), seed);
    const double tolerance = sizeof(T) == 4 ? 1e-5 : 4e-3;
    const auto verify = [&](const Rung&) -> Verdict {
        nan.zero();
        count_nan<<<kSpreadBlocks, kSpreadThreads>>>(m.out, count, nan.get());
        LAB_LAUNCHED();
        unsigned long long left = 0;
        LAB_CUDA(cudaMemcpy(&left, nan.get(), sizeof left, cudaMemcpyDeviceToHost));
        const double error = relative_error(m, chosen, reference);
        char detail[160];
        std::snprintf(detail, sizeof detail, "%llu elements unwritten; %zu rows: relative error %.2e (allowed %.0e)", left, chosen.size(), error, tolerance);
        return {left == 0 && error <= tolerance, detail};
    };
    check_rungs(rungs, [&] { out.poison(); }, verify, record);

    const ColdCache cold(gpu);
    std::vector<Rung> warm_up = rungs;
    take_turns(warm_up, 1, [&] { cold(); });
    LAB_CUDA(cudaDeviceSynchronize());
    {
        const Range measured(kMeasured);
        take_turns(rungs, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    char what[120];
    std::snprintf(what, sizeof what, "%lld rows of %lld %s", o.rows, o.columns, o.type.c_str());
    print_head(gpu, what, copied);
    report(rungs, record);
    for (const Plan<T>& plan : plans) std::printf("  %-24s %s\n", plan.variant.c_str(), plan.unfit.empty() ? plan.kernel.c_str() : plan.unfit.c_str());
    std::printf("  checks: %s\n", record.passed ? "every element written, sampled rows equal to the host's" : "FAILED");
    return record.finish(o.json);
}

}  // namespace rows
}  // namespace lab
