// Matmul: from a thread an element to a ring of tiles between copy engine and tensor cores. Flags in, a table and a record out.
// SPDX-License-Identifier: Apache-2.0
//
// The steps are in fp32.cuh and bf16.cuh; cuBLAS, where it is installed, takes turns with them on the same matrices.

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "bf16.cuh"
#include "cublas.hpp"
#include "fp32.cuh"
#include "maps.hpp"
#include "needs.hpp"

namespace {

namespace steps = lab::gemm;
using steps::Bf16;

const std::vector<std::string> kFp32 = {"naive",      "coalesced",  "shared_tile",   "strips",   "squares",
                                        "vectorized", "warp_tiles", "double_buffer", "autotuned"};
const std::vector<std::string> kBf16 = {"mma_sync", "wgmma_tma", "specialized", "persistent", "cluster", "order", "store", "alone"};
constexpr int kSlowUs = 300000;  // a step that takes longer is timed once

struct Options {
    std::string variant = "fp32", values = "normal", json;
    long long m = 4096, n = 4096, k = 4096, pad = 0, offset = 0, repetitions = 10, seed = 1;
};

bool among(const std::vector<std::string>& names, const std::string& name) {
    for (const std::string& one : names) {
        if (one == name) return true;
    }
    return false;
}

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"fp32", "bf16"};
    variants.insert(variants.end(), kFp32.begin(), kFp32.end());
    variants.insert(variants.end(), kBf16.begin(), kBf16.end());
    lab::Args args("Multiplies matrices of random normal values, step by step, and holds the time against cuBLAS.");
    args.choice("--variant", &o.variant, variants, "which step; fp32 or bf16: all of them, in turns");
    args.integer("--m", &o.m, 1, 1 << 20, "rows of A and C");
    args.integer("--n", &o.n, 1, 1 << 20, "columns of B and C");
    args.integer("--k", &o.k, 1, 1 << 20, "columns of A, rows of B");
    args.integer("--pad", &o.pad, 0, 1 << 20, "elements between a row's end and the next row");
    args.integer("--offset", &o.offset, 0, 64, "elements by which the matrices miss the start of their memory");
    args.choice("--values", &o.values, {"normal", "special"}, "of the matrices; special: a NaN and both infinities among them");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the matrices");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

__global__ void fill(float* out, std::uint64_t n, std::uint64_t seed) {
    lab::for_all(n, [=](std::uint64_t i) { out[i] = lab::normal(seed, i); });
}
__global__ void fill(Bf16* out, std::uint64_t n, std::uint64_t seed) {
    lab::for_all(n, [=](std::uint64_t i) { out[i] = __float2bfloat16_rn(lab::normal(seed, i)); });
}

// A NaN and both infinities into a matrix, in rows and columns of their own where it has so many.
template <typename T>
__global__ void spoil(T* out, int rows, int columns, int ld) {
    const float special[3] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; ++i) out[static_cast<std::uint64_t>((2 * i + 1) * static_cast<std::int64_t>(rows) / 6) * ld + (i + 1) * static_cast<std::int64_t>(columns) / 4] = special[i];
}

struct Sides {
    int m, n, k, lda, ldb, ldc;
};

// Some rows of C in double precision: rows[i] of the product in row i of `out`.
template <typename T>
__global__ void reference(const T* a, const T* b, const int* rows, int count, Sides s, double* out) {
    lab::for_all(static_cast<std::uint64_t>(count) * s.n, [=](std::uint64_t i) {
        const std::uint64_t row = rows[i / s.n], column = i % s.n;
        double sum = 0;
        for (int l = 0; l < s.k; ++l) sum += static_cast<double>(static_cast<float>(a[row * s.lda + l])) * static_cast<double>(static_cast<float>(b[static_cast<std::uint64_t>(l) * s.ldb + column]));
        out[i] = sum;
    });
}

// What is found of an output: squares of differences and of the reference, the largest difference; elements that are NaN, elements
// between the rows that are no longer what they were, elements that are not the NaN or the infinity they should be.
struct Found {
    double differences, squares;
    unsigned long long largest, unwritten, outside, unlike;  // `largest`: the bits of a double that is not negative
};

