// The roofline, measured: the roofs of memory and arithmetic, and kernels of any arithmetic intensity under them.
// SPDX-License-Identifier: Apache-2.0
//
// Flags in; a table and a JSON record out, with `ceilings` and `points` as lists. Beside each roof stands what is published for
// the card, and what the machine's figures give at the SM clock the kernel really ran at: published rates assume one clock, a
// card under load has another. That clock is read inside the kernels (clock64 against globaltimer), and by NVML.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
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
#include "roofline_kernels.cuh"

namespace {

namespace roofs = lab::roofline_kernels;

constexpr int kThreads = 256;
constexpr float kFactor = 1.0f - 1.0f / 16384, kSummand = 1.0f / 1024;          // fp64, fp32: x → 16, an e-th part left after 16,384 steps
constexpr float kHalfFactor = 1.0f - 1.0f / 1024, kHalfSummand = 1.0f / 64;     // what half precision can hold
constexpr double kTolerance = 1e-4, kTensorTolerance = 1e-2;                    // tensor cores do not round each of their additions

struct Options {
    std::string variant = "all", json;
    long long mebibytes = 1024, l2_mebibytes = 16, repetitions = 11, warmup = 3, seed = 1;
    double work = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    lab::Args args("Measures the roofs of the roofline and kernels of different arithmetic intensity under them.");
    args.choice("--variant", &o.variant, {"all", "ceilings", "fp64", "fp32", "fp16", "tensor"}, "the roofs, the kernels of one type, or all");
    args.integer("--mebibytes", &o.mebibytes, 1, 16384, "bytes in, and as many out, of the kernels that go through DRAM, in MiB");
    args.integer("--l2-mebibytes", &o.l2_mebibytes, 1, 1024, "what is read over and over from the L2, in MiB");
    args.real("--work", &o.work, 0.001, 100, "length of the loops of the other roofs, as a multiple of the usual");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured launches");
    args.integer("--warmup", &o.warmup, 1, 1000, "launches before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random inputs");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

// ---- numbers of 16 bits on the host -----------------------------------------------------------------------------------------

// The nearest number with `bits` bits of mantissa (10: half, 7: bfloat16), ties to even; for the sizes that occur here.
double rounded(double x, int bits) {
    if (x == 0) return 0;
    int exponent;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, exponent - 1 - bits);
    return std::nearbyint(x / unit) * unit;
}
std::uint16_t half_bits(double x) {  // of a normal half number
    if (x == 0) return 0;
    int exponent;
    const double mantissa = std::frexp(std::fabs(x), &exponent);
    return static_cast<std::uint16_t>((x < 0 ? 0x8000 : 0) | ((exponent + 14) << 10) | (static_cast<int>(std::ldexp(mantissa, 11)) - 1024));
}
double half_value(std::uint16_t bits) {
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return bits & 0x8000 ? -size : size;
}
std::uint16_t bfloat_bits(double x) {
    const float value = static_cast<float>(rounded(x, 7));
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return static_cast<std::uint16_t>(word >> 16);
}
double bfloat_value(std::uint16_t bits) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return static_cast<double>(value);
}

// ---- inputs -------------------------------------------------------------------------------------------------------------------

enum Type { kFp64, kFp32, kFp16, kBf16 };
const char* const kTypeNames[] = {"fp64", "fp32", "fp16", "bf16 tensor"};
constexpr std::size_t kItemBytes[] = {8, 4, 2, 2};
constexpr std::size_t kBlockBytes = 1 << 20;  // random numbers; a large input repeats them

// Random normal numbers of a type, kBlockBytes of them.
struct Block {
    Type type;
    std::vector<unsigned char> bytes = std::vector<unsigned char>(kBlockBytes);
    Block(Type t, std::uint64_t seed) : type(t) {
        lab::Random random(seed + static_cast<std::uint64_t>(t));
        const auto uniform = [&] { return (static_cast<double>(random.bits() >> 11) + 0.5) * 0x1p-53; };
        for (std::size_t i = 0; i < kBlockBytes / kItemBytes[type]; ++i) {
            const double x = std::sqrt(-2 * std::log(uniform())) * std::cos(2 * 3.14159265358979323846 * uniform());
            unsigned char* to = &bytes[i * kItemBytes[type]];
            const float single = static_cast<float>(x);
            const std::uint16_t half = half_bits(std::fabs(x) < 1e-4 ? 1e-4 : rounded(x, 10)), bfloat = bfloat_bits(x);
            if (type == kFp64) std::memcpy(to, &x, 8);
            if (type == kFp32) std::memcpy(to, &single, 4);
            if (type == kFp16) std::memcpy(to, &half, 2);
            if (type == kBf16) std::memcpy(to, &bfloat, 2);
        }
    }
    double operator[](std::size_t i) const { return value(bytes.data(), i % (kBlockBytes / kItemBytes[type])); }
    double value(const unsigned char* memory, std::size_t i) const {
        double d;
        float f;
        std::uint16_t h;
        const unsigned char* from = memory + i * kItemBytes[type];
        switch (type) {
            case kFp64: std::memcpy(&d, from, 8); return d;
            case kFp32: std::memcpy(&f, from, 4); return static_cast<double>(f);
            case kFp16: std::memcpy(&h, from, 2); return half_value(h);
            default: std::memcpy(&h, from, 2); return bfloat_value(h);
        }
    }
};

