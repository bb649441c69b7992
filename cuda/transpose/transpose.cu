// Transpose: from one element a thread to 16-byte blocks turned in registers. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// Every step moves the same bytes as a copy of the matrix: each element is read once and written once. What differs is how
// many sectors of 32 bytes a warp touches for them, how often lanes wait for one bank of shared memory, and how many loads are
// under way. The steps are in transpose.cuh; the ceiling is cudaMemcpy of as many bytes, in the same run.

#include <cstdio>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "transpose.cuh"

namespace {

namespace steps = lab::transpose;

const std::vector<std::string> kSteps = {"naive", "shared_tile", "padded", "swizzled", "vectorized", "patches", "windowed", "chunks"};

struct Options {
    std::string variant = "all", json;
    long long rows = 16384, columns = 8192, bytes = 4, repetitions = 15, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"all"};
    variants.insert(variants.end(), kSteps.begin(), kSteps.end());
    lab::Args args("Transposes a matrix and holds the time against a copy of as many bytes.");
    args.choice("--variant", &o.variant, variants, "which step; all of them, in turns");
    args.integer("--rows", &o.rows, 1, 1 << 20, "rows of the input");
    args.integer("--columns", &o.columns, 1, 1 << 20, "columns of the input");
    args.integer("--bytes", &o.bytes, 2, 4, "bytes of an element: 2 or 4");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the matrix");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    if (o.bytes == 3) lab::fail("--bytes 3: give 2 or 4");
    return o;
}

template <typename T>
__global__ void count_wrong(const T* in, const T* out, int rows, int columns, unsigned long long* wrong) {
    lab::for_all(static_cast<std::uint64_t>(rows) * columns, [=](std::uint64_t i) {
        const std::uint64_t r = i / columns, c = i % columns;
        if (out[c * rows + r] != in[i]) atomicAdd(wrong, 1ULL);
    });
}

template <typename T>
std::vector<lab::Rung> rungs(const T* in, T* out, int rows, int columns, const std::string& only, int shared_bytes) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * columns * sizeof(T);
    const auto over = [](int n, int side) { return static_cast<unsigned>((n + side - 1) / side); };
    const dim3 threads(steps::kTile, steps::kRows), tiles(over(columns, steps::kTile), std::min(65535u, over(rows, steps::kTile)));
    std::vector<lab::Rung> all;
    const auto step = [&](const char* name, std::function<void()> run) {
        if (only == "all" || only == name) all.push_back({name, lab::Rung::kStep, 2.0 * bytes, std::move(run)});
    };
    all.push_back({"device_copy", lab::Rung::kCeiling, 2.0 * bytes,
                   [=] { LAB_CUDA(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice)); }});
    step("naive", [=] {
        steps::naive<T><<<dim3(over(columns, steps::kTile), std::min(65535u, over(rows, steps::kRows))), threads>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    step("shared_tile", [=] {
        steps::tiled<T, steps::Plain><<<tiles, threads>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    step("padded", [=] {
        steps::tiled<T, steps::Padded<4 / sizeof(T)>><<<tiles, threads>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    step("swizzled", [=] {
        steps::tiled<T, steps::Swizzled<T>><<<tiles, threads>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    const auto vectorized = [&](const char* name, void (*kernel)(const T*, T*, int, int)) {
        constexpr int kSide = steps::kWords * steps::kPer<T>;
        step(name, [=] {
            kernel<<<over(columns, kSide) * over(rows, kSide), steps::kWords * steps::kWords>>>(in, out, rows, columns);
            LAB_LAUNCHED();
        });
    };
    vectorized("vectorized", steps::vectorized<T, steps::kWords, steps::kWords, 1>);
    vectorized("patches", steps::vectorized<T, steps::kWords, steps::kWords, steps::kGroup>);
    constexpr int kBytes = steps::kWindowBytes<T, steps::kWindowRows, steps::kWindowLine, steps::kWindowWords<T>>;
    if (shared_bytes < kBytes) return all;
    step("windowed", [=] {
        using namespace steps;
        const auto kernel = windowed<T, kWindowRows, kWindowLine, kWindowWords<T>, kWindowThreads, kWindowAcross<T>, kWindowGroup>;
        LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
        kernel<<<over(columns, kWindowColumns<T, kWindowWords<T>>) * over(rows, kWindowRows), kWindowThreads, kBytes>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    constexpr int kChunked = steps::kChunkBytes<T, steps::kChunkHigh, steps::kChunkWide>;
    if (shared_bytes < kChunked) return all;
    step("chunks", [=] {
        using namespace steps;
        const auto kernel = chunks<T, kChunkHigh, kChunkWide, kChunkThreads, kChunkGroup>;
        LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kChunked));
        kernel<<<over(columns, kChunkWide) * over(rows, kChunkHigh), kChunkThreads, kChunked>>>(in, out, rows, columns);
        LAB_LAUNCHED();
    });
    return all;
}

template <typename T>
int run(const Options& o) {
    const int rows = static_cast<int>(o.rows), columns = static_cast<int>(o.columns);
    const std::size_t count = static_cast<std::size_t>(rows) * columns;
    const cudaDeviceProp gpu = lab::open_device(steps::naive<T>, 2 * count * sizeof(T) + 5 * static_cast<std::size_t>(1 << 26));
    const lab::DeviceArray<T> in(count + 8), out(count + 8);
    const lab::DeviceArray<unsigned long long> wrong(1);
    const lab::ColdCache cold(gpu);
    lab::fill_bits<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(reinterpret_cast<unsigned short*>(in.get()), count * sizeof(T) / 2,
                                                                static_cast<std::uint64_t>(o.seed));
    LAB_LAUNCHED();
    lab::Record record{"transpose", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("rows", rows).add("columns", columns).add("bytes", o.bytes).add("repetitions", o.repetitions);
    record.parameters.add("seed", o.seed).add("flush_bytes", cold.bytes());

    std::vector<lab::Rung> ladder = rungs(in.get(), out.get(), rows, columns, o.variant, static_cast<int>(gpu.sharedMemPerBlockOptin));
    if (ladder.size() < 2) lab::fail("--variant %s: %s has too little shared memory for its tile; take another variant", o.variant.c_str(), gpu.name);
    lab::check_rungs(
        ladder, [&] { out.poison(); },
        [&](const lab::Rung&) {
            wrong.zero();
            count_wrong<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(in.get(), out.get(), rows, columns, wrong.get());
            LAB_LAUNCHED();
            unsigned long long found = 0;
            LAB_CUDA(cudaMemcpy(&found, wrong.get(), sizeof found, cudaMemcpyDeviceToHost));
            return lab::Verdict{found == 0, std::to_string(found) + " of " + std::to_string(count) + " elements differ"};
        },
        record);
    {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(ladder, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    lab::print_head(gpu, (std::to_string(rows) + " x " + std::to_string(columns) + " elements of " + std::to_string(o.bytes) + " bytes").c_str(),
                    2.0 * static_cast<double>(count * sizeof(T)));
    lab::report(ladder, record);
    return record.finish(o.json);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "transpose";
    const Options o = parse(argc, argv);
    return o.bytes == 2 ? run<unsigned short>(o) : run<unsigned>(o);
}