template <typename T>
__global__ void compare(const T* c, const int* rows, int count, Sides s, const double* expected, bool special, Found* found) {
    lab::for_all(static_cast<std::uint64_t>(count) * s.n, [=](std::uint64_t i) {
        const double value = static_cast<double>(static_cast<float>(c[static_cast<std::uint64_t>(rows[i / s.n]) * s.ldc + i % s.n]));
        if (!isfinite(expected[i])) {
            if (isnan(expected[i]) ? !isnan(value) : value != expected[i]) atomicAdd(&found->unlike, 1);
            return;
        }
        const double difference = fabs(value - expected[i]);
        atomicAdd(&found->differences, difference * difference);
        atomicAdd(&found->squares, expected[i] * expected[i]);
        atomicMax(&found->largest, static_cast<unsigned long long>(__double_as_longlong(difference)));
    });
    lab::for_all(static_cast<std::uint64_t>(s.m) * s.ldc, [=](std::uint64_t i) {
        const bool between = i % s.ldc >= static_cast<unsigned>(s.n), nan = isnan(static_cast<float>(c[i]));
        if (!between && nan && !special) atomicAdd(&found->unwritten, 1);
        if (between && !nan) atomicAdd(&found->outside, 1);
    });
}

// Everything a step needs.
template <typename T>
struct Work {
    const T *a, *b;
    T* c;
    Sides s;
    int sm_count;
};

using Fp32Kernel = void (*)(const float*, const float*, float*, int, int, int, int, int, int);
using Bf16Kernel = void (*)(const Bf16*, const Bf16*, Bf16*, int, int, int, int, int, int);

template <typename Kernel, typename T>
std::function<void()> launch(Kernel kernel, const Work<T>& w, int tile_m, int tile_n, dim3 block, int shared_bytes) {
    const Sides s = w.s;
    const dim3 grid(static_cast<unsigned>(steps::parts(s.n, tile_n)), static_cast<unsigned>(steps::parts(s.m, tile_m)));
    if (grid.y > 65535) lab::fail("--m %d: this step takes at most %d rows", s.m, 65535 * tile_m);
    if (shared_bytes > 0) LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    return [=] {
        kernel<<<grid, block, shared_bytes>>>(w.a, w.b, w.c, s.m, s.n, s.k, s.lda, s.ldb, s.ldc);
        LAB_LAUNCHED();
    };
}

template <typename T>
std::function<void()> launch_staged(const Work<float>& w) {
    return launch<Fp32Kernel>(steps::staged<T>, w, T::kM, T::kN, T::kThreads, T::kBytes);
}
template <typename T>
std::function<void()> launch_pipelined(const Work<float>& w) {
    return launch<Fp32Kernel>(steps::pipelined<T>, w, T::kM, T::kN, T::kThreads, T::kBytes);
}

struct Maps {
    steps::TensorMap a, b, c;
    explicit Maps(const Work<Bf16>& w)
        : a(steps::tensor_map(w.a, w.s.m, w.s.k, w.s.lda, steps::kTileM)),
          b(steps::tensor_map(w.b, w.s.k, w.s.n, w.s.ldb, steps::kTileK)),
          c(steps::tensor_map(w.c, w.s.m, w.s.n, w.s.ldc, steps::kGroupM)) {}
};

std::function<void()> launch_simple(const Work<Bf16>& w) {
    using R = steps::Simple;
    const Maps maps(w);
    const Sides s = w.s;
    LAB_CUDA(cudaFuncSetAttribute(steps::wgmma_tma, cudaFuncAttributeMaxDynamicSharedMemorySize, R::kBytes));
    const dim3 grid(static_cast<unsigned>(steps::parts(s.n, R::kN)), static_cast<unsigned>(steps::parts(s.m, steps::kTileM)));
    if (grid.y > 65535) lab::fail("--m %d: this step takes at most %d rows", s.m, 65535 * steps::kTileM);
    Bf16* const c = w.c;
    return [=] {
        steps::wgmma_tma<<<grid, steps::kSimpleThreads, R::kBytes>>>(maps.a, maps.b, c, s.m, s.n, s.k, s.ldc);
        LAB_LAUNCHED();
    };
}

template <typename R, bool kPersistent, int kBlocks, int kBand, bool kStore>
std::function<void()> launch_specialized(const Work<Bf16>& w) {
    const Maps maps(w);
    const auto kernel = steps::specialized<R, kPersistent, kBlocks, kBand, kStore>;
    LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, R::kBytes));
    const int tiles = steps::parts(w.s.m, kBlocks * steps::kTileM) * steps::parts(w.s.n, R::kN);
    int clusters = w.sm_count / kBlocks;
    if (kPersistent && kBlocks > 1) {  // as many as find room at once: not every part of a GPU has an even number of SMs
        cudaLaunchConfig_t config{};
        config.gridDim = dim3(static_cast<unsigned>(clusters * kBlocks)), config.blockDim = dim3(steps::kWorkThreads);
        config.dynamicSmemBytes = R::kBytes;  // the kernel itself says how large its clusters are
        LAB_CUDA(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    }
    const unsigned grid = static_cast<unsigned>(kBlocks * (kPersistent ? std::min(tiles, clusters) : tiles));
    const Sides s = w.s;
    Bf16* const c = w.c;
    return [=] {
        kernel<<<grid, steps::kWorkThreads, R::kBytes>>>(maps.a, maps.b, maps.c, c, s.m, s.n, s.k, s.ldc);
        LAB_LAUNCHED();
    };
}

