// Sum: from one atomic addition an element to one deterministic pass. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// The work costs one read of the array and nothing else, so that it can run faster than a copy of as many bytes: memory that
// only reads never turns its bus around. The steps are in sum.cuh; CUB's DeviceReduce runs beside them.

#include <cub/device/device_reduce.cuh>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "sum.cuh"

namespace {

namespace steps = lab::sum;

const std::vector<std::string> kSteps = {"atomics", "tree", "shuffle", "vectorized", "bulk"};

// Of |x|: an element too few is an error of 1/sqrt(n) of it. One addition after another rounds the whole sum each time.
double tolerance(const std::string& step) { return step == "atomics" ? 3e-3 : step == "tree" || step == "shuffle" ? 3e-4 : 1e-5; }

struct Options {
    std::string variant = "all", json;
    long long mebibytes = 1024, repetitions = 15, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"all"};
    variants.insert(variants.end(), kSteps.begin(), kSteps.end());
    lab::Args args("Adds up an array of random normal floats and holds the time against CUB and against a copy of as many bytes.");
    args.choice("--variant", &o.variant, variants, "which step; all of them, in turns");
    args.integer("--mebibytes", &o.mebibytes, 1, 1 << 16, "size of the array");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the array");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

// Sums of the values and of their squares, in double precision.
__global__ void reference(const float* in, std::uint64_t n, double* sums) {
    double total = 0, squares = 0;
    lab::for_all(n, [&](std::uint64_t i) {
        const double x = in[i];
        total += x;
        squares += x * x;
    });
    const std::uint64_t thread = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    sums[2 * thread] = total;
    sums[2 * thread + 1] = squares;
}

struct Work {
    const float* in;
    float* out;
    steps::Scratch* scratch;
    std::size_t count;
    int sm_count;
};

// Blocks that find at least a tile of words to do.
unsigned tiles(std::size_t count, std::size_t words) { return static_cast<unsigned>((count + 4 * words - 1) / (4 * words)); }

std::vector<lab::Rung> rungs(const Work& w, float* copy, const std::string& only, bool bulk) {
    const double bytes = static_cast<double>(w.count) * sizeof(float);
    const unsigned one_each = static_cast<unsigned>((w.count + steps::kThreads - 1) / steps::kThreads);
    const unsigned sms = static_cast<unsigned>(w.sm_count);
    std::vector<lab::Rung> all;
    const auto step = [&](const char* name, std::function<void()> run) {
        if (only == "all" || only == name) all.push_back({name, lab::Rung::kStep, bytes, std::move(run)});
    };
    const auto adding = [&](const char* name, void (*kernel)(const float*, float*, steps::Size)) {
        step(name, [=] {
            LAB_CUDA(cudaMemsetAsync(w.out, 0, sizeof(float)));
            kernel<<<one_each, steps::kThreads>>>(w.in, w.out, w.count);
            LAB_LAUNCHED();
        });
    };
    all.push_back({"device_copy", lab::Rung::kCeiling, bytes,
                   [=] { LAB_CUDA(cudaMemcpyAsync(copy, w.in, w.count / 2 * sizeof(float), cudaMemcpyDeviceToDevice)); }});
    adding("atomics", steps::atomics);
    adding("tree", steps::tree);
    adding("shuffle", steps::shuffle);
    step("vectorized", [=] {
        const unsigned grid = std::min(steps::kBlocksPerSm * sms, tiles(w.count, steps::kWideThreads * steps::kLoads));
        steps::vectorized<steps::kWideThreads, steps::kLoads><<<grid, steps::kWideThreads>>>(w.in, w.out, w.scratch, w.count);
        LAB_LAUNCHED();
    });
    if (bulk) {
        step("bulk", [=] {
            constexpr int kBytes = steps::kBulkThreads * steps::kBulkLoads * steps::kBulkStages * 16;
            const auto kernel = steps::bulk<steps::kBulkThreads, steps::kBulkLoads, steps::kBulkStages>;
            LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
            const unsigned grid = std::min(steps::kBulkBlocksPerSm * sms, tiles(w.count, steps::kBulkThreads * steps::kBulkLoads));
            kernel<<<grid, steps::kBulkThreads, kBytes>>>(w.in, w.out, w.scratch, w.count);
            LAB_LAUNCHED();
        });
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "sum";
    const Options o = parse(argc, argv);
    const std::size_t count = (static_cast<std::size_t>(o.mebibytes) << 20) / sizeof(float);
    const cudaDeviceProp gpu = lab::open_device(steps::atomics, count * sizeof(float) * 3 / 2 + 5 * static_cast<std::size_t>(1 << 26));
    if (o.variant == "bulk" && !lab::supports_bulk(gpu)) {
        lab::fail("--variant bulk: needs compute capability 9.0, and %s has %d.%d; take another variant", gpu.name, gpu.major, gpu.minor);
    }
    const lab::DeviceArray<float> in(count), out(1), copy(count / 2);
    const lab::DeviceArray<float> scratch(4 + static_cast<std::size_t>(gpu.multiProcessorCount) * steps::kBlocksPerSm);
    scratch.zero();
    const lab::ColdCache cold(gpu);
    lab::fill_normal<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(in.get(), count, static_cast<std::uint64_t>(o.seed));
    LAB_LAUNCHED();

    double expected = 0, norm = 0;
    {
        const std::size_t threads = static_cast<std::size_t>(lab::kSpreadBlocks) * lab::kSpreadThreads;
        const lab::DeviceArray<double> sums(2 * threads);
        reference<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(in.get(), count, sums.get());
        LAB_LAUNCHED();
        std::vector<double> host(2 * threads);
        LAB_CUDA(cudaMemcpy(host.data(), sums.get(), host.size() * sizeof(double), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < threads; ++i) expected += host[2 * i], norm += host[2 * i + 1];
        norm = std::sqrt(norm);
    }
    const auto result = [&] {
        float value = 0;
        LAB_CUDA(cudaMemcpy(&value, out.get(), sizeof value, cudaMemcpyDeviceToHost));
        return value;
    };

    lab::Record record{"sum", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("mebibytes", o.mebibytes).add("repetitions", o.repetitions).add("seed", o.seed).add("flush_bytes", cold.bytes());
    const Work work{in.get(), out.get(), reinterpret_cast<steps::Scratch*>(scratch.get()), count, gpu.multiProcessorCount};
    std::vector<lab::Rung> ladder = rungs(work, copy.get(), o.variant, lab::supports_bulk(gpu));
    lab::check_rungs(
        ladder, [&] { out.poison(); },
        [&](const lab::Rung& rung) {
            const double error = std::fabs(static_cast<double>(result()) - expected) / norm;
            char detail[120];
            std::snprintf(detail, sizeof detail, "error %.2e of the norm of the array (allowed %.0e)", error, tolerance(rung.name));
            return lab::Verdict{error <= tolerance(rung.name), detail};
        },
        record);
    for (const lab::Rung& rung : ladder) {  // the same bits every time
        if (rung.name != "vectorized" && rung.name != "bulk") continue;
        int different = 0;
        float first = 0;
        for (int i = 0; i < 10; ++i) {
            rung.run();
            const float value = result();
            if (i == 0) first = value;
            different += std::memcmp(&first, &value, sizeof value) != 0;
        }
        record.check(rung.name + "_repeats_itself", different == 0, std::to_string(different) + " of 9 repetitions differ in their bits");
    }

    std::size_t cub_bytes = 0;
    LAB_CUDA(cub::DeviceReduce::Sum(nullptr, cub_bytes, in.get(), out.get(), static_cast<long long>(count)));
    const lab::DeviceArray<char> cub_scratch(cub_bytes);
    ladder.insert(ladder.begin() + 1, {"cub", lab::Rung::kLibrary, static_cast<double>(count * sizeof(float)), [&] {
                                           std::size_t size = cub_bytes;
                                           LAB_CUDA(cub::DeviceReduce::Sum(cub_scratch.get(), size, in.get(), out.get(), static_cast<long long>(count)));
                                       }});
    {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(ladder, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    lab::print_head(gpu, (std::to_string(count) + " floats").c_str(), static_cast<double>(count * sizeof(float)));
    lab::report(ladder, record);
    const double cub_us = lab::median(ladder[1].us);
    for (const lab::Rung& rung : ladder) {
        if (rung.kind == lab::Rung::kStep) record.results.add(rung.name + "_over_cub_ratio", cub_us / lab::median(rung.us));
    }
    return record.finish(o.json);
}
