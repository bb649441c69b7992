// Attention forward on tensor cores: from mma.sync to groups of warps that take turns. Flags in, a table and a record out.
// SPDX-License-Identifier: Apache-2.0
//
// The steps are in tensor.cuh; the readable ones in fp32, in attention.cuh, are run by «labcode».

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "../gemm/maps.hpp"
#include "tensor.cuh"

namespace {

namespace steps = lab::attention;
using lab::gemm::TensorMap;

const std::vector<std::string> kSteps = {"mma_sync", "double_buffer", "specialized", "ping_pong", "no_turns", "three_groups", "lazy"};
// double_buffer with a mistake each, to be diagnosed; «slow»: it and them
const std::vector<std::string> kSlow = {"slow", "plain_rows", "four_blocks"};
constexpr int kGuard = 256;  // elements behind the output that nobody may write

struct Options {
    std::string variant = "all", type = "bf16", mask = "none", json;
    long long heads = 64, length = 8192, dim = 128, repetitions = 10, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"all"};
    variants.insert(variants.end(), kSteps.begin(), kSteps.end());
    variants.insert(variants.end(), kSlow.begin(), kSlow.end());
    lab::Args args("Computes attention of random normal values, step by step.");
    args.choice("--variant", &o.variant, variants, "which step; all: all of them, in turns");
    args.choice("--type", &o.type, {"bf16", "fp16"}, "of queries, keys, values and result");
    args.choice("--mask", &o.mask, {"none", "causal"}, "causal: a query sees no key behind it");
    args.integer("--heads", &o.heads, 1, 65535, "heads, of all sequences of a batch together");
    args.integer("--length", &o.length, 1, 1 << 17, "queries, keys and values of a head");
    args.integer("--dim", &o.dim, 64, 128, "dimensions of a head: 64 or 128");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the arrays");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    if (o.dim != 64 && o.dim != 128) lab::fail("--dim %lld: give 64 or 128", o.dim);
    const bool slow = std::find(kSlow.begin(), kSlow.end(), o.variant) != kSlow.end();
    if (slow && (o.dim != 64 || o.type != "bf16")) lab::fail("--variant %s: is there for --dim 64 and --type bf16", o.variant.c_str());
    return o;
}

template <typename T>
__global__ void fill(T* out, std::uint64_t n, std::uint64_t seed) {
    lab::for_all(n, [=](std::uint64_t i) { out[i] = static_cast<T>(lab::normal(seed, i)); });
}

// A block a chosen row: its result in double precision. `weights`: a row of `length` a block.
constexpr int kReferenceThreads = 256;
template <typename T>
__global__ void reference(const T* q, const T* k, const T* v, const int* rows, int length, int dim, bool causal, double* weights, double* out) {
    __shared__ double partial[kReferenceThreads];
    const std::uint64_t row = rows[blockIdx.x], head = row / length * length * dim;
    const int keys = causal ? static_cast<int>(row % length) + 1 : length, thread = threadIdx.x;
    double* const mine = weights + static_cast<std::uint64_t>(blockIdx.x) * length;
    const auto over_all = [&](double x, auto combine) {
        partial[thread] = x;
        __syncthreads();
        for (int half = kReferenceThreads / 2; half > 0; half /= 2) {
            if (thread < half) partial[thread] = combine(partial[thread], partial[thread + half]);
            __syncthreads();
        }
        const double all = partial[0];
        __syncthreads();
        return all;
    };
    double largest = -INFINITY, sum = 0;
    for (int j = thread; j < keys; j += kReferenceThreads) {
        double score = 0;
        for (int d = 0; d < dim; ++d) score += static_cast<double>(static_cast<float>(q[row * dim + d])) * static_cast<double>(static_cast<float>(k[head + static_cast<std::uint64_t>(j) * dim + d]));
        mine[j] = score / sqrt(static_cast<double>(dim));
        largest = fmax(largest, mine[j]);
    }
    largest = over_all(largest, [](double a, double b) { return fmax(a, b); });
    for (int j = thread; j < keys; j += kReferenceThreads) sum += mine[j] = exp(mine[j] - largest);
    sum = over_all(sum, [](double a, double b) { return a + b; });
    if (thread >= dim) return;
    double total = 0;
    for (int j = 0; j < keys; ++j) total += mine[j] * static_cast<double>(static_cast<float>(v[head + static_cast<std::uint64_t>(j) * dim + thread]));
    out[static_cast<std::uint64_t>(blockIdx.x) * dim + thread] = total / sum;
}

struct Found {
    double differences, squares;
    unsigned long long unwritten, outside;
};