using steps::Needs;
using Make = std::function<std::function<void()>()>;  // of a call, where the GPU can serve the step
using Add = std::function<void(const char*, Needs, const Make&)>;

void ladder(const Work<float>& w, const Add& add) {
    const dim3 side(steps::kSide, steps::kSide);
    add("naive", {}, [&] { return launch<Fp32Kernel>(steps::naive, w, steps::kSide, steps::kSide, side, 0); });
    add("coalesced", {}, [&] { return launch<Fp32Kernel>(steps::coalesced, w, steps::kSide, steps::kSide, side, 0); });
    add("shared_tile", {}, [&] { return launch<Fp32Kernel>(steps::shared_tile, w, steps::kSide, steps::kSide, side, 0); });
    add("strips", {}, [&] { return launch<Fp32Kernel>(steps::strips, w, steps::kStripTile, steps::kStripTile, steps::kStripThreads, 0); });
    add("squares", {}, [&] { return launch<Fp32Kernel>(steps::squares, w, steps::kSquareTile, steps::kSquareTile, steps::kSquareThreads, 0); });
    add("vectorized", {0, steps::ByBlock::kBytes, false}, [&] { return launch_staged<steps::ByBlock>(w); });
    add("warp_tiles", {0, steps::ByWarp::kBytes, false}, [&] { return launch_staged<steps::ByWarp>(w); });
    add("double_buffer", {0, steps::TwoStages::kBytes, false}, [&] { return launch_pipelined<steps::TwoStages>(w); });
    add("autotuned", {0, steps::Tuned::kBytes, false}, [&] { return launch_pipelined<steps::Tuned>(w); });
#ifdef LAB_GEMM_GRID  // what «autotuned» was chosen from
    add("128x128x8/3/2", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 8, 8, 8, 8, 4, 3, 2>>(w); });
    add("128x128x8/4/2", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 8, 8, 8, 8, 4, 4, 2>>(w); });
    add("128x128x8/4/2 4x8", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 8, 8, 8, 4, 8, 4, 2>>(w); });
    add("128x128x16/2/2", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 16, 8, 8, 8, 4, 2, 2>>(w); });
    add("128x128x16/3/2 4x8", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 16, 8, 8, 4, 8, 3, 2>>(w); });
    add("128x256x8/4/1 8x16", {}, [&] { return launch_pipelined<steps::Tiling<128, 256, 8, 8, 16, 8, 4, 4, 1>>(w); });
    add("128x128x16/3/2", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 16, 8, 8, 8, 4, 3, 2>>(w); });
    add("256x128x8/4/1 16x8", {}, [&] { return launch_pipelined<steps::Tiling<256, 128, 8, 16, 8, 4, 8, 4, 1>>(w); });
    add("256x128x16/3/1 16x8", {}, [&] { return launch_pipelined<steps::Tiling<256, 128, 16, 16, 8, 4, 8, 3, 1>>(w); });
    add("128x128x8/4/2 16x8", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 8, 16, 8, 4, 8, 4, 2>>(w); });
    add("128x128x8/4/2 8x16", {}, [&] { return launch_pipelined<steps::Tiling<128, 128, 8, 8, 16, 8, 4, 4, 2>>(w); });
    add("64x256x16/3/2", {}, [&] { return launch_pipelined<steps::Tiling<64, 256, 16, 8, 8, 8, 4, 3, 2>>(w); });
#endif
}