void fill(void* target, std::size_t bytes, const Block& block) {
    std::size_t done = std::min(bytes, kBlockBytes);
    LAB_CUDA(cudaMemcpy(target, block.bytes.data(), done, cudaMemcpyHostToDevice));
    for (; done < bytes; done += std::min(done, bytes - done)) {
        LAB_CUDA(cudaMemcpy(static_cast<char*>(target) + done, target, std::min(done, bytes - done), cudaMemcpyDeviceToDevice));
    }
}

struct Bench {
    Options options;
    cudaDeviceProp gpu{};
    std::size_t bytes = 0;  // of each of the two
    void *in = nullptr, *out = nullptr;
    long long* times = nullptr;  // of the stopwatches
    lab::ClockMeter clock;
    double nvml_mhz = NAN;  // during the last measurement
    double max_mhz = 0;
    int scaled(int rounds, int multiple) const { return std::max(1, static_cast<int>(std::lround(rounds * options.work / multiple))) * multiple; }
    // As many blocks as the GPU holds of a kernel at a time: each thread then has its share of the turns, and none waits for a place.
    template <typename Kernel>
    unsigned filling(Kernel kernel) const {
        int blocks = 0;
        LAB_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, 0));
        return grid(std::max(1, blocks));
    }
    unsigned grid(int blocks_per_sm) const { return static_cast<unsigned>(blocks_per_sm * gpu.multiProcessorCount); }

    // What goes through DRAM is many times the L2, and each launch finds the cache as the one before left it, which costs as much
    // as it leaves behind; a flush would leave twice the cache to write back, on the clock.
    template <typename Launch>
    std::vector<double> measure(const char* name, const Launch& launch) {
        lab::launch_times_us(static_cast<int>(options.warmup), 0, launch, [] {});
        LAB_CUDA(cudaDeviceSynchronize());
        {
            const lab::Profiled once;
            launch();
        }
        const lab::Range measured(lab::kMeasured);
        const lab::Range range(name);
        const std::vector<double> us = lab::launch_times_us(static_cast<int>(options.repetitions), 0, launch, [] {});
        for (int i = 0; i < 3; ++i) launch();
        nvml_mhz = clock.sm_mhz();
        LAB_CUDA(cudaDeviceSynchronize());
        return us;
    }

    template <typename T>
    std::vector<T> back(std::size_t count) const {
        std::vector<T> host(count);
        LAB_CUDA(cudaMemcpy(host.data(), out, count * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }

    // The SM clock that the last kernel's blocks saw: median of cycles over time.
    double seen_mhz(unsigned blocks) const {
        std::vector<long long> host(2 * static_cast<std::size_t>(blocks));
        LAB_CUDA(cudaMemcpy(host.data(), times, host.size() * sizeof(long long), cudaMemcpyDeviceToHost));
        std::vector<double> mhz;
        for (std::size_t i = 0; i < host.size(); i += 2) mhz.push_back(1e3 * static_cast<double>(host[i]) / static_cast<double>(std::max(1LL, host[i + 1])));
        return lab::median(mhz);
    }
};

// ---- the machine's figures ----------------------------------------------------------------------------------------------------

// What an SM does in a cycle, FLOP; bytes for the memories inside it. CUDA Programming Guide, «Throughput of native arithmetic
// instructions» (a multiply-add is two); tensor cores: NVIDIA's white papers of the architectures. mma_sync: what of the tensor
// cores' rate the instructions of one warp can reach; on Hopper two thirds, says ncu (sm__ops_path_tensor_op_hmma_….avg.peak_sustained
// against …_op_hgmma_…). 0: not in this table.
struct PerCycle {
    double fp64, fp32, fp16, bf16_tensor, mma_sync, fp64_tensor, shared_bytes;
};
PerCycle per_cycle(const cudaDeviceProp& gpu) {
    switch (10 * gpu.major + gpu.minor) {
        case 75: return {4, 128, 256, 0, 0, 0, 64};
        case 80: return {64, 128, 512, 2048, 2048, 128, 128};
        case 86: return {4, 256, 256, 512, 512, 0, 128};
        case 89: return {4, 256, 256, 1024, 1024, 0, 128};
        case 90: return {128, 256, 512, 4096, 4096 * 2 / 3.0, 256, 128};
        default: return {0, 0, 0, 0, 0, 0, 0};
    }
}

// Published for the card: datasheet of the H200 (dense rates) and, for half precision without tensor cores, the white paper of the
// H100, which has the same SMs. GB/s and TFLOP/s; NaN where nothing is published or the card is another one.
double published(const cudaDeviceProp& gpu, const std::string& name) {
    const std::string card = gpu.name;
    const bool h200 = card.find("H200") != std::string::npos;
    if (!h200) return NAN;
    if (name.rfind("dram", 0) == 0) return 4800;
    if (name == "fma_fp64") return 34;
    if (name == "fma_fp32") return 67;
    if (name == "fma_fp16") return 133.8;
    if (name == "mma_bf16" || name == "wgmma_bf16") return 989.4;
    if (name == "mma_fp64") return 67;
    return NAN;
}

struct Roofs {
    lab::JsonObject entries;
    double dram = 0, fp64 = 0, fp32 = 0, fp16 = 0, tensor = 0;  // GB/s, TFLOP/s: what the points are held against
};

// One row of the table of roofs. amount: bytes or FLOP of a launch; figure: of an SM and cycle, 0 where there is none.
double add_roof(Bench& b, Roofs& roofs, const char* name, const char* level, bool bandwidth, const std::vector<double>& us, double amount, double figure,
                double mhz, const char* note) {
    const double scale = bandwidth ? 1e-3 : 1e-6, value = amount / lab::median(us) * scale;  // GB/s or TFLOP/s
    const double sheet = published(b.gpu, name), at_clock = figure > 0 ? figure * b.gpu.multiProcessorCount * mhz * scale : NAN;
    const double at_boost = figure > 0 ? figure * b.gpu.multiProcessorCount * b.max_mhz * scale : NAN;
    lab::JsonObject entry;
    entry.add("name", name).add("kind", bandwidth ? "bandwidth" : "compute").add("level", level).add("unit", bandwidth ? "GB/s" : "TFLOP/s");
    entry.add("value", value).add("spread", std::vector<double>{amount / lab::quantile(us, 0.75) * scale, amount / lab::quantile(us, 0.25) * scale});
    entry.add("published", sheet).add("source", std::isnan(sheet) ? "none" : "H200 datasheet (fp16 without tensor cores: H100 white paper)");
    entry.add("at_max_clock", at_boost).add("at_measured_clock", at_clock).add("sm_clock_mhz", mhz).add("nvml_sm_clock_mhz", b.nvml_mhz);
    entry.add("of_published", value / sheet).add("of_measured_clock", value / at_clock).add("note", note);
    lab::add_spread(entry, "time", "us", us);
    roofs.entries.add(name, entry);
    const auto show = [](double x, const char* format) {
        if (std::isnan(x)) std::printf(" %10s", "-");
        else std::printf(format, x);
    };
    std::printf("  %-12s %10.1f %-7s (%.1f ... %.1f)", name, value, bandwidth ? "GB/s" : "TFLOP/s", amount / lab::quantile(us, 0.75) * scale,
                amount / lab::quantile(us, 0.25) * scale);
    show(sheet, " %10.1f");
    show(100 * value / sheet, " %9.1f%%");
    show(mhz, " %10.0f");
    show(at_clock, " %10.1f");
    show(100 * value / at_clock, " %9.1f%%");
    std::printf("\n");
    return value;
}

void check_close(lab::Record& record, const std::string& name, double error, double size, double tolerance, std::size_t samples) {
    const double relative = std::sqrt(error / size);
    char detail[120];
    std::snprintf(detail, sizeof detail, "%zu samples: relative error %.2e (allowed %.0e)", samples, relative, tolerance);
    record.check(name, relative <= tolerance, detail);
}

void check_equal(lab::Record& record, const std::string& name, std::size_t wrong, std::size_t samples) {
    record.check(name, wrong == 0, std::to_string(wrong) + " of " + std::to_string(samples) + " results differ from the host's");
}

// ---- roofs of the memories ------------------------------------------------------------------------------------------------------

unsigned folded(const Block& block, std::size_t vector) {
    unsigned words[4];
    std::memcpy(words, &block.bytes[vector * 16 % kBlockBytes], 16);
    return (words[0] ^ words[1]) ^ (words[2] ^ words[3]);
}

void memory_roofs(Bench& b, Roofs& roofs, lab::Record& record) {
    const Block block(kFp32, static_cast<std::uint64_t>(b.options.seed));
    const double bytes = static_cast<double>(b.bytes);
    const auto* in = static_cast<const uint4*>(b.in);
    auto* words = static_cast<unsigned*>(b.out);
    fill(b.in, b.bytes, block);

    constexpr int kCopyThreads = 1024, kReadThreads = 512;
    const int units = static_cast<int>(b.bytes / 64);
    LAB_CUDA(cudaMemset(b.out, 0xff, b.bytes));
    auto us = b.measure("dram_memcpy", [&] { LAB_CUDA(cudaMemcpyAsync(b.out, b.in, b.bytes, cudaMemcpyDeviceToDevice, nullptr)); });
    roofs.dram = add_roof(b, roofs, "dram_memcpy", "dram", true, us, 2 * bytes, 0, b.nvml_mhz, "cudaMemcpyAsync, read and written");
    LAB_CUDA(cudaMemset(b.out, 0xff, b.bytes));
    us = b.measure("dram_copy", [&] { roofs::copy<<<static_cast<unsigned>(units / kCopyThreads), kCopyThreads>>>(in, static_cast<uint4*>(b.out), units); });
    roofs.dram = std::max(roofs.dram, add_roof(b, roofs, "dram_copy", "dram", true, us, 2 * bytes, 0, b.nvml_mhz, "a kernel of 16-byte loads and stores"));
    {
        const std::vector<unsigned> got = b.back<unsigned>(b.bytes / 4);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < got.size(); i += kBlockBytes / 4) {
            wrong += std::memcmp(&got[i], block.bytes.data(), std::min(kBlockBytes, 4 * (got.size() - i))) != 0;
        }
        check_equal(record, "dram_copy_matches_host", wrong, (got.size() + kBlockBytes / 4 - 1) / (kBlockBytes / 4));
    }

    // Reads: each thread's exclusive or, worked out on the host for some threads.
    const auto check_read = [&](const char* name, unsigned blocks, int threads, const std::function<unsigned(std::size_t)>& expected) {
        const std::vector<unsigned> got = b.back<unsigned>(blocks * static_cast<std::size_t>(threads));
        lab::Random random(static_cast<std::uint64_t>(b.options.seed) ^ 0x5eedULL);
        std::size_t wrong = 0;
        for (int s = 0; s < 64; ++s) {
            const std::size_t i = s == 0 ? got.size() - 1 : random.bits() % got.size();
            wrong += got[i] != expected(i) ? 1 : 0;
        }
        check_equal(record, std::string(name) + "_matches_host", wrong, 64);
    };
    const auto read = [&](const char* name, const char* level, int vectors, int passes, const char* note) {
        const unsigned blocks = b.grid(4);
        const auto times = b.measure(name, [&] { roofs::read<<<blocks, kReadThreads>>>(in, words, vectors, passes); });
        add_roof(b, roofs, name, level, true, times, 16.0 * vectors * passes, 0, b.nvml_mhz, note);
        check_read(name, blocks, kReadThreads, [&, vectors, passes](std::size_t thread) {
            const std::size_t step = blocks * static_cast<std::size_t>(kReadThreads);
            unsigned result = 0;
            for (int pass = 0; pass < passes; ++pass) {
                for (std::size_t i = thread; i < static_cast<std::size_t>(vectors); i += step) result ^= folded(block, i) + static_cast<unsigned>(pass);
            }
            return result;
        });
    };
    read("dram_read", "dram", static_cast<int>(b.bytes / 16), 1, "read only");
    const std::size_t l2_bytes = std::min(static_cast<std::size_t>(b.options.l2_mebibytes) << 20, b.bytes);
    read("l2_read", "l2", static_cast<int>(l2_bytes / 16), b.scaled(128, 1), "read only, the L1 passed by");

    const int passes = b.scaled(16384, 8), near = roofs::kNear;
    const unsigned near_blocks = b.grid(2);
    const double near_bytes = static_cast<double>(near_blocks) * near * 16 * passes, figure = per_cycle(b.gpu).shared_bytes;
    const auto expected = [&, passes, near](std::size_t i) {
        const std::size_t thread = i % static_cast<std::size_t>(near);
        unsigned result = 0;
        for (int pass = 0; pass < passes; ++pass) {
            result ^= folded(block, (thread + 32 * static_cast<std::size_t>(pass)) % static_cast<std::size_t>(near)) + static_cast<unsigned>(pass);
        }
        return result;
    };
    us = b.measure("l1_read", [&] { roofs::read_l1<<<near_blocks, near>>>(in, words, passes); });
    add_roof(b, roofs, "l1_read", "l1", true, us, near_bytes, figure, b.nvml_mhz, "read only, 16 KiB an SM");
    check_read("l1_read", near_blocks, near, expected);
    us = b.measure("shared_read", [&] { roofs::read_shared<<<near_blocks, near>>>(in, words, passes); });
    add_roof(b, roofs, "shared_read", "shared", true, us, near_bytes, figure, b.nvml_mhz, "read only, 16-byte loads");
    check_read("shared_read", near_blocks, near, expected);
}