template <typename T>
__global__ void compare(const T* out, std::uint64_t elements, const int* rows, int count, int dim, const double* expected, Found* found) {
    lab::for_all(static_cast<std::uint64_t>(count) * dim, [=](std::uint64_t i) {
        const double difference = static_cast<double>(static_cast<float>(out[static_cast<std::uint64_t>(rows[i / dim]) * dim + i % dim])) - expected[i];
        atomicAdd(&found->differences, difference * difference);
        atomicAdd(&found->squares, expected[i] * expected[i]);
    });
    lab::for_all(elements + kGuard, [=](std::uint64_t i) {
        const bool nan = isnan(static_cast<float>(out[i]));
        if (i < elements && nan) atomicAdd(&found->unwritten, 1);
        if (i >= elements && !nan) atomicAdd(&found->outside, 1);
    });
}

template <typename T>
struct Work {
    const T *q, *k, *v;
    T* out;
    int heads, length, causal;
};

template <typename T, int kDim, int kStages, bool kSwizzle = true, int kBlocks = 2>
std::function<void()> launch_mma(const Work<T>& w) {
    const auto kernel = steps::mma_sync<T, kDim, kStages, kSwizzle, kBlocks>;
    constexpr int kBytes = steps::kMmaBytes<kDim, kStages>;
    LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const dim3 grid(static_cast<unsigned>(lab::gemm::parts(w.length, steps::kMmaQueries)), static_cast<unsigned>(w.heads));
    return [=] {
        kernel<<<grid, steps::kMmaThreads, kBytes>>>(w.q, w.k, w.v, w.out, w.length, w.causal);
        LAB_LAUNCHED();
    };
}

template <typename T, typename S, bool kOverlap, bool kTurns, int kSlack = 0>
std::function<void()> launch_specialized(const Work<T>& w) {
    const auto kernel = steps::specialized<T, S, kOverlap, kTurns, kSlack>;
    LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes));
    const TensorMap q = lab::gemm::tensor_maps(w.q, w.heads, w.length, S::kDim, S::kQueries);
    const TensorMap k = lab::gemm::tensor_maps(w.k, w.heads, w.length, S::kDim, S::kKeys), v = lab::gemm::tensor_maps(w.v, w.heads, w.length, S::kDim, S::kKeys);
    const dim3 grid(static_cast<unsigned>(lab::gemm::parts(w.length, S::kQueries)), static_cast<unsigned>(w.heads));
    return [=] {
        kernel<<<grid, S::kThreads, S::kBytes>>>(q, k, v, w.out, w.length, w.causal);
        LAB_LAUNCHED();
    };
}

using Add = std::function<void(const char*, std::function<void()>)>;

template <typename T, int kDim>
void ladder(const Work<T>& w, bool hopper, const Add& add) {
    add("mma_sync", launch_mma<T, kDim, 1>(w));
    add("double_buffer", launch_mma<T, kDim, 2>(w));
    if constexpr (kDim == 64 && lab::gemm::kIsBf16<T>) {
        add("plain_rows", launch_mma<T, kDim, 2, false>(w));
        add("four_blocks", launch_mma<T, kDim, 2, true, 4>(w));
    }
    if (!hopper) return;
    using Two = steps::Shape<kDim, 2>;
    using Three = steps::Shape<kDim, 3>;
    add("specialized", launch_specialized<T, Two, false, false>(w));
    add("ping_pong", launch_specialized<T, Two, true, true>(w));
    add("no_turns", launch_specialized<T, Two, true, false>(w));
    add("three_groups", launch_specialized<T, Three, kDim == 64, false>(w));
    add("lazy", launch_specialized<T, Three, kDim == 64, false, 8>(w));
}