void ladder(const Work<Bf16>& w, const Add& add) {
    constexpr int kHopper = 90;
    add("mma_sync", {80, steps::kMmaBytes, false}, [&] {
        return launch<Bf16Kernel>(steps::mma_sync, w, steps::kMmaM, steps::kMmaN, dim3(steps::kMmaThreads), steps::kMmaBytes);
    });
    add("wgmma_tma", {kHopper, steps::Simple::kBytes, true}, [&] { return launch_simple(w); });
    const auto ring = [&](const char* name, auto launched, int shared_bytes) { add(name, {kHopper, shared_bytes, true}, [&, launched] { return launched(w); }); };
    ring("specialized", launch_specialized<steps::Deep, false, 1, 1, false>, steps::Deep::kBytes);
    ring("persistent", launch_specialized<steps::Deep, true, 1, 1, false>, steps::Deep::kBytes);
    ring("cluster", launch_specialized<steps::Deep, true, 2, 1, false>, steps::Deep::kBytes);
    ring("order", launch_specialized<steps::Deep, true, 2, steps::kBand, false>, steps::Deep::kBytes);
    ring("store", launch_specialized<steps::Wide, true, 2, steps::kBand, true>, steps::Wide::kBytes);
    ring("alone", launch_specialized<steps::Wide, true, 1, 2 * steps::kBand, true>, steps::Wide::kBytes);
#ifdef LAB_GEMM_GRID
    using Boxes = steps::Ring<256, 3, 4>;
    ring("band 4", launch_specialized<steps::Wide, true, 2, 4, true>, steps::Wide::kBytes);
    ring("band 16", launch_specialized<steps::Wide, true, 2, 16, true>, steps::Wide::kBytes);
    ring("3 stages, 4 boxes", launch_specialized<Boxes, true, 2, steps::kBand, true>, Boxes::kBytes);
    ring("cluster of 4", launch_specialized<steps::Wide, true, 4, 4, true>, steps::Wide::kBytes);
    ring("alone, band 8", launch_specialized<steps::Wide, true, 1, 8, true>, steps::Wide::kBytes);
    ring("alone, 3 stages", launch_specialized<Boxes, true, 1, 16, true>, Boxes::kBytes);
#endif
}