// ---- roofs of the arithmetic ------------------------------------------------------------------------------------------------------

// n steps of x ← a·x + b in the type's own rounding (16 bits) or in closed form.
double stepped(Type type, double x, int steps, double a, double b) {
    if (type == kFp16) {
        for (int k = 0; k < steps; ++k) x = rounded(x * a + b, 10);
        return x;
    }
    const double fixed = b / (1 - a);
    return fixed + std::pow(a, steps) * (x - fixed);
}

template <typename T>
double fma_roof(Bench& b, Roofs& roofs, lab::Record& record, Type type, const char* name, int rounds, double figure) {
    using Value = typename T::Value;
    const unsigned blocks = b.grid(8);
    const float a = type == kFp16 ? kHalfFactor : kFactor, s = type == kFp16 ? kHalfSummand : kSummand;
    const Block block(type, static_cast<std::uint64_t>(b.options.seed));
    const std::size_t count = blocks * static_cast<std::size_t>(kThreads);
    fill(b.in, count * sizeof(Value), block);
    LAB_CUDA(cudaMemset(b.out, 0xff, count * sizeof(Value)));
    const auto us = b.measure(name, [&] { roofs::fma_rate<T><<<blocks, kThreads>>>(static_cast<const Value*>(b.in), static_cast<Value*>(b.out), b.times, rounds, a, s); });
    const double flop = static_cast<double>(count) * roofs::kFmaChains * rounds * T::kFlops;
    const double value = add_roof(b, roofs, name, kTypeNames[type], false, us, flop, figure, b.seen_mhz(blocks), "multiply-adds");
    // Half precision: a word holds two numbers; the first one is looked at.
    const std::vector<Value> got = b.back<Value>(count);
    const std::size_t step = sizeof(Value) / kItemBytes[type];
    double error = 0, size = 0;
    constexpr std::size_t kLookedAt = 32;
    for (std::size_t k = 0; k < kLookedAt; ++k) {
        const std::size_t i = k * 104729 % count;
        double x = block[i * step], end[roofs::kFmaChains];
        for (int c = 0; c < roofs::kFmaChains; ++c) {
            if (c > 0) x = type == kFp16 ? rounded(x + static_cast<double>(s), 10) : x + static_cast<double>(s);
            end[c] = stepped(type, x, rounds, static_cast<double>(a), static_cast<double>(s));
        }
        for (int c = 1; c < roofs::kFmaChains; ++c) end[0] = type == kFp16 ? rounded(end[0] + end[c], 10) : end[0] + end[c];
        const double found = block.value(reinterpret_cast<const unsigned char*>(got.data()), i * step);
        error += (found - end[0]) * (found - end[0]);
        size += end[0] * end[0];
    }
    check_close(record, std::string(name) + "_matches_host", error, size, kTolerance, kLookedAt);
    return value;
}

