// Memory bandwidth: copies from strided to bulk; triad, gather, misaligned starts, the L2 cache. Flags in, a table and a JSON
// record out.
// SPDX-License-Identifier: Apache-2.0
//
//   all         the steps of the copy, in turns, beside cudaMemcpy
//   strided … bulk   one of them alone beside cudaMemcpy
//   triad       a[i] = b[i] + 3 c[i]: two reads and one write
//   gather      a[i] = b[index[i]], for indices in order, in blocks of shuffled sectors, and at random
//   misaligned  copies whose input starts 0 … 4 elements behind a boundary of 128 bytes
//   sizes       the same copy over and over, from a cache that is warm, for arrays from 1 MiB up: what fits into the L2 cache
//               is not read from memory, and a throughput taken that way says nothing about the memory

#include <cstdio>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "memory_bandwidth.cuh"

namespace {

namespace steps = lab::memory_bandwidth;

const std::vector<std::string> kSteps = {"strided", "coalesced", "vectorized", "in_flight", "streaming", "bulk_ring", "bulk"};
constexpr float kScale = 3.0f;
constexpr unsigned kSector = 8;  // floats of 32 bytes

struct Options {
    std::string variant = "all", json;
    long long mebibytes = 512, repetitions = 15, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"all"};
    variants.insert(variants.end(), kSteps.begin(), kSteps.end());
    for (const char* more : {"triad", "gather", "misaligned", "sizes"}) variants.emplace_back(more);
    lab::Args args("Copies arrays in GPU memory in several ways and holds each against cudaMemcpy.");
    args.choice("--variant", &o.variant, variants, "which experiment; a step alone, or all of them in turns");
    args.integer("--mebibytes", &o.mebibytes, 1, 1 << 15, "size of each array");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the arrays");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

unsigned blocks(std::size_t count, std::size_t a_block) { return static_cast<unsigned>((count + a_block - 1) / a_block); }

// ---- launches: arrays and a count in, a call out -----------------------------------------------------------------------

bool needs_bulk(const std::string& name) { return name == "bulk" || name == "bulk_ring"; }

std::function<void()> copy_step(const std::string& name, const float* in, float* out, std::size_t n, const cudaDeviceProp& gpu) {
    constexpr std::size_t kWord = 4, kThreads = steps::kThreads;  // floats of 16 bytes
    if (name == "strided") return [=] { steps::strided<float, steps::kRun><<<blocks(n, kThreads * steps::kRun), kThreads>>>(in, out, n); };
    if (name == "coalesced") return [=] { steps::coalesced<float><<<blocks(n, kThreads), kThreads>>>(in, out, n); };
    if (name == "vectorized") return [=] { steps::vectorized<float><<<blocks(n, kThreads * kWord), kThreads>>>(in, out, n); };
    if (name == "in_flight" || name == "streaming") {
        const auto kernel = name == "streaming" ? steps::in_flight<float, steps::kLoads, true> : steps::in_flight<float, steps::kLoads, false>;
        return [=] { kernel<<<blocks(n, steps::kLoadThreads * steps::kLoads * kWord), steps::kLoadThreads>>>(in, out, n); };
    }
    const auto allow = [](auto kernel, int bytes) {
        LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    };
    if (name == "bulk_ring") {
        return [=] {
            const auto kernel = steps::bulk_ring<float, steps::kRingBytes, steps::kRingStages>;
            constexpr int kBytes = steps::kRingBytes * steps::kRingStages;
            allow(kernel, kBytes);
            kernel<<<static_cast<unsigned>(gpu.multiProcessorCount * steps::kRingBlocks), steps::kPieceThreads, kBytes>>>(in, out, n);
        };
    }
    return [=] {
        const auto kernel = steps::bulk<float, steps::kPieceBytes>;
        const int bytes = static_cast<int>(gpu.sharedMemPerBlockOptin) / steps::kPieceBlocks - 1024;  // 1 KiB a block is the system's
        allow(kernel, bytes);
        kernel<<<blocks(n * sizeof(float), steps::kPieceBytes), steps::kPieceThreads, bytes>>>(in, out, n);
    };
}

lab::Rung launched(const std::string& name, double bytes, std::function<void()> run) {
    return {name, lab::Rung::kStep, bytes, [run = std::move(run)] {
                run();
                LAB_LAUNCHED();
            }};
}

lab::Rung device_copy(const float* in, float* out, std::size_t n) {
    return {"device_copy", lab::Rung::kCeiling, 2.0 * sizeof(float) * static_cast<double>(n),
            [=] { LAB_CUDA(cudaMemcpyAsync(out, in, n * sizeof(float), cudaMemcpyDeviceToDevice)); }};
}

// ---- checks: inputs are made again from their places --------------------------------------------------------------------

__global__ void count_wrong_triad(const float* out, std::uint64_t n, std::uint64_t seed, unsigned long long* wrong) {
    lab::for_all(n, [=](std::uint64_t i) {
        if (out[i] != fmaf(kScale, lab::normal(seed + 1, i), lab::normal(seed, i))) atomicAdd(wrong, 1ULL);
    });
}

// index == nullptr: element i comes from place i + shift.
__global__ void count_wrong_copy(const float* out, const int* index, std::uint64_t n, std::uint64_t seed, unsigned shift,
                                 unsigned long long* wrong) {
    lab::for_all(n, [=](std::uint64_t i) {
        const std::uint64_t from = index != nullptr ? static_cast<std::uint64_t>(index[i]) : i + shift;
        if (out[i] != lab::normal(seed, from)) atomicAdd(wrong, 1ULL);
    });
}

// Indices below n (a power of two): in order, or shuffled in groups of `group` neighbors: an odd factor permutes the groups.
__global__ void fill_indices(int* out, std::uint64_t n, unsigned group, bool shuffled) {
    lab::for_all(n, [=](std::uint64_t i) {
        const std::uint64_t groups = n / group, g = i / group;
        std::uint64_t other = (g * 0x9e3779b1ULL + 12345) & (groups - 1);
        other = ((other ^ (other >> 11)) * 0x85ebca6bULL) & (groups - 1);
        out[i] = static_cast<int>((shuffled ? other : g) * group + i % group);
    });
}

struct Bench {
    const Options& o;
    const cudaDeviceProp& gpu;
    lab::Record& record;
    lab::DeviceArray<unsigned long long> wrong{1};

