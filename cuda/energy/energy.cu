// Work whose energy is to be measured: each kind repeated for seconds, one window of time each.
// SPDX-License-Identifier: Apache-2.0
//
// Flags in; a JSON record out, whose `windows` say from when to when each kind ran (ns of CLOCK_MONOTONIC) and what it did:
// launches, FLOP, bytes. It measures no energy itself: `labcode capture` (or `labcode energy --`) reads the meter meanwhile, and
// labcode.analysis.energy brings both together.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "../common/args.hpp"
#include "../common/check.cuh"
#include "../common/device.cuh"
#include "../common/json.hpp"
#include "../common/nvtx.hpp"
#include "../common/timing.cuh"
#include "energy.cuh"

namespace {

namespace work = lab::energy;

constexpr float kStep = 0.0078125f;  // of the oscillators
constexpr int kThreads = 256;
const char* const kKinds[] = {"bf16", "fp16", "tf32", "fp8", "int8"};
const char* const kOperands[] = {"zeros", "constant", "random"};

struct Options {
    std::string variant = "all", json;
    double seconds = 3, warmup = 0.3;
    long long mebibytes = 1024, l2_mebibytes = 16;
};

Options parse(int argc, char** argv) {
    Options o;
    lab::Args args("Repeats one kind of work after another, each for seconds, and says when: for a meter of power beside it.");
    args.choice("--variant", &o.variant, {"all", "idle", "memory", "arithmetic", "intensity", "tensor", "race"}, "which kinds of work");
    args.real("--seconds", &o.seconds, 0.01, 600, "length of a window");
    args.real("--warmup", &o.warmup, 0, 60, "seconds of the same work before each window");
    args.integer("--mebibytes", &o.mebibytes, 16, 16384, "size of each array that goes through DRAM, in MiB");
    args.integer("--l2-mebibytes", &o.l2_mebibytes, 1, 1024, "what is read over and over from the L2, in MiB");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

// The clock of the meter, and of Python's time.monotonic_ns.
std::int64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

void sleep_until(std::int64_t until_ns) {
    const std::int64_t left = until_ns - now_ns();
    if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
}

// What one launch does.
struct Cost {
    double flop = 0, dram_bytes = 0, l2_bytes = 0;
};

struct Bench {
    Options options;
    cudaDeviceProp gpu{};
    std::size_t bytes = 0;
    void *in = nullptr, *out = nullptr;
    lab::JsonObject windows;
    lab::Record* record = nullptr;

    unsigned grid(int blocks_per_sm) const { return static_cast<unsigned>(blocks_per_sm * gpu.multiProcessorCount); }
    void poison() const { LAB_CUDA(cudaMemset(out, 0xff, bytes)); }
    void fill(work::Operands operands) const {
        work::fill<<<grid(8), kThreads>>>(static_cast<uint4*>(in), static_cast<long long>(bytes / 16), operands);
        LAB_LAUNCHED();
    }

    // One window: body(until) works from here to there and returns its launches.
    template <typename Body>
    void window(const std::string& name, const std::string& kind, const Cost& cost, const Body& body) {
        LAB_CUDA(cudaDeviceSynchronize());
        const lab::Range range(name);
        const std::int64_t start = now_ns();
        const double launches = body(start + static_cast<std::int64_t>(1e9 * options.seconds));
        LAB_CUDA(cudaDeviceSynchronize());
        const std::int64_t end = now_ns();
        const double seconds = 1e-9 * static_cast<double>(end - start);
        lab::JsonObject entry;
        entry.add("kind", kind).add("begin_ns", start).add("end_ns", end).add("repetitions", launches);
        entry.add("flop", cost.flop * launches).add("dram_bytes", cost.dram_bytes * launches).add("l2_bytes", cost.l2_bytes * launches);
        windows.add(name, entry);
        std::printf("  %-22s %7.3f s %9.0f launches %9.2f TFLOP/s %8.0f GB/s DRAM %8.0f GB/s L2\n", name.c_str(), seconds, launches,
                    1e-12 * cost.flop * launches / seconds, 1e-9 * cost.dram_bytes * launches / seconds, 1e-9 * cost.l2_bytes * launches / seconds);
        std::fflush(stdout);
    }

    // Launches back to back until the window ends, a few in flight; before it, the same for the warm-up.
    template <typename Launch>
    void repeat(const std::string& name, const std::string& kind, const Cost& cost, const Launch& launch) {
        const auto back_to_back = [&](std::int64_t until) {
            constexpr int kInFlight = 4;
            const lab::Event events[kInFlight];
            int count = 0;
            for (; now_ns() < until; ++count) {
                const lab::Event& mine = events[count % kInFlight];
                if (count >= kInFlight) LAB_CUDA(cudaEventSynchronize(mine));
                launch();
                LAB_LAUNCHED();
                mine.record(nullptr);
            }
            return static_cast<double>(count);
        };
        back_to_back(now_ns() + static_cast<std::int64_t>(1e9 * options.warmup));
        window(name, kind, cost, back_to_back);
    }

    void check(const std::string& name, double error, double size, double allowed) const {
        const double relative = size > 0 ? std::sqrt(error / size) : error;  // of zeros, nothing may be left
        char detail[80];
        std::snprintf(detail, sizeof detail, "relative error %.1e (allowed %.0e)", relative, allowed);
        record->check(name + " matches the host", relative <= allowed, detail);
    }
};

double of_bits(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}

void idle(Bench& b) {
    b.window("idle", "idle", {}, [](std::int64_t until) {
        sleep_until(until);
        return 0.0;
    });
}

// ---- memory -------------------------------------------------------------------------------------------------------------------

void steps_window(Bench& b, const std::string& name, const std::string& kind, int steps) {
    constexpr int kBlocks = 8, kVectors = 4;
    const long long whole = static_cast<long long>(b.grid(kBlocks)) * kThreads * kVectors;
    const long long vectors = static_cast<long long>(b.bytes / 16) / whole * whole;
    const double moved = 32.0 * static_cast<double>(vectors);
    auto* out = static_cast<uint4*>(b.out);
    const auto* in = static_cast<const uint4*>(b.in);
    b.poison();
    b.repeat(name, kind, {8.0 * steps * static_cast<double>(vectors), moved, 0},
             [&] { work::intensity<<<b.grid(kBlocks), kThreads>>>(in, out, vectors, steps, kStep); });
    const lab::Propagator after = lab::propagator(static_cast<double>(kStep), static_cast<std::uint64_t>(steps));
    double error = 0, size = 0;
    for (const long long at : {0LL, 1LL, vectors / 3, vectors - 1}) {
        unsigned from[4], to[4];
        LAB_CUDA(cudaMemcpy(from, in + at, 16, cudaMemcpyDeviceToHost));
        LAB_CUDA(cudaMemcpy(to, out + at, 16, cudaMemcpyDeviceToHost));
        for (int k = 0; k < 4; k += 2) {
            const double x = of_bits(from[k]), v = of_bits(from[k + 1]);
            const double dx = of_bits(to[k]) - (after.xx * x + after.xv * v), dv = of_bits(to[k + 1]) - (after.vx * x + after.vv * v);
            error += dx * dx + dv * dv;
            size += x * x + v * v;
        }
    }
    b.check(name, error, size, steps == 0 ? 0 : 1e-4);
}

void read_window(Bench& b, const std::string& name, std::size_t bytes, int passes) {
    const long long vectors = static_cast<long long>(bytes / 16);
    const double moved = static_cast<double>(bytes) * passes;
    auto* out = static_cast<unsigned*>(b.out);
    const unsigned blocks = b.grid(4);
    b.poison();
    b.repeat(name, "memory", passes == 1 ? Cost{0, moved, 0} : Cost{0, 0, moved},
             [&] { work::read<<<blocks, 512>>>(static_cast<const uint4*>(b.in), out, vectors, passes); });
    std::vector<unsigned> sums(blocks * 512), words(bytes / 4);
    LAB_CUDA(cudaMemcpy(sums.data(), out, sums.size() * 4, cudaMemcpyDeviceToHost));
    LAB_CUDA(cudaMemcpy(words.data(), b.in, bytes, cudaMemcpyDeviceToHost));
    unsigned found = 0, expected = 0;
    for (const unsigned sum : sums) found += sum;
    for (const unsigned word : words) expected += word;
    b.record->check(name + " matches the host", found == expected * static_cast<unsigned>(passes), "sum of all words, modulo 2^32");
}

void memory(Bench& b) {
    for (const work::Operands operands : {work::kZeros, work::kRandom}) {
        b.fill(operands);
        steps_window(b, std::string("copy ") + kOperands[operands], "memory", 0);
    }
    read_window(b, "read", b.bytes, 1);
    const std::size_t near = std::min(b.bytes, static_cast<std::size_t>(b.options.l2_mebibytes) << 20);
    read_window(b, "read from L2", near, 64);
    const auto vectors = static_cast<long long>(b.bytes / 16);
    auto* out = static_cast<uint4*>(b.out);
    b.poison();
    b.repeat("write", "memory", {0, static_cast<double>(b.bytes), 0}, [&] { work::write<<<b.grid(8), kThreads>>>(out, vectors, 7); });
    std::size_t wrong = 0;
    for (const long long at : {0LL, 255LL, vectors / 2, vectors - 1}) {
        unsigned got[4];
        LAB_CUDA(cudaMemcpy(got, out + at, 16, cudaMemcpyDeviceToHost));
        for (unsigned k = 0; k < 4; ++k) wrong += got[k] != work::word(work::kRandom, 4 * (7 + static_cast<unsigned long long>(at % kThreads)) + k);
    }
    b.record->check("write matches the host", wrong == 0, std::to_string(wrong) + " of 16 words differ");
}

void intensities(Bench& b) {
    b.fill(work::kRandom);
    for (const int steps : {8, 32, 64, 128, 512}) steps_window(b, std::to_string(steps / 4) + " FLOP a byte", "intensity", steps);
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------------------

template <typename T>
void multiply_adds_window(Bench& b, const std::string& name, int steps) {
    const unsigned blocks = b.grid(8), threads = blocks * kThreads;
    auto* out = static_cast<T*>(b.out);
    const auto* in = static_cast<const float*>(b.in);
    b.poison();
    b.repeat(name, "arithmetic", {lab::kFlopsPerStep * steps * work::kChains * static_cast<double>(threads), 0, 0},
             [&] { work::multiply_adds<T><<<blocks, kThreads>>>(in, out, steps, kStep); });
    const lab::Propagator after = lab::propagator(static_cast<double>(kStep), static_cast<std::uint64_t>(steps));
    double error = 0, size = 0;
    for (const unsigned at : {0u, 77u, threads - 1}) {
        for (unsigned c = 0; c < work::kChains; ++c) {
            float from[2];
            T to[2];
            for (unsigned k = 0; k < 2; ++k) {
                LAB_CUDA(cudaMemcpy(from + k, in + at + (2 * c + k) * threads, sizeof(float), cudaMemcpyDeviceToHost));
                LAB_CUDA(cudaMemcpy(to + k, out + at + (2 * c + k) * threads, sizeof(T), cudaMemcpyDeviceToHost));
            }
            const double x = static_cast<double>(from[0]), v = static_cast<double>(from[1]);
            const double dx = static_cast<double>(to[0]) - (after.xx * x + after.xv * v), dv = static_cast<double>(to[1]) - (after.vx * x + after.vv * v);
            error += dx * dx + dv * dv;
            size += x * x + v * v;
        }
    }
    b.check(name, error, size, sizeof(T) == 8 ? 1e-9 : 1e-3);
}

// ---- tensor cores ---------------------------------------------------------------------------------------------------------------

// Rows of 32 bytes of a type: the bits, and the values they stand for.
struct Rows {
    std::vector<unsigned char> bytes;
    std::vector<double> values;
    int per_row;
    Rows(work::Kind kind, work::Operands operands, int rows, unsigned long long first) {
        const int size = kind == work::kTf32 ? 4 : kind == work::kBf16 || kind == work::kFp16 ? 2 : 1;
        per_row = 32 / size;
        for (int i = 0; i < rows * per_row; ++i) {
            const unsigned word = work::word(operands, first + static_cast<unsigned long long>(i));
            const float uniform = static_cast<float>(of_bits(word));
            unsigned bits = 0;
            double value = 0;
            if (kind == work::kTf32) bits = word & 0xffffe000, value = of_bits(bits);  // ten bits of mantissa
            if (kind == work::kBf16) {
                const __nv_bfloat16 x = __float2bfloat16(uniform);
                bits = __nv_bfloat16_raw(x).x, value = static_cast<double>(__bfloat162float(x));
            }
            if (kind == work::kFp16) {
                const __half x = __float2half(uniform);
                bits = __half_raw(x).x, value = static_cast<double>(__half2float(x));
            }
            if (kind == work::kFp8) {
                const __nv_fp8_e4m3 x(uniform);
                bits = x.__x, value = static_cast<double>(static_cast<float>(x));
            }
            if (kind == work::kInt8) {
                const auto x = static_cast<signed char>(std::lround(127 * uniform));
                bits = static_cast<unsigned char>(x), value = x;
            }
            for (int k = 0; k < size; ++k) bytes.push_back(static_cast<unsigned char>(bits >> (8 * k)));
            values.push_back(value);
        }
    }
    double at(int row, int k) const { return values[static_cast<std::size_t>(row * per_row + k)]; }
};

// The tensor cores' kernels on this GPU: wgmma where there is one, else mma.sync.
template <work::Kind kind>
struct Product {
    using Sum = typename work::Sum<kind>::Type;
    Bench& b;
    bool wide;
    Rows left, right;
    unsigned *a = nullptr, *other = nullptr;
    Product(Bench& bench, work::Operands operands)
        : b(bench), wide(bench.gpu.major == 9 && bench.gpu.minor == 0), left(kind, operands, wide ? work::kWgGroups * work::kWgRows : work::kMmaRows, 0),
          right(kind, operands, wide ? work::kWgColumns : work::kTiles * work::kMmaColumns, 1 << 20) {
        a = static_cast<unsigned*>(b.in), other = a + left.bytes.size() / 4;
        LAB_CUDA(cudaMemcpy(a, left.bytes.data(), left.bytes.size(), cudaMemcpyHostToDevice));
        LAB_CUDA(cudaMemcpy(other, right.bytes.data(), right.bytes.size(), cudaMemcpyHostToDevice));
        b.poison();
    }
    unsigned blocks() const { return wide ? b.grid(1) : b.grid(2); }
    // FLOP (or integer operations) of a launch with all blocks.
    double flop(int rounds) const {
        const double k = left.per_row, warps = kThreads / 32.0;
        const double block = wide ? 2.0 * work::kWgGroups * work::kWgRows * work::kWgColumns * k : 2.0 * warps * work::kMmaRows * work::kTiles * work::kMmaColumns * k;
        return block * blocks() * rounds;
    }
    int rounds() const { return wide ? 1 << 15 : 1 << 14; }  // some milliseconds
    void launch(unsigned grid, int rounds) const {
        auto* out = static_cast<Sum*>(b.out);
        if (wide) work::wgmma<kind><<<grid, 128 * work::kWgGroups>>>(a, other, out, rounds);
        else work::mma<kind><<<grid, kThreads>>>(a, other, out, rounds);
    }
    // Of the last block's first warpgroup or warp.
    void check(const std::string& name) const {
        const unsigned last = blocks() - 1, threads = blocks() * kThreads;
        double error = 0, size = 0;
        const auto compare = [&](const Sum* from, int row, int column) {
            Sum got;
            std::memcpy(&got, from, sizeof got);
            double expected = 0;
            for (int k = 0; k < left.per_row; ++k) expected += work::kGroup * left.at(row, k) * right.at(column, k);
            error += (static_cast<double>(got) - expected) * (static_cast<double>(got) - expected);
            size += expected * expected;
        };
        const auto* out = static_cast<const Sum*>(b.out);
        if (wide) {
            constexpr int kOne = work::kWgRows * work::kWgColumns;
            std::vector<Sum> host(kOne);
            LAB_CUDA(cudaMemcpy(host.data(), out + static_cast<std::size_t>(last) * work::kWgGroups * kOne, kOne * sizeof(Sum), cudaMemcpyDeviceToHost));
            for (int i = 0; i < kOne; ++i) compare(&host[static_cast<std::size_t>(i)], i / work::kWgColumns, i % work::kWgColumns);
        } else {
            for (int i = 0; i < 4 * work::kTiles; ++i) {
                Sum host[32];
                LAB_CUDA(cudaMemcpy(host, out + static_cast<std::size_t>(i) * threads + last * kThreads, sizeof host, cudaMemcpyDeviceToHost));
                for (int lane = 0; lane < 32; ++lane) compare(host + lane, lane / 4 + (i % 4) / 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2);
            }
        }
        b.check(name, error, size, kind == work::kInt8 ? 0 : 1e-2);
    }
};

template <work::Kind kind>
void tensor_window(Bench& b, work::Operands operands) {
    const Product<kind> product(b, operands);
    const std::string name = std::string(kKinds[kind]) + " " + kOperands[operands];
    b.repeat(name, "tensor", {product.flop(product.rounds()), 0, 0}, [&] { product.launch(product.blocks(), product.rounds()); });
    product.check(name);
}

void tensor(Bench& b) {
    for (const work::Operands operands : {work::kZeros, work::kConstant, work::kRandom}) tensor_window<work::kBf16>(b, operands);
    tensor_window<work::kFp16>(b, work::kRandom);
    tensor_window<work::kTf32>(b, work::kRandom);
    if (b.gpu.major > 8 || b.gpu.minor >= 9) tensor_window<work::kFp8>(b, work::kRandom);
    tensor_window<work::kInt8>(b, work::kRandom);
}

// ---- the same work in the same time: at once and then idle, in small portions, on half of the multiprocessors ----------------------

void race(Bench& b) {
    const Product<work::kBf16> product(b, work::kRandom);
    const int rounds = product.rounds() / 8;
    const unsigned all = product.blocks();
    const auto full = [&] { product.launch(all, rounds); };
    const auto half = [&] { product.launch(all / 2, 2 * rounds); };
    const auto busy_s = [&](int count) {
        const double began = lab::host_us();
        for (int i = 0; i < count; ++i) full();
        LAB_CUDA(cudaDeviceSynchronize());
        return 1e-6 * (lab::host_us() - began);
    };
    busy_s(200);
    const int count = static_cast<int>(0.4 * b.options.seconds / (busy_s(200) / 200));  // two fifths of the window at full speed
    const Cost cost{product.flop(rounds), 0, 0};
    // Nothing runs at either end of a window: there the energy counter is known to one update, and now that is little.
    const auto paced = [&](const char* name, const auto& body) {
        b.window(name, "race", cost, [&](std::int64_t) {
            constexpr std::int64_t kRest = 250000000;
            const std::int64_t start = now_ns() + kRest, until = start + static_cast<std::int64_t>(1e9 * b.options.seconds);
            sleep_until(start);
            body(start, until);
            sleep_until(until + kRest);
            return static_cast<double>(count);
        });
    };
    paced("at once, then idle", [&](std::int64_t, std::int64_t) { busy_s(count); });
    paced("in small portions", [&](std::int64_t start, std::int64_t until) {
        // Portions of some 37 ms, unequal in length, so that no sensor keeps step with them.
        const int portions = std::max(1, static_cast<int>(b.options.seconds / 0.037));
        for (int k = 0, done = 0; k < portions; ++k) {
            const int upto = static_cast<int>(static_cast<long long>(count) * (k + 1) / portions);
            busy_s(upto - done);
            done = upto;
            const double place = (k + 1 + (k + 1 < portions ? 0.3 * std::sin(2.4 * k) : 0)) / portions;
            sleep_until(start + static_cast<std::int64_t>(static_cast<double>(until - start) * place));
        }
    });
    paced("on half of the SMs", [&](std::int64_t, std::int64_t) {
        for (int i = 0; i < count; ++i) half();
        LAB_CUDA(cudaDeviceSynchronize());
    });
    product.launch(all, rounds);
    product.check("bf16 in portions");
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "energy";
    Bench b;
    b.options = parse(argc, argv);
    const Options& o = b.options;
    b.bytes = static_cast<std::size_t>(o.mebibytes) << 20;
    b.gpu = lab::open_device(work::read, 2 * b.bytes);
    // The largest of what the kinds need besides: the chains of the multiply-adds in fp64, the products' results.
    const std::size_t chains = 2UL * work::kChains * b.grid(8) * kThreads * sizeof(double);
    const std::size_t results = sizeof(float) * b.grid(1) * work::kWgGroups * work::kWgRows * work::kWgColumns;
    b.bytes = std::max({b.bytes, chains, results});
    LAB_CUDA(cudaMalloc(&b.in, b.bytes));
    LAB_CUDA(cudaMalloc(&b.out, b.bytes));
    const bool all = o.variant == "all", cores = b.gpu.major >= 8;
    if (!cores && (o.variant == "tensor" || o.variant == "race")) {
        lab::fail("--variant %s: %s has no tensor cores for bf16; it needs compute capability 8.0", o.variant.c_str(), b.gpu.name);
    }
    lab::Record record{"energy", o.variant, {}, {}, {}, lab::describe(b.gpu)};
    record.parameters.add("seconds", o.seconds).add("warmup", o.warmup).add("mebibytes", b.bytes >> 20).add("l2_mebibytes", o.l2_mebibytes);
    b.record = &record;
    std::printf("%s\n", b.gpu.name);
    {
        const lab::Range measured(lab::kMeasured);
        if (all || o.variant == "idle") idle(b);
        if (all || o.variant == "memory") memory(b);
        if (all || o.variant == "intensity") intensities(b);
        if (all || o.variant == "arithmetic") {
            b.fill(work::kRandom);
            int slower = 0;
            LAB_CUDA(cudaDeviceGetAttribute(&slower, cudaDevAttrSingleToDoublePrecisionPerfRatio, 0));
            multiply_adds_window<float>(b, "fp32 multiply-adds", 1 << 13);
            multiply_adds_window<double>(b, "fp64 multiply-adds", (1 << 13) / std::max(1, slower));
        }
        if (cores && (all || o.variant == "tensor")) tensor(b);
        if (cores && (all || o.variant == "race")) race(b);
    }
    record.results.add("windows", b.windows);
    LAB_CUDA(cudaFree(b.in));
    LAB_CUDA(cudaFree(b.out));
    return record.finish(o.json);
}