// Element (row, k) of the tile A that a warp's fragments hold, lane by lane, four words of two bf16 each; (k, n) of a tile B of
// two words a lane (PTX ISA, fragments of mma.m16n8k16).
std::size_t a_index(int row, int k) {  // in bf16 numbers, from the warp's first
    const int lane = row % 8 * 4 + k % 8 / 2, word = row / 8 + k / 8 * 2;
    return static_cast<std::size_t>((lane * 4 + word) * 2 + k % 2);
}
std::size_t b_index(int k, int n) {
    const int lane = n * 4 + k % 8 / 2;
    return static_cast<std::size_t>((k / 8 * 32 + lane) * 2 + k % 2);
}

double mma_roof(Bench& b, Roofs& roofs, lab::Record& record) {
    const unsigned blocks = b.grid(4);
    const std::size_t threads = blocks * static_cast<std::size_t>(kThreads);
    const int rounds = b.scaled(4096, 2);
    const Block block(kBf16, static_cast<std::uint64_t>(b.options.seed));
    const std::size_t a_bytes = threads * 16;
    fill(b.in, a_bytes, block);
    auto* other = static_cast<unsigned*>(b.in) + a_bytes / 4;
    LAB_CUDA(cudaMemcpy(other, block.bytes.data(), roofs::kMmaTiles * 256, cudaMemcpyHostToDevice));
    LAB_CUDA(cudaMemset(b.out, 0xff, threads * 4 * roofs::kMmaTiles * 4));
    const auto us = b.measure("mma_bf16", [&] { roofs::mma_bf16<<<blocks, kThreads>>>(static_cast<const uint4*>(b.in), other, static_cast<float*>(b.out), b.times, rounds); });
    const double flop = 4096.0 * roofs::kMmaTiles * rounds * static_cast<double>(threads / 32);
    const double value = add_roof(b, roofs, "mma_bf16", "bf16 tensor", false, us, flop, per_cycle(b.gpu).mma_sync, b.seen_mhz(blocks), "mma.sync.m16n8k16");
    const std::vector<float> got = b.back<float>(threads * 4 * roofs::kMmaTiles);
    double error = 0, size = 0;
    constexpr std::size_t kLookedAt = 512;
    for (std::size_t s = 0; s < kLookedAt; ++s) {
        const std::size_t thread = s * 104729 % threads, lane = thread % 32, warp = thread / 32;
        const int tile = static_cast<int>(s) % roofs::kMmaTiles, c = static_cast<int>(s / 8) % 4;
        const int row = static_cast<int>(lane / 4) + c / 2 * 8, column = static_cast<int>(lane % 4) * 2 + c % 2;
        double expected = 0;
        for (int k = 0; k < 16; ++k) expected += block[warp * 256 + a_index(row, k)] * block[static_cast<std::size_t>(tile) * 128 + b_index(k, column)];
        expected *= rounds;
        const double found = static_cast<double>(got[thread + static_cast<std::size_t>(4 * tile + c) * threads]);
        error += (found - expected) * (found - expected);
        size += expected * expected;
    }
    check_close(record, "mma_bf16_matches_host", error, size, kTensorTolerance, kLookedAt);
    return value;
}