    void fill(const lab::DeviceArray<float>& array, std::uint64_t more = 0) const {
        lab::fill_normal<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(array.get(), array.count(), seed() + more);
        LAB_LAUNCHED();
    }
    std::uint64_t seed() const { return static_cast<std::uint64_t>(o.seed); }
    lab::Verdict verdict(std::size_t n) const {
        unsigned long long found = 0;
        LAB_CUDA(cudaMemcpy(&found, wrong.get(), sizeof found, cudaMemcpyDeviceToHost));
        return {found == 0, std::to_string(found) + " of " + std::to_string(n) + " elements differ"};
    }
    lab::Verdict verify_copy(const float* out, std::size_t n, const int* index, unsigned shift) const {
        wrong.zero();
        count_wrong_copy<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(out, index, n, seed(), shift, wrong.get());
        LAB_LAUNCHED();
        return verdict(n);
    }
    void measure(std::vector<lab::Rung>& ladder, const std::function<void()>& before) const {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(ladder, o.repetitions, before);
        LAB_CUDA(cudaDeviceSynchronize());
    }
};

// ---- the experiments ----------------------------------------------------------------------------------------------------

void copies(const Bench& b, std::size_t n, const lab::ColdCache& cold) {
    const lab::DeviceArray<float> in(n), out(n);
    b.fill(in);
    std::vector<lab::Rung> ladder = {device_copy(in.get(), out.get(), n)};
    for (const std::string& name : kSteps) {
        if (needs_bulk(name) && !lab::supports_bulk(b.gpu)) continue;
        if (b.o.variant == "all" || b.o.variant == name) ladder.push_back(launched(name, ladder[0].bytes, copy_step(name, in.get(), out.get(), n, b.gpu)));
    }
    lab::check_rungs(ladder, [&] { out.poison(); }, [&](const lab::Rung&) { return b.verify_copy(out.get(), n, nullptr, 0); }, b.record);
    b.measure(ladder, [&] { cold(); });
    lab::print_head(b.gpu, "copy", ladder[0].bytes);
    lab::report(ladder, b.record);
}

void triad(const Bench& b, std::size_t n, const lab::ColdCache& cold) {
    const lab::DeviceArray<float> left(n), right(n), out(n);
    b.fill(left);
    b.fill(right, 1);
    const float *l = left.get(), *r = right.get();
    float* to = out.get();
    const double bytes = 3.0 * sizeof(float) * static_cast<double>(n);
    std::vector<lab::Rung> ladder = {device_copy(l, to, n)};
    ladder.push_back(launched("triad_coalesced", bytes, [=] { steps::triad_coalesced<<<blocks(n, 256), 256>>>(l, r, to, n, kScale); }));
    ladder.push_back(launched("triad_vectorized", bytes, [=] {
        steps::triad_in_flight<1><<<blocks(n, 4 * steps::kThreads), steps::kThreads>>>(l, r, to, n, kScale);
    }));
    ladder.push_back(launched("triad_in_flight", bytes, [=] {
        steps::triad_in_flight<2><<<blocks(n, 8 * steps::kThreads), steps::kThreads>>>(l, r, to, n, kScale);
    }));
    lab::check_rungs(
        ladder, [&] { out.poison(); },
        [&](const lab::Rung&) {
            b.wrong.zero();
            count_wrong_triad<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(to, n, b.seed(), b.wrong.get());
            LAB_LAUNCHED();
            return b.verdict(n);
        },
        b.record);
    b.measure(ladder, [&] { cold(); });
    lab::print_head(b.gpu, "triad", bytes);
    lab::report(ladder, b.record);
}

void gathers(const Bench& b, std::size_t asked, const lab::ColdCache& cold) {
    std::size_t n = kSector;
    while (2 * n <= asked && 2 * n <= (1ULL << 30)) n *= 2;  // a power of two, for the shuffling
    const lab::DeviceArray<float> in(n), out(n);
    const lab::DeviceArray<int> index(n);
    b.fill(in);
    const double useful = 3.0 * sizeof(float) * static_cast<double>(n);
    struct Order {
        const char* name;
        unsigned group;
        bool shuffled;
    };
    lab::print_head(b.gpu, "gather (indices, reads and writes of 4 bytes)", useful);
    for (const Order& order : {Order{"in_order", 1, false}, Order{"sectors", kSector, true}, Order{"random", 1, true}}) {
        fill_indices<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(index.get(), n, order.group, order.shuffled);
        LAB_LAUNCHED();
        std::vector<lab::Rung> ladder = {device_copy(in.get(), out.get(), n)};
        ladder[0].name = std::string(order.name) + "_device_copy";
        const float* from = in.get();
        const int* places = index.get();
        float* to = out.get();
        const std::string name = order.name;
        ladder.push_back(launched(name + "_one", useful, [=] { steps::gather<float><<<blocks(n, 256), 256>>>(from, places, to, n); }));
        ladder.push_back(launched(name + "_four", useful, [=] { steps::gather_in_flight<float, 4><<<blocks(n, 4 * 256), 256>>>(from, places, to, n); }));
        lab::check_rungs(ladder, [&] { out.poison(); }, [&](const lab::Rung&) { return b.verify_copy(to, n, places, 0); }, b.record);
        b.measure(ladder, [&] { cold(); });
        lab::report(ladder, b.record);
    }
}

void misaligned(const Bench& b, std::size_t n, const lab::ColdCache& cold) {
    constexpr unsigned kMost = 8;
    const lab::DeviceArray<float> in(n + kMost), out(n);
    b.fill(in);
    std::vector<lab::Rung> ladder = {device_copy(in.get(), out.get(), n)};
    for (const unsigned shift : {0u, 1u, 2u, 4u, 8u}) {
        for (const char* name : {"coalesced", "vectorized"}) {
            std::vector<lab::Rung> one = {launched(std::string(name) + "_" + std::to_string(shift), ladder[0].bytes,
                                                   copy_step(name, in.get() + shift, out.get(), n, b.gpu))};
            lab::check_rungs(one, [&] { out.poison(); }, [&](const lab::Rung&) { return b.verify_copy(out.get(), n, nullptr, shift); }, b.record);
            ladder.push_back(one[0]);
        }
    }
    b.measure(ladder, [&] { cold(); });
    lab::print_head(b.gpu, "copy of an array that starts some elements behind a boundary", ladder[0].bytes);
    lab::report(ladder, b.record);
}

void sizes(const Bench& b, std::size_t most) {
    const lab::DeviceArray<float> in(most), out(most);
    b.fill(in);
    std::vector<double> mebibytes, warm;
    constexpr int kCalls = 20;  // between two events, so that starting them does not count
    std::printf("%s: the vectorized copy again and again, L2 cache of %d MiB\n  %10s %12s %10s\n", b.gpu.name, b.gpu.l2CacheSize >> 20,
                "MiB moved", "x L2 cache", "GB/s");
    for (std::size_t n = 1 << 17; n <= most; n *= 2) {
        const std::function<void()> copy = copy_step("vectorized", in.get(), out.get(), n, b.gpu);
        std::vector<lab::Rung> one = {launched("size_" + std::to_string(n >> 17), 8.0 * static_cast<double>(n) * kCalls, [=] {
            for (int k = 0; k < kCalls; ++k) copy();
        })};
        lab::check_rungs(one, [&] { out.poison(); }, [&](const lab::Rung&) { return b.verify_copy(out.get(), n, nullptr, 0); }, b.record);
        b.measure(one, {});
        mebibytes.push_back(static_cast<double>(n >> 17));
        warm.push_back(lab::gb_per_s(one[0]));
        std::printf("  %10.0f %12.2f %10.1f\n", mebibytes.back(), 8.0 * static_cast<double>(n) / b.gpu.l2CacheSize, warm.back());
    }
    b.record.results.add("moved_mib", mebibytes).add("warm_gb_per_s", warm);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "memory_bandwidth";
    const Options o = parse(argc, argv);
    const std::size_t n = (static_cast<std::size_t>(o.mebibytes) << 20) / sizeof(float);
    const std::size_t arrays = o.variant == "triad" || o.variant == "gather" ? 3 : 2;
    const cudaDeviceProp gpu = lab::open_device(steps::coalesced<float>, arrays * n * sizeof(float) + 5 * static_cast<std::size_t>(1 << 26));
    if (needs_bulk(o.variant) && !lab::supports_bulk(gpu)) {
        lab::fail("--variant %s: needs compute capability 9.0, and %s has %d.%d; take another variant", o.variant.c_str(), gpu.name,
                  gpu.major, gpu.minor);
    }
    const lab::ColdCache cold(gpu);
    lab::Record record{"memory_bandwidth", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("mebibytes", o.mebibytes).add("repetitions", o.repetitions).add("seed", o.seed).add("flush_bytes", cold.bytes());
    const Bench bench{o, gpu, record};
    if (o.variant == "triad") triad(bench, n, cold);
    else if (o.variant == "gather") gathers(bench, n, cold);
    else if (o.variant == "misaligned") misaligned(bench, n, cold);
    else if (o.variant == "sizes") sizes(bench, n);
    else copies(bench, n, cold);
    return record.finish(o.json);
}