template <typename T>
int run(const Options& o, const std::vector<std::string>& names) {
    const bool whole = !among(names, o.variant), bf16 = sizeof(T) == 2;
    const Sides s{static_cast<int>(o.m),         static_cast<int>(o.n),         static_cast<int>(o.k),
                  static_cast<int>(o.k + o.pad), static_cast<int>(o.n + o.pad), static_cast<int>(o.n + o.pad)};
    const auto size = [&](long long rows, int ld) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(ld) + static_cast<std::size_t>(o.offset); };
    const double operations = 2.0 * s.m * s.n * s.k;
    // Rows to be compared: all of a small product, of a large one as many as a hundredth of a second takes, spread over all tiles.
    const int count = static_cast<int>(std::min<double>(s.m, std::max(128.0, 1e9 / (static_cast<double>(s.n) * s.k))));
    const std::size_t bytes = (size(s.m, s.lda) + size(s.k, s.ldb) + size(s.m, s.ldc)) * sizeof(T) + static_cast<std::size_t>(count) * o.n * 8;
    const cudaDeviceProp gpu = lab::open_device(steps::naive, bytes + (std::size_t{1} << 29));
    const lab::DeviceArray<T> a(size(s.m, s.lda)), b(size(s.k, s.ldb)), c(size(s.m, s.ldc));
    std::uint64_t seed = static_cast<std::uint64_t>(o.seed);
    for (const auto* matrix : {&a, &b}) {
        fill<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(matrix->get(), matrix->count(), seed++);
        LAB_LAUNCHED();
    }
    const bool special = o.values == "special";
    if (special) {
        spoil<<<1, 1>>>(a.get() + o.offset, s.m, s.k, s.lda);
        spoil<<<1, 1>>>(b.get() + o.offset, s.k, s.n, s.ldb);
        LAB_LAUNCHED();
    }
    const Work<T> work{a.get() + o.offset, b.get() + o.offset, c.get() + o.offset, s, gpu.multiProcessorCount};
    std::vector<int> chosen;
    for (int i = 0; i < count; ++i) {
        const long long from = static_cast<long long>(i) * s.m / count, to = (static_cast<long long>(i) + 1) * s.m / count;
        chosen.push_back(static_cast<int>(from + static_cast<long long>(lab::mixed(seed, static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(to - from))));
    }
    const lab::DeviceArray<int> rows(chosen.size());
    LAB_CUDA(cudaMemcpy(rows.get(), chosen.data(), chosen.size() * sizeof(int), cudaMemcpyHostToDevice));
    const lab::DeviceArray<double> expected(chosen.size() * static_cast<std::size_t>(s.n));
    reference<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(work.a, work.b, rows.get(), count, s, expected.get());
    LAB_LAUNCHED();

    const bool starts = steps::on_words(work.a, s.lda) && steps::on_words(work.b, s.ldb) && steps::on_words(work.c, s.ldc);
    std::vector<lab::Rung> all;
    const lab::Cublas cublas;
    if (cublas.found()) {
        std::printf("cuBLAS %s\n", cublas.version().c_str());
        all.push_back({"cublas", lab::Rung::kLibrary, 0, [&] { cublas.product(work.a, work.b, work.c, s.m, s.n, s.k, s.lda, s.ldb, s.ldc); }});
    } else {
        std::printf("no cuBLAS here (libcublas.so.13 or .12): steps stand alone\n");
    }
    ladder(work, [&](const char* name, Needs needs, const Make& make) {
        if (!whole && o.variant != name) return;
        const std::string why = steps::why_not(needs, 10 * gpu.major + gpu.minor, gpu.sharedMemPerBlockOptin, starts);
        if (why.empty()) all.push_back({name, lab::Rung::kStep, 0, make()});
        else if (whole) std::printf("without %s: %s\n", name, why.c_str());
        else lab::fail("--variant %s: %s", name, why.c_str());
    });

    lab::Record record{"gemm", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("m", o.m).add("n", o.n).add("k", o.k).add("pad", o.pad).add("offset", o.offset).add("values", o.values);
    record.parameters.add("repetitions", o.repetitions).add("seed", o.seed);
    if (cublas.found()) record.parameters.add("cublas", cublas.version());
    const lab::DeviceArray<Found> found(1);
    const double allowed = bf16 ? 4e-3 : 1e-5, largest_allowed = (bf16 ? 0.04 : 1e-4) * std::sqrt(static_cast<double>(s.k));
    std::vector<lab::Rung> timed;
    std::vector<double> errors;
    const lab::Event begin, end;
    for (lab::Rung& rung : all) {
        c.poison();
        begin.record(nullptr);
        {
            const lab::Profiled once;
            rung.run();
        }
        end.record(nullptr);
        LAB_CUDA(cudaDeviceSynchronize());
        found.zero();
        compare<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(work.c, rows.get(), count, s, expected.get(), special, found.get());
        LAB_LAUNCHED();
        Found f;
        LAB_CUDA(cudaMemcpy(&f, found.get(), sizeof f, cudaMemcpyDeviceToHost));
        double largest;
        std::memcpy(&largest, &f.largest, sizeof largest);
        const double error = std::sqrt(f.squares > 0 ? f.differences / f.squares : f.differences);
        char detail[200];
        std::snprintf(detail, sizeof detail,
                      "error %.2e of the norm (allowed %.0e), the largest %.2e (allowed %.2e), %llu elements not written, %llu outside, %llu NaN or infinite and wrong",
                      error, allowed, largest, largest_allowed, f.unwritten, f.outside, f.unlike);
        record.check(rung.name, error <= allowed && largest <= largest_allowed && f.unwritten + f.outside + f.unlike == 0, detail);
        record.results.add(rung.name + "_error", error);
        const double us = lab::elapsed_us(begin, end);
        if (us > kSlowUs) rung.us.push_back(us);
        else timed.push_back(rung);
        errors.push_back(error);
    }
    const lab::ColdCache cold(gpu);
    {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(timed, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    std::printf("%s: %s, %d x %d x %d, rows %lld elements longer, a cold cache before each\n", gpu.name, bf16 ? "bf16" : "fp32", s.m, s.n, s.k, o.pad);
    std::printf("  %-22s %11s %11s %11s %9s %8s %10s\n", "", "median us", "quartile", "quartile", "TFLOP/s", "/ cuBLAS", "error");
    double library = 0;
    for (std::size_t i = 0, next = 0; i < all.size(); ++i) {
        if (all[i].us.empty()) all[i].us = timed[next++].us;
        const std::vector<double>& us = all[i].us;
        const double rate = operations / lab::median(us) / 1e6;
        if (all[i].kind == lab::Rung::kLibrary) library = rate;
        std::printf("  %-22s %11.1f %11.1f %11.1f %9.2f", all[i].name.c_str(), lab::median(us), lab::quantile(us, 0.25), lab::quantile(us, 0.75), rate);
        lab::add_spread(record.results, all[i].name, "us", us);
        record.results.add(all[i].name + "_tflop_per_s", rate);
        if (library > 0) {
            std::printf(" %8.4f", rate / library);
            record.results.add(all[i].name + "_over_cublas_ratio", rate / library);
        } else {
            std::printf(" %8s", "");
        }
        std::printf(" %10.2e\n", errors[i]);
    }
    return record.finish(o.json);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "gemm";
    const Options o = parse(argc, argv);
    return o.variant == "bf16" || among(kBf16, o.variant) ? run<Bf16>(o, kBf16) : run<float>(o, kFp32);
}