void mma_fp64_roof(Bench& b, Roofs& roofs, lab::Record& record) {
    const unsigned blocks = b.grid(2);
    const std::size_t threads = blocks * static_cast<std::size_t>(kThreads);
    const int rounds = b.scaled(2048, 1);
    const Block block(kFp64, static_cast<std::uint64_t>(b.options.seed));
    const std::size_t a_count = threads * 8;
    fill(b.in, a_count * 8, block);
    double* other = static_cast<double*>(b.in) + a_count;
    LAB_CUDA(cudaMemcpy(other, block.bytes.data(), roofs::kDmmaTiles * 4 * 32 * 8, cudaMemcpyHostToDevice));
    LAB_CUDA(cudaMemset(b.out, 0xff, threads * 4 * roofs::kDmmaTiles * 8));
    const auto us = b.measure("mma_fp64", [&] { roofs::mma_fp64<<<blocks, kThreads>>>(static_cast<const double*>(b.in), other, static_cast<double*>(b.out), b.times, rounds); });
    const double flop = 4096.0 * roofs::kDmmaTiles * rounds * static_cast<double>(threads / 32);
    add_roof(b, roofs, "mma_fp64", "fp64 tensor", false, us, flop, per_cycle(b.gpu).fp64_tensor, b.seen_mhz(blocks), "mma.sync.m16n8k16");
    const std::vector<double> got = b.back<double>(threads * 4 * roofs::kDmmaTiles);
    double error = 0, size = 0;
    constexpr std::size_t kLookedAt = 512;
    for (std::size_t s = 0; s < kLookedAt; ++s) {
        const std::size_t thread = s * 104729 % threads, lane = thread % 32, warp = thread / 32;
        const std::size_t tile = s % roofs::kDmmaTiles, c = s / 4 % 4;
        const std::size_t row = lane / 4 + c / 2 * 8, column = lane % 4 * 2 + c % 2;
        double expected = 0;
        for (std::size_t k = 0; k < 16; ++k) {
            const std::size_t a_lane = row % 8 * 4 + k % 4, a_value = row / 8 + k / 4 * 2, b_lane = column * 4 + k % 4;
            expected += block[warp * 32 + a_lane + a_value * threads] * block[(tile * 4 + k / 4) * 32 + b_lane];
        }
        expected *= rounds;
        const double found = got[thread + (4 * tile + c) * threads];
        error += (found - expected) * (found - expected);
        size += expected * expected;
    }
    check_close(record, "mma_fp64_matches_host", error, size, kTolerance, kLookedAt);
}