template <typename T>
int run(const Options& o) {
    const bool all_steps = o.variant == "all", causal = o.mask == "causal";
    const int length = static_cast<int>(o.length), dim = static_cast<int>(o.dim), heads = static_cast<int>(o.heads);
    const std::size_t all_rows = static_cast<std::size_t>(heads) * o.length, elements = all_rows * o.dim;
    if (all_rows > 0x7fffffff) lab::fail("--heads %lld --length %lld: take fewer than 2147483648 queries in all", o.heads, o.length);
    const int count = static_cast<int>(std::min<std::size_t>(all_rows, 512));
    const cudaDeviceProp gpu = lab::open_device(fill<T>, 4 * elements * sizeof(T) + static_cast<std::size_t>(count) * (o.length + o.dim) * 8 + (std::size_t{1} << 29));
    const bool hopper = gpu.major == 9;
    const auto from_hopper = std::find(kSteps.begin() + 2, kSteps.end(), o.variant);
    if (!hopper && from_hopper != kSteps.end()) lab::fail("--variant %s: needs compute capability 9.0; take double_buffer", o.variant.c_str());
    if (!hopper) std::printf("only mma_sync and double_buffer: the other steps need compute capability 9.0\n");
    const lab::DeviceArray<T> q(elements), k(elements), v(elements), out(elements + kGuard);
    std::uint64_t seed = static_cast<std::uint64_t>(o.seed);
    for (const auto* array : {&q, &k, &v}) {
        fill<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(array->get(), array->count(), seed++);
        LAB_LAUNCHED();
    }
    const Work<T> work{q.get(), k.get(), v.get(), out.get(), heads, length, causal};
    std::vector<int> chosen;  // rows to be compared, spread over all
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
        const std::uint64_t from = i * all_rows / static_cast<std::uint64_t>(count), to = (i + 1) * all_rows / static_cast<std::uint64_t>(count);
        chosen.push_back(static_cast<int>(from + lab::mixed(seed, i) % (to - from)));
    }
    chosen.back() = static_cast<int>(all_rows - 1);
    const lab::DeviceArray<int> rows(chosen.size());
    LAB_CUDA(cudaMemcpy(rows.get(), chosen.data(), chosen.size() * sizeof(int), cudaMemcpyHostToDevice));
    const lab::DeviceArray<double> weights(chosen.size() * static_cast<std::size_t>(o.length)), expected(chosen.size() * static_cast<std::size_t>(o.dim));
    reference<<<static_cast<unsigned>(count), kReferenceThreads>>>(work.q, work.k, work.v, rows.get(), length, dim, causal, weights.get(), expected.get());
    LAB_LAUNCHED();

    std::vector<lab::Rung> all;
    const auto add = [&](const char* name, std::function<void()> call) {
        const bool step = std::find(kSteps.begin(), kSteps.end(), name) != kSteps.end();
        if (all_steps ? step : o.variant == name || (o.variant == "slow" && (!step || name == kSteps[1]))) all.push_back({name, lab::Rung::kStep, 0, std::move(call)});
    };
    if (dim == 64) ladder<T, 64>(work, hopper, add);
    else ladder<T, 128>(work, hopper, add);

    lab::Record record{"attention", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("type", o.type).add("mask", o.mask).add("heads", o.heads).add("length", o.length).add("dim", o.dim);
    record.parameters.add("repetitions", o.repetitions).add("seed", o.seed);
    const lab::DeviceArray<Found> found(1);
    const double allowed = sizeof(T) == 2 && o.type == "bf16" ? 5e-3 : 1e-3;
    std::vector<double> errors;
    for (lab::Rung& rung : all) {
        out.poison();
        {
            const lab::Profiled once;
            rung.run();
        }
        LAB_CUDA(cudaDeviceSynchronize());
        found.zero();
        compare<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(work.out, elements, rows.get(), count, dim, expected.get(), found.get());
        LAB_LAUNCHED();
        Found f;
        LAB_CUDA(cudaMemcpy(&f, found.get(), sizeof f, cudaMemcpyDeviceToHost));
        const double error = std::sqrt(f.differences / f.squares);
        char detail[160];
        std::snprintf(detail, sizeof detail, "error %.2e of the norm (allowed %.0e), %llu elements not written, %llu outside", error, allowed, f.unwritten, f.outside);
        record.check(rung.name, error <= allowed && f.unwritten == 0 && f.outside == 0, detail);
        record.results.add(rung.name + "_error", error);
        errors.push_back(error);
    }
    const lab::ColdCache cold(gpu);
    {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(all, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    const double operations = 4.0 * static_cast<double>(all_rows) * static_cast<double>(o.length) * static_cast<double>(o.dim) / (causal ? 2 : 1);
    std::printf("%s: %s, %d heads of %d x %d, mask: %s, a cold cache before each\n", gpu.name, o.type.c_str(), heads, length, dim, o.mask.c_str());
    std::printf("  %-22s %11s %11s %11s %9s %10s\n", "", "median us", "quartile", "quartile", "TFLOP/s", "error");
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::vector<double>& us = all[i].us;
        const double rate = operations / lab::median(us) / 1e6;
        std::printf("  %-22s %11.1f %11.1f %11.1f %9.2f %10.2e\n", all[i].name.c_str(), lab::median(us), lab::quantile(us, 0.25), lab::quantile(us, 0.75), rate, errors[i]);
        lab::add_spread(record.results, all[i].name, "us", us);
        record.results.add(all[i].name + "_tflop_per_s", rate);
    }
    return record.finish(o.json);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "attention";
    const Options o = parse(argc, argv);
    return o.type == "bf16" ? run<__nv_bfloat16>(o) : run<__half>(o);
}
