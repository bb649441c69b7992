// A bilateral filter, optimized in rounds: flags in, a table of predictions and measurements and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// Each round has a hypothesis with a number that was written down before the round was first run: cycles that one of the four
// schedulers of an SM needs for one tap of 32 pixels (a warp). Times follow from it:
//     time = cycles · taps · pixels / 32 / (4 · SMs · clock)
// The numbers come from the machine code (instructions a tap: one is issued a cycle) and from what the units take of it:
// 16 special functions a cycle and SM are 8 cycles of a scheduler for a warp's 32 (CUDA Programming Guide, arithmetic
// instructions); fp64 at half rate, 2 cycles; a load that touches 32 lines, 32 cycles of the SM's L1, which are 128 of a
// scheduler's share. The least of all for one power of two a tap is therefore 8: the roof of rounds 3 to 6.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/args.hpp"
#include "../common/check.cuh"
#include "../common/device.cuh"
#include "../common/json.hpp"
#include "../common/nvtx.hpp"
#include "../common/oscillator.cuh"
#include "../common/profiled.hpp"
#include "../common/repeat.cuh"
#include "../common/timing.cuh"
#include "optimization_loop.cuh"

namespace {

namespace loop = lab::optimization_loop;

constexpr int kStripRows = 64;            // of round 7
constexpr double kTaps = loop::kTaps * loop::kTaps;
constexpr double kTolerance = 2e-5, kHalfTolerance = 1e-3;  // ‖out − ref‖ / ‖ref‖; round 6 rounds to half precision
constexpr std::size_t kSamples = 20000;

struct Round {
    const char* name;
    const char* change;       // what was done
    const char* hypothesis;   // why it should help, from the profile of the round before
    const char* counter;      // the metric of ncu that will confirm or refute it
    double cycles;            // predicted: a scheduler's cycles for a tap of a warp
    double tolerance;
};

const Round kRounds[] = {
    {"round0", "the formula, a thread a pixel, a warp down a column",
     "a warp's load touches 32 lines, 32 cycles of the L1 a tap: 128 of a scheduler's share",
     "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 128, kTolerance},
    {"round1", "a warp along a row",
     "1 or 2 lines a load instead of 32; what remains is the issue of 105 instructions a tap",
     "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 105, kTolerance},
    {"round2", "-0.5f for -0.5",
     "no instruction in fp64 and no conversion: 45 instructions a tap",
     "smsp__inst_executed_pipe_fp64.sum", 45, kTolerance},
    {"round3", "both weights as one power of two, loops unrolled, divisions out of them",
     "12.4 instructions a tap",
     "smsp__inst_executed.sum", 12.4, kTolerance},
    {"round4", "a tile with its border in shared memory: clamping once a pixel, not once a tap",
     "9.9 instructions a tap",
     "smsp__inst_executed.sum", 9.9, kTolerance},
    {"round5", "four pixels a thread: a value read once serves up to four of them",
     "7.5 instructions a tap, so that the special-function unit's 8 cycles (and the ends of the tiles) are what is left",
     "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", 8.2, kTolerance},
    {"round6", "two powers of two by one instruction, ex2.approx.f16x2",
     "half as many special-function instructions, 4 cycles a tap; the issue of 7.5 instructions a tap is left",
     "smsp__inst_executed_pipe_xu.sum", 7.5, kHalfTolerance},
    {"round7", "w(p, q) = w(q, p): each weight computed once, and handed over by a shuffle (from round 5)",
     "4.0 powers' cycles and 5.3 instructions a tap; strips overlap: 64 of 56 columns, 68 of 64 rows",
     "smsp__inst_executed_pipe_xu.sum", 6.4, kTolerance},
    {"round8", "strips of half as many rows: two waves of blocks instead of one and a bit",
     "places of blocks that finish early are filled again, so that the schedulers issue in 85 % of the cycles; 72 of 64 rows",
     "smsp__issue_active.avg.pct_of_peak_sustained_active", 8.0, kTolerance},
    {"round9", "the image scaled once, so that an exponent is one multiply-add",
     "4.8 instructions a tap instead of 5.3 in the same strips",
     "smsp__inst_executed.sum", 7.3, kTolerance},
};
constexpr int kRoundCount = sizeof kRounds / sizeof *kRounds;

struct Options {
    std::string variant = "all", json;
    long long height = 4096, width = 4096, strip_rows = 32, repetitions = 15, warmup = 3, seed = 1;
    double sigma = 0.2;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants;
    for (const Round& round : kRounds) variants.emplace_back(round.name);
    variants.emplace_back("all");
    lab::Args args("Times the rounds of optimizing a bilateral filter of 9 x 9 pixels, each beside what was predicted for it.");
    args.choice("--variant", &o.variant, variants, "one round, or all of them");
    args.integer("--height", &o.height, 1, 65536, "rows of the image");
    args.integer("--width", &o.width, 1, 65536, "columns of the image");
    args.real("--sigma", &o.sigma, 0.01, 10, "standard deviation of the weight for likeness");
    args.integer("--strip-rows", &o.strip_rows, 1, 65536, "rows of a strip in rounds 8 and 9");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured launches");
    args.integer("--warmup", &o.warmup, 1, 1000, "launches before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random image");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

unsigned blocks(int count, int each) { return static_cast<unsigned>((count + each - 1) / each); }

void launch(int round, const float* in, float* out, int height, int width, float sigma, int strip_rows) {
    if (round == 7) strip_rows = kStripRows;
    const dim3 flat(32, 8), strips(32, loop::kStripWarps);
    const dim3 along(blocks(width, 32), blocks(height, 8)), down(blocks(width, 8), blocks(height, 32));
    const dim3 columns(blocks(width, loop::kColumns), blocks(height, loop::kEach * loop::kRows));
    const dim3 strip_grid(blocks(width, loop::kStripOut * loop::kStripWarps), blocks(height, strip_rows));
    switch (round) {
        case 0: loop::round0<<<down, flat>>>(in, out, height, width, sigma); break;
        case 1: loop::round1<<<along, flat>>>(in, out, height, width, sigma); break;
        case 2: loop::round2<<<along, flat>>>(in, out, height, width, sigma); break;
        case 3: loop::round3<<<along, flat>>>(in, out, height, width, sigma); break;
        case 4: loop::round4<<<along, flat>>>(in, out, height, width, sigma); break;
        case 5: loop::round5<<<columns, flat>>>(in, out, height, width, sigma); break;
        case 6: loop::round6<<<columns, flat>>>(in, out, height, width, sigma); break;
        case 7: case 8: loop::round7<<<strip_grid, strips>>>(in, out, height, width, sigma, strip_rows); break;
        default: loop::round9<<<strip_grid, strips>>>(in, out, height, width, sigma, strip_rows); break;
    }
}

double reference(const std::vector<float>& image, int height, int width, double sigma, int row, int column) {
    const auto at = [&](int y, int x) {
        y = std::min(std::max(y, 0), height - 1);
        x = std::min(std::max(x, 0), width - 1);
        return static_cast<double>(image[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)]);
    };
    const double center = at(row, column);
    double sum = 0, weights = 0;
    for (int dy = -loop::kRadius; dy <= loop::kRadius; ++dy) {
        for (int dx = -loop::kRadius; dx <= loop::kRadius; ++dx) {
            const double value = at(row + dy, column + dx), difference = value - center;
            const double weight = std::exp(-(dy * dy + dx * dx) / 8.0 - difference * difference / (2 * sigma * sigma));
            sum += weight * value;
            weights += weight;
        }
    }
    return sum / weights;
}

// Random pixels, and those along the image's border and around the seams of tiles and strips.
std::vector<std::size_t> places(int height, int width, std::uint64_t seed) {
    std::vector<std::size_t> out;
    const auto add = [&](long long y, long long x) {
        if (y >= 0 && x >= 0 && y < height && x < width) out.push_back(static_cast<std::size_t>(y * width + x));
    };
    lab::Random random(seed ^ 0x5eedULL);
    const auto any = [&](int below) { return static_cast<long long>(random.bits() % static_cast<std::uint64_t>(below)); };
    for (const int x : {0, 1, 3, 4, 5, 31, 32, 55, 56, 57, 63, 64, 111, 112, width - 33, width - 9, width - 5, width - 4, width - 1}) {
        for (int i = 0; i < 50; ++i) add(any(height), x);
        for (const int y : {0, 3, 4, height - 5, height - 4, height - 1}) add(y, x);
    }
    for (const int y : {0, 1, 3, 4, 5, 7, 8, 31, 32, 63, 64, 65, height - 33, height - 5, height - 1}) {
        for (int i = 0; i < 50; ++i) add(y, any(width));
    }
    while (out.size() < kSamples) add(any(height), any(width));
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "optimization_loop";
    const Options o = parse(argc, argv);
    const int height = static_cast<int>(o.height), width = static_cast<int>(o.width);
    const std::size_t count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width), bytes = count * sizeof(float);
    cudaDeviceProp gpu = lab::open_device(loop::round0, 2 * bytes);
    const float sigma = static_cast<float>(o.sigma);

    // A slope with noise: likenesses of every size.
    std::vector<float> image(count), result(count);
    lab::Random random(static_cast<std::uint64_t>(o.seed));
    for (std::size_t i = 0; i < count; ++i) {
        const float slope = static_cast<float>(i % static_cast<std::size_t>(width)) / static_cast<float>(width);
        image[i] = slope + 0.2f * (random.uniform() + random.uniform() + random.uniform());
    }
    float *in = nullptr, *out = nullptr;
    LAB_CUDA(cudaMalloc(&in, bytes));
    LAB_CUDA(cudaMalloc(&out, bytes));
    LAB_CUDA(cudaMemcpy(in, image.data(), bytes, cudaMemcpyHostToDevice));
    const std::vector<std::size_t> samples = places(height, width, static_cast<std::uint64_t>(o.seed));
    std::vector<double> expected;
    for (const std::size_t i : samples) {
        const int row = static_cast<int>(i / static_cast<std::size_t>(width)), column = static_cast<int>(i % static_cast<std::size_t>(width));
        expected.push_back(reference(image, height, width, static_cast<double>(sigma), row, column));
    }

    lab::Record record{"optimization_loop", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("height", o.height).add("width", o.width).add("sigma", o.sigma).add("repetitions", o.repetitions);
    record.parameters.add("warmup", o.warmup).add("seed", o.seed).add("taps", static_cast<int>(kTaps)).add("strip_rows", o.strip_rows);
    const lab::ClockMeter clock;
    const lab::Flush flush(static_cast<std::size_t>(gpu.l2CacheSize));
    int max_khz = 0;
    LAB_CUDA(cudaDeviceGetAttribute(&max_khz, cudaDevAttrClockRate, 0));
    std::printf("%s: bilateral filter, %d x %d pixels, 9 x 9 taps, sigma %g\n", gpu.name, height, width, o.sigma);
    std::printf("  round    predicted us   measured us  (quartiles)          step predicted  measured   cycles a tap  Gpixel/s   error\n");
    lab::JsonObject rounds;
    double before = 0;  // measured time of the round that this one goes on from
    lab::warm_up([&] { launch(5, in, out, height, width, sigma, static_cast<int>(o.strip_rows)); });
    for (int r = 0; r < kRoundCount; ++r) {
        const Round& round = kRounds[r];
        if (o.variant != "all" && o.variant != round.name) continue;
        LAB_CUDA(cudaMemset(out, 0xff, bytes));
        double mhz = NAN;
        const auto run = [&] { launch(r, in, out, height, width, sigma, static_cast<int>(o.strip_rows)); };
        lab::launch_times_us(1, static_cast<int>(o.warmup) - 1, run, [] {});
        std::vector<double> times;
        LAB_CUDA(cudaDeviceSynchronize());
        {
            const lab::Range measured(lab::kMeasured);
            const lab::Range range(round.name);
            times = lab::launch_times_us(static_cast<int>(o.repetitions), 0, run, flush);
            for (int i = 0; i < 3; ++i) run();
            mhz = clock.sm_mhz();
            LAB_CUDA(cudaDeviceSynchronize());
            const lab::Profiled once;
            run();
        }
        LAB_CUDA(cudaMemcpy(result.data(), out, bytes, cudaMemcpyDeviceToHost));
        const auto unwritten = std::count_if(result.begin(), result.end(), [](float x) { return std::isnan(x); });
        double error = 0, size = 0;
        for (std::size_t i = 0; i < samples.size(); ++i) {
            const double difference = static_cast<double>(result[samples[i]]) - expected[i];
            error += difference * difference;
            size += expected[i] * expected[i];
        }
        error = std::sqrt(error / size);
        char detail[160];
        std::snprintf(detail, sizeof detail, "%lld pixels unwritten; %zu samples: relative error %.2e (allowed %.0e)", static_cast<long long>(unwritten),
                      samples.size(), error, round.tolerance);
        record.check(std::string(round.name) + "_matches_host", unwritten == 0 && error <= round.tolerance, detail);

        // Cycles at the highest clock: what the prediction is made for.
        const double schedulers_mhz = 4.0 * gpu.multiProcessorCount * max_khz / 1e3, warp_taps = kTaps * static_cast<double>(count) / 32;
        const double predicted = round.cycles * warp_taps / schedulers_mhz, time = lab::median(times);
        const double cycles = time * schedulers_mhz / warp_taps;
        lab::JsonObject entry;
        entry.add("name", round.name).add("change", round.change).add("hypothesis", round.hypothesis).add("counter", round.counter);
        lab::add_spread(entry, "time", "us", times);
        entry.add("predicted_us", predicted).add("predicted_cycles_per_tap", round.cycles).add("cycles_per_tap", cycles);
        entry.add("gpixel_per_s", static_cast<double>(count) / time / 1e3).add("relative_error", error).add("sm_clock_mhz", mhz);
        entry.add("copy_gb_per_s", 2.0 * static_cast<double>(bytes) / time / 1e3);
        if (before > 0) entry.add("predicted_speedup", before / predicted).add("measured_speedup", before / time);
        rounds.add(round.name, entry);
        std::printf("  %-8s %12.1f  %12.1f  (%.1f ... %.1f)", round.name, predicted, time, lab::quantile(times, 0.25), lab::quantile(times, 0.75));
        before > 0 ? std::printf("  %14.2f  %8.2f", before / predicted, before / time) : std::printf("  %14s  %8s", "", "");
        std::printf("  %12.2f  %8.2f   %.1e\n", cycles, static_cast<double>(count) / time / 1e3, error);
        if (r != 6) before = time;  // round 7 goes on from round 5
    }
    record.results.add("rounds", rounds).add("roof_cycles_per_tap", 8.0);
    record.results.add("roof_us", 8.0 * kTaps * static_cast<double>(count) / 32 / (4.0 * gpu.multiProcessorCount * max_khz / 1e3));
    LAB_CUDA(cudaFree(in));
    LAB_CUDA(cudaFree(out));
    return record.finish(o.json);
}