double wgmma_roof(Bench& b, Roofs& roofs, lab::Record& record) {
    const unsigned blocks = b.grid(1);
    const int rounds = b.scaled(16384, 4);
    const Block block(kBf16, static_cast<std::uint64_t>(b.options.seed));
    const std::size_t a_words = roofs::kWgGroups * roofs::kWgM * 8, tile = roofs::kWgM * roofs::kWgN, tiles = blocks * static_cast<std::size_t>(roofs::kWgGroups);
    fill(b.in, kBlockBytes, block);
    const auto* a = static_cast<const unsigned*>(b.in);
    LAB_CUDA(cudaMemset(b.out, 0xff, tiles * tile * 4));
    const auto us = b.measure("wgmma_bf16", [&] { roofs::wgmma_bf16<<<blocks, 128 * roofs::kWgGroups>>>(a, a + a_words, static_cast<float*>(b.out), b.times, rounds); });
    const double flop = 2.0 * roofs::kWgM * roofs::kWgN * roofs::kWgK * rounds * static_cast<double>(tiles);
    const double value = add_roof(b, roofs, "wgmma_bf16", "bf16 tensor", false, us, flop, per_cycle(b.gpu).bf16_tensor, b.seen_mhz(blocks), "wgmma.m64n256k16, both tiles from shared memory");
    const std::vector<float> got = b.back<float>(tiles * tile);
    double error = 0, size = 0;
    constexpr std::size_t kLookedAt = 4096;
    for (std::size_t s = 0; s < kLookedAt; ++s) {
        const std::size_t i = s * 104729 % got.size(), group = i / tile % roofs::kWgGroups, row = i % tile / roofs::kWgN, column = i % roofs::kWgN;
        double expected = 0;
        for (std::size_t k = 0; k < 16; ++k) expected += block[(group * roofs::kWgM + row) * 16 + k] * block[2 * a_words + column * 16 + k];
        expected *= rounds;
        error += (static_cast<double>(got[i]) - expected) * (static_cast<double>(got[i]) - expected);
        size += expected * expected;
    }
    check_close(record, "wgmma_bf16_matches_host", error, size, kTensorTolerance, kLookedAt);
    return value;
}

// ---- kernels of different intensity -------------------------------------------------------------------------------------------------

struct Point {
    double intensity;
    int partial, rounds;
};

template <typename T>
Point point_of(double intensity) {  // FLOP/byte
    const int operations = static_cast<int>(std::lround(intensity * 64 / T::kFlops));
    return operations < T::kValues ? Point{intensity, operations, 0} : Point{intensity, 0, operations / T::kValues};
}

void add_point(Bench& b, const Roofs& roofs, lab::JsonObject& points, Type type, double intensity, const std::vector<double>& us, double bytes, double rate) {
    const double flop = intensity * bytes, tflops = flop / lab::median(us) / 1e6, gbps = bytes / lab::median(us) / 1e3;
    const double attainable = roofs.dram > 0 ? std::min(intensity * roofs.dram / 1e3, rate) : NAN;
    lab::JsonObject entry;
    entry.add("precision", kTypeNames[type]).add("intensity_flop_per_byte", intensity).add("tflop_per_s", tflops).add("gb_per_s", gbps);
    entry.add("attainable_tflop_per_s", attainable).add("of_attainable", tflops / attainable).add("bytes", bytes).add("flop", flop).add("nvml_sm_clock_mhz", b.nvml_mhz);
    lab::add_spread(entry, "time", "us", us);
    char key[48];
    std::snprintf(key, sizeof key, "%s at %g", kTypeNames[type], intensity);
    points.add(key, entry);
    std::printf("  %-12s %10.4f %12.3f %10.1f %12.3f", kTypeNames[type], intensity, tflops, gbps, attainable);
    std::isnan(attainable) ? std::printf(" %10s\n", "-") : std::printf(" %9.1f%%\n", 100 * tflops / attainable);
}

template <typename T>
void family(Bench& b, const Roofs& roofs, lab::Record& record, lab::JsonObject& points, Type type, double rate) {
    const Block block(type, static_cast<std::uint64_t>(b.options.seed));
    fill(b.in, b.bytes, block);
    const float a = type == kFp16 ? kHalfFactor : kFactor, s = type == kFp16 ? kHalfSummand : kSummand;
    const int units = static_cast<int>(b.bytes / 32);
    const auto* in = static_cast<const uint4*>(b.in);
    auto* out = static_cast<uint4*>(b.out);
    double error = 0, size = 0;
    std::size_t samples = 0;
    const auto kernel = [](int partial) {
        switch (partial) {
            case 1: return roofs::intensity<T, 1>;
            case 2: return roofs::intensity<T, 2>;
            case 4: return roofs::intensity<T, 4>;
            default: return roofs::intensity<T, 0>;
        }
    };
    for (double intensity = 1.0 / 16; intensity <= 256; intensity *= 2) {
        const Point p = point_of<T>(intensity);
        LAB_CUDA(cudaMemset(b.out, 0xff, b.bytes));
        const unsigned blocks = std::min(b.filling(kernel(p.partial)), static_cast<unsigned>((units + kThreads - 1) / kThreads));
        const auto us = b.measure("intensity", [&] { kernel(p.partial)<<<blocks, kThreads>>>(in, out, units, p.rounds, a, s); });
        add_point(b, roofs, points, type, intensity, us, 2.0 * static_cast<double>(b.bytes), rate);
        // Some units: vector u and vector u + units, kValues / 2 words each.
        const std::size_t per_vector = 16 / kItemBytes[type];
        for (std::size_t k = 0; k < 64; ++k) {
            const std::size_t unit = k * 7919 * 104729 % static_cast<std::size_t>(units);
            for (std::size_t v = 0; v < 2; ++v) {
                std::vector<unsigned char> got(16);
                const std::size_t vector = unit + v * static_cast<std::size_t>(units);
                LAB_CUDA(cudaMemcpy(got.data(), static_cast<char*>(b.out) + vector * 16, 16, cudaMemcpyDeviceToHost));
                for (std::size_t i = 0; i < per_vector; ++i) {
                    const std::size_t word = (v * per_vector + i) / (per_vector * 2 / static_cast<std::size_t>(T::kValues));
                    const int steps = p.rounds > 0 ? p.rounds : word < static_cast<std::size_t>(p.partial) ? 1 : 0;
                    const double expected = stepped(type, block[vector * per_vector + i], steps, static_cast<double>(a), static_cast<double>(s));
                    const double found = block.value(got.data(), i);
                    error += (found - expected) * (found - expected);
                    size += expected * expected;
                    ++samples;
                }
            }
        }
    }
    check_close(record, std::string("intensity_") + kTypeNames[type] + "_matches_host", error, size, kTolerance, samples);
}

void tensor_family(Bench& b, const Roofs& roofs, lab::Record& record, lab::JsonObject& points) {
    const Block block(kBf16, static_cast<std::uint64_t>(b.options.seed));
    fill(b.in, b.bytes, block);
    const int units = static_cast<int>(b.bytes / 32);
    const auto* in = static_cast<const uint4*>(b.in);
    unsigned* other = nullptr;  // B: the first 64 words of the block
    LAB_CUDA(cudaMalloc(&other, 256));
    LAB_CUDA(cudaMemcpy(other, block.bytes.data(), 256, cudaMemcpyHostToDevice));
    double error = 0, size = 0;
    std::size_t samples = 0, copies_wrong = 0;
    for (double intensity = 1.0 / 16; intensity <= 1024; intensity *= 2) {
        const int rounds = std::max(1, static_cast<int>(intensity / 4)), period = std::max(1, static_cast<int>(4 / intensity));
        LAB_CUDA(cudaMemset(b.out, 0xff, b.bytes));
        const unsigned blocks = std::min(b.filling(roofs::intensity_tensor), static_cast<unsigned>((units + kThreads - 1) / kThreads));
        const auto us = b.measure("intensity_tensor", [&] { roofs::intensity_tensor<<<blocks, kThreads>>>(in, other, static_cast<uint4*>(b.out), units, rounds, period); });
        add_point(b, roofs, points, kBf16, intensity, us, 2.0 * static_cast<double>(b.bytes), roofs.tensor);
        for (std::size_t k = 0; k < 64; ++k) {
            const std::size_t unit = k * 7919 * 104729 % static_cast<std::size_t>(units), warp = unit / 32, lane = unit % 32;
            for (std::size_t v = 0; v < 2; ++v) {
                const std::size_t vector = unit + v * static_cast<std::size_t>(units), first = warp * 32 + v * static_cast<std::size_t>(units);
                float got[4];
                LAB_CUDA(cudaMemcpy(got, static_cast<char*>(b.out) + vector * 16, 16, cudaMemcpyDeviceToHost));
                if (warp % static_cast<std::size_t>(period) != 0) {
                    copies_wrong += std::memcmp(got, &block.bytes[vector * 16 % kBlockBytes], 16) != 0;
                    continue;
                }
                for (int c = 0; c < 4; ++c) {
                    const int row = static_cast<int>(lane / 4) + c / 2 * 8, column = static_cast<int>(lane % 4) * 2 + c % 2;
                    double expected = 0;
                    for (int i = 0; i < 16; ++i) expected += block[first * 8 + a_index(row, i)] * block[b_index(i, column)];
                    expected *= rounds;
                    error += (static_cast<double>(got[c]) - expected) * (static_cast<double>(got[c]) - expected);
                    size += expected * expected;
                    ++samples;
                }
            }
        }
    }
    LAB_CUDA(cudaFree(other));
    check_close(record, "intensity_tensor_matches_host", error, size, kTensorTolerance, samples);
    check_equal(record, "intensity_tensor_copies_the_rest", copies_wrong, 64);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "roofline_kernels";
    Bench b;
    b.options = parse(argc, argv);
    const Options& o = b.options;
    // Whole warps for every SM's share; at least what the roofs of arithmetic need.
    b.bytes = std::max<std::size_t>(static_cast<std::size_t>(o.mebibytes) << 20, std::size_t{256} << 20);
    b.gpu = lab::open_device(roofs::read, 2 * b.bytes);
    int khz = 0;
    LAB_CUDA(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
    b.max_mhz = khz / 1e3;
    LAB_CUDA(cudaMalloc(&b.in, b.bytes));
    LAB_CUDA(cudaMalloc(&b.out, b.bytes));
    LAB_CUDA(cudaMalloc(&b.times, 2 * sizeof(long long) * b.grid(8)));

    lab::Record record{"roofline_kernels", o.variant, {}, {}, {}, lab::describe(b.gpu)};
    record.parameters.add("mebibytes", b.bytes >> 20).add("l2_mebibytes", o.l2_mebibytes).add("work", o.work);
    record.parameters.add("repetitions", o.repetitions).add("warmup", o.warmup).add("seed", o.seed);
    const bool all = o.variant == "all", ampere = b.gpu.major >= 8, hopper = b.gpu.major == 9 && b.gpu.minor == 0;
    Roofs roofs;
    LAB_CUDA(cudaMemset(b.in, 0, b.bytes));
    lab::warm_up([&] { LAB_CUDA(cudaMemcpyAsync(b.out, b.in, b.bytes, cudaMemcpyDeviceToDevice, nullptr)); });
    std::printf("%s, highest SM clock %.0f MHz\n", b.gpu.name, b.max_mhz);
    if (all || o.variant == "ceilings") {
        const PerCycle figures = per_cycle(b.gpu);
        std::printf("  roof           measured         (quartiles)     published   of it     SM MHz   at that clock   of it\n");
        memory_roofs(b, roofs, record);
        const double fp64_slow = figures.fp64 > 0 ? std::min(1.0, figures.fp64 / figures.fp32) : 1.0;
        roofs.fp64 = fma_roof<roofs::Fp64>(b, roofs, record, kFp64, "fma_fp64", b.scaled(static_cast<int>(16384 * fp64_slow), 32), figures.fp64);
        roofs.fp32 = fma_roof<roofs::Fp32>(b, roofs, record, kFp32, "fma_fp32", b.scaled(16384, 32), figures.fp32);
        roofs.fp16 = fma_roof<roofs::Fp16>(b, roofs, record, kFp16, "fma_fp16", b.scaled(16384, 32), figures.fp16);
        if (ampere) roofs.tensor = mma_roof(b, roofs, record);
        if (hopper) {
            mma_fp64_roof(b, roofs, record);
            wgmma_roof(b, roofs, record);
        }
        record.results.add("ceilings", roofs.entries);
    }
    if (o.variant != "ceilings") {
        lab::JsonObject points;
        std::printf("  precision    FLOP/byte     TFLOP/s       GB/s   attainable   of it (min of intensity x the DRAM copy and the roof of mma.sync or multiply-adds)\n");
        if (all || o.variant == "fp64") family<roofs::Fp64>(b, roofs, record, points, kFp64, roofs.fp64);
        if (all || o.variant == "fp32") family<roofs::Fp32>(b, roofs, record, points, kFp32, roofs.fp32);
        if (all || o.variant == "fp16") family<roofs::Fp16>(b, roofs, record, points, kFp16, roofs.fp16);
        if (o.variant == "tensor" && !ampere) lab::fail("--variant tensor: %s has no tensor cores for bf16; it needs compute capability 8.0", b.gpu.name);
        if (ampere && (all || o.variant == "tensor")) tensor_family(b, roofs, record, points);
        record.results.add("points", points);
    }
    LAB_CUDA(cudaFree(b.in));
    LAB_CUDA(cudaFree(b.out));
    LAB_CUDA(cudaFree(b.times));
    return record.finish(o.json);
}
