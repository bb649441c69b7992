// What keeps an SM from working, one effect at a time: flags in, a table of predictions and times and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// A family is one effect; its cases do the same work with more or less of it, among them the baseline and the improved way.
// Each case has a prediction made from the machine's figures before it was first run: its time as a multiple of the family's
// reference, its (first) improved case. The counters named with a family are those of ncu that show the effect.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
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
#include "compute_metrics.cuh"

namespace {

namespace metrics = lab::compute_metrics;

constexpr int kSamples = 2000;            // threads whose result is worked out on the host
constexpr double kFloatTolerance = 1e-4;  // ‖out − ref‖ / ‖ref‖ where results are floats; integers must be equal

struct Options {
    std::string variant = "all", json;
    double work = 1;
    long long waves = 4, lines = 1 << 21, repetitions = 15, warmup = 2, seed = 1;
};

// What all cases share: the machine, device memory, random inputs on the host.
struct Bench {
    Options options;
    cudaDeviceProp gpu{};
    int threads = 0;                // of a launch that fills the machine `waves` times
    std::vector<float> values;      // random, in [−1, 1)
    std::vector<unsigned> words;    // random
    std::vector<unsigned> chain;    // chain[l]: the line after line l; one cycle through all lines
    std::vector<float> results;     // as they came back; integers bit by bit
    float *in = nullptr, *out = nullptr;
    unsigned *next = nullptr, *counters = nullptr;
    std::size_t result_count = 0;

    int scaled(int rounds, int multiple) const {
        return std::max(1, static_cast<int>(std::lround(rounds * options.work / multiple))) * multiple;
    }
    const unsigned* in_words() const { return reinterpret_cast<const unsigned*>(in); }
    unsigned* out_words() const { return reinterpret_cast<unsigned*>(out); }
    unsigned result_word(std::size_t i) const {
        unsigned word;
        std::memcpy(&word, &results[i], sizeof word);
        return word;
    }
};

// One launch configuration of a kernel. expected(i): the result with number i, of `outputs`; exact ones must be equal.
struct Case {
    std::string family, name, role, what;
    double predicted;   // time, as a multiple of the family's reference
    std::function<void()> launch;
    std::size_t outputs;
    bool exact;
    std::function<double(std::size_t)> expected;
    double operations = 0;  // of a launch, for the rate
    std::function<void()> before = [] {};
};

using Cases = std::vector<Case>;

// Warps that an SM holds of a kernel at a time.
template <typename Kernel>
int resident_warps(Kernel kernel, int block, std::size_t shared) {
    int blocks = 0;
    LAB_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block, shared));
    return std::max(1, blocks) * block / 32;
}

double place_after(const Bench& b, unsigned thread, int steps, unsigned* place) {
    unsigned line = thread / 32 % static_cast<unsigned>(b.options.lines);
    for (int s = 0; s < steps; ++s) line = b.chain[line];
    *place = line * 32 + thread % 32;
    return *place;
}

void add_occupancy(const Bench& b, Cases& cases) {
    const int steps = b.scaled(64, 1), lines = static_cast<int>(b.options.lines), threads = b.threads;
    const double full = b.gpu.maxThreadsPerMultiProcessor / 32.0;
    const auto text = [&](int warps) { return std::to_string(warps) + " of " + std::to_string(static_cast<int>(full)) + " warps resident"; };
    const auto add = [&](const char* family, const std::string& name, const char* role, auto kernel, int block, std::size_t shared, int held, bool table) {
        const int warps = resident_warps(kernel, block, shared);
        LAB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, table ? 100 : 0));
        cases.push_back({family, name, role, text(warps), full / warps,
                         [&b, kernel, block, shared, threads, lines, steps] {
                             kernel<<<static_cast<unsigned>(threads / block), block, shared>>>(b.next, b.in_words(), b.out_words(), lines, steps);
                         },
                         static_cast<std::size_t>(threads / block * block), true,
                         [&b, steps, held, table, block, threads](std::size_t i) {
                             const unsigned thread = static_cast<unsigned>(i), all = static_cast<unsigned>(threads / block * block);
                             unsigned place;
                             place_after(b, thread, steps, &place);
                             unsigned result = place;
                             for (unsigned r = 0; r < static_cast<unsigned>(held); ++r) result += (b.words[(thread + r * all) % 32] ^ place) * (r + 1);
                             if (table) result += b.words[(thread % static_cast<unsigned>(block) + 1) % static_cast<unsigned>(block) % 32];
                             return static_cast<double>(result);
                         }});
    };
    add("occupancy_registers", "registers_200", "baseline", metrics::chase<200, true>, 256, 0, 200, false);
    add("occupancy_registers", "registers_96", "knob", metrics::chase<96, true>, 256, 0, 96, false);
    add("occupancy_registers", "registers_40", "knob", metrics::chase<40, true>, 256, 0, 40, false);
    add("occupancy_registers", "registers_200_late", "improved", metrics::chase<200, false>, 256, 0, 200, false);
    // As much of an SM's shared memory as lets it hold 1, 2, 4 blocks of 256 threads; and what the table needs.
    const std::size_t sm = b.gpu.sharedMemPerMultiprocessor, reserved = b.gpu.reservedSharedMemPerBlock;
    for (const int blocks : {1, 2, 4}) {
        const std::size_t shared = std::min(b.gpu.sharedMemPerBlockOptin, (sm / static_cast<std::size_t>(blocks) - reserved) & ~std::size_t{1023});
        LAB_CUDA(cudaFuncSetAttribute(metrics::chase_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(b.gpu.sharedMemPerBlockOptin)));
        add("occupancy_shared", "shared_" + std::to_string(blocks) + "_blocks", blocks == 1 ? "baseline" : "knob", metrics::chase_shared, 256, shared, 0, true);
    }
    add("occupancy_shared", "shared_needed", "improved", metrics::chase_shared, 256, 1024, 0, true);
    add("occupancy_block", "block_32", "baseline", metrics::chase<0, true>, 32, 0, 0, false);
    add("occupancy_block", "block_768", "knob", metrics::chase<0, true>, 768, 0, 0, false);
    add("occupancy_block", "block_1024", "knob", metrics::chase<0, true>, 1024, 0, 0, false);
    add("occupancy_block", "block_256", "improved", metrics::chase<0, true>, 256, 0, 0, false);
}

void add_divergence(const Bench& b, Cases& cases) {
    const int rounds = b.scaled(2048, 16), count = b.threads;
    const auto add = [&](const std::string& name, const char* role, const char* what, auto kernel, int paths, double predicted) {
        cases.push_back({"divergence", name, role, what, predicted,
                         [&b, kernel, count, rounds, paths] { kernel<<<static_cast<unsigned>((count + 255) / 256), 256>>>(b.in, b.out, count, rounds, paths); },
                         static_cast<std::size_t>(count), false,
                         [&b, rounds, paths](std::size_t i) {
                             const int path = static_cast<int>(i) & (paths - 1);
                             double x = static_cast<double>(b.values[i]);
                             for (int k = 0; k < rounds; ++k) x = x * (1 - (path + 1) / 256.0) + (path + 1) / 128.0;
                             return x;
                         },
                         static_cast<double>(rounds) * count});
    };
    add("in_order_32_paths", "baseline", "neighboring lanes on 32 paths", metrics::diverge<false>, 32, 32);
    for (const int paths : {16, 8, 4, 2}) add("in_order_" + std::to_string(paths) + "_paths", "knob", "neighboring lanes on several paths", metrics::diverge<false>, paths, paths);
    add("regrouped_32_paths", "improved", "32 paths, each warp on one", metrics::diverge<true>, 32, 1);
}

void add_banks(const Bench& b, Cases& cases) {
    const int turns = b.scaled(256, 1), tiles = std::max(1, b.threads / 1024);
    const auto weighted = [](const float* eight) {
        double sum = 0;
        for (int r = 0; r < 8; ++r) sum += std::ldexp(static_cast<double>(eight[r]), -r);
        return sum;
    };
    const auto add_columns = [&](const char* name, const char* role, const char* what, auto kernel, double predicted) {
        cases.push_back({"bank_conflicts", name, role, what, predicted,
                         [&b, kernel, tiles, turns] { kernel<<<static_cast<unsigned>(tiles), dim3(32, 32)>>>(b.in, b.out, turns); },
                         static_cast<std::size_t>(tiles) * 1024, false,
                         [&b, turns, weighted](std::size_t i) {
                             const std::size_t lane = i % 32, warp = i / 32 % 32, row = i / 1024 * 1024 + lane * 32;
                             double sum = 0;
                             for (int t = 0; t < turns; ++t) sum += weighted(&b.values[row + 8 * ((warp + static_cast<std::size_t>(t)) & 3)]);
                             return sum;
                         },
                         static_cast<double>(tiles) * 1024 * turns * 8});
    };
    add_columns("columns_plain", "baseline", "a tile 32 words wide, read by columns", metrics::read_columns<metrics::kPlain>, 32);
    add_columns("columns_padded", "improved", "33 words wide", metrics::read_columns<metrics::kPadded>, 1);
    add_columns("columns_swizzled", "improved", "32 words wide, column ^ row", metrics::read_columns<metrics::kSwizzled>, 1);
    const int threads = b.threads;
    for (const int stride : {1, 2, 4, 8, 16, 32}) {
        cases.push_back({"bank_strides", "stride_" + std::to_string(stride), stride == 1 ? "improved" : stride == 32 ? "baseline" : "knob",
                         "lanes " + std::to_string(stride) + " words apart", static_cast<double>(stride),
                         [&b, threads, turns, stride] { metrics::read_strided<<<static_cast<unsigned>(threads / 1024), 1024>>>(b.in, b.out, turns, stride); },
                         static_cast<std::size_t>(threads / 1024 * 1024), false,
                         [&b, turns, stride, weighted](std::size_t i) {
                             double sum = 0;
                             for (int t = 0; t < turns; ++t) sum += weighted(&b.values[i % 32 * static_cast<std::size_t>(stride) + 8 * (static_cast<std::size_t>(t) & 3)]);
                             return sum;
                         },
                         static_cast<double>(threads) * turns * 8});
    }
}

// Instructions of a kind that an SM does in a cycle, a lane each: CUDA Programming Guide, «Throughput of native arithmetic
// instructions». Zero: not in this table.
struct Rates {
    double fp32, fp64, integer, special;
};
Rates rates(const cudaDeviceProp& gpu) {
    switch (10 * gpu.major + gpu.minor) {
        case 75: return {64, 2, 64, 16};
        case 80: return {64, 32, 64, 16};
        case 86: case 89: return {128, 2, 64, 16};
        case 90: case 100: return {128, 64, 64, 16};
        case 120: return {128, 2, 64, 16};
        default: return {0, 0, 0, 0};
    }
}

void add_mix(const Bench& b, Cases& cases) {
    const int rounds = b.scaled(2048, 32), threads = b.threads / 256 * 256;
    const unsigned grid = static_cast<unsigned>(threads / 256);
    const double operations = static_cast<double>(threads) * rounds * metrics::kChains;
    const float factor = 0.9990234375f, step = 1.0f / 2048;
    const Rates rate = rates(b.gpu);
    const auto sum4 = [](auto&& one) { return (one(0) + one(1)) + (one(2) + one(3)); };
    const auto line = [&b, rounds, factor, sum4](std::size_t i) {
        return sum4([&](int c) {
            double x = static_cast<double>(b.values[i]) + c;
            for (int k = 0; k < rounds; ++k) x = x * static_cast<double>(factor) + 1.0 / 64;
            return x;
        });
    };
    const std::size_t outputs = static_cast<std::size_t>(threads);
    cases.push_back({"instruction_mix", "mix_fp64", "baseline", "multiply-add in fp64", rate.fp32 / rate.fp64,
                     [&b, grid, rounds, factor] { metrics::mix_fma<double><<<grid, 256>>>(b.in, b.out, rounds, factor); }, outputs, false, line, operations});
    cases.push_back({"instruction_mix", "mix_fp32", "improved", "multiply-add in fp32", 1,
                     [&b, grid, rounds, factor] { metrics::mix_fma<float><<<grid, 256>>>(b.in, b.out, rounds, factor); }, outputs, false, line, operations});
    cases.push_back({"instruction_mix", "mix_integer", "knob", "integer multiply-add", rate.fp32 / rate.integer,
                     [&b, grid, rounds] { metrics::mix_integer<<<grid, 256>>>(b.in_words(), b.out_words(), rounds, 1664525u); }, outputs, true,
                     [&b, rounds](std::size_t i) {
                         unsigned x[metrics::kChains];
                         for (unsigned c = 0; c < metrics::kChains; ++c) {
                             x[c] = b.words[i] + c;
                             for (int k = 0; k < rounds; ++k) x[c] = x[c] * 1664525u + 1013904223u;
                         }
                         return static_cast<double>((x[0] ^ x[1]) + (x[2] ^ x[3]));
                     },
                     operations});
    cases.push_back({"instruction_mix", "mix_special", "knob", "powers of two, two additions with each", rate.fp32 / rate.special,
                     [&b, grid, rounds, step] { metrics::mix_special<<<grid, 256>>>(b.in, b.out, rounds, step); }, outputs, false,
                     [&b, rounds, step, sum4](std::size_t i) {
                         return sum4([&](int c) {
                             double sum = 0;
                             float t = b.values[i] - static_cast<float>(c);
                             for (int k = 0; k < rounds; ++k, t -= step) sum += std::exp2(static_cast<double>(t));
                             return sum;
                         });
                     },
                     operations});
    // Division: 10 instructions a step on the integer units, which do 2 cycles each; 5 with multiplication or shift.
    const int steps = b.scaled(1024, 4);
    const auto index = [&b, steps](unsigned width) {
        return [&b, steps, width](std::size_t i) {
            unsigned sum = 0;
            for (unsigned k = 0; k < static_cast<unsigned>(steps); ++k) {
                const unsigned at = (b.words[i] + k);
                sum += (at / width) ^ (3u * (at % width));
            }
            return static_cast<double>(sum);
        };
    };
    const double steps_all = static_cast<double>(threads) * steps;
    constexpr unsigned kWidth = 1000, kBits = 10;  // ceil(2^38 / 1000): right for all 32-bit numbers
    constexpr unsigned kMagic = 274877907u, kShift = 6;
    cases.push_back({"index_arithmetic", "index_divide", "baseline", "row and column by / and %", 2,
                     [&b, grid, steps] { metrics::index_divide<<<grid, 256>>>(b.in_words(), b.out_words(), steps, kWidth); }, outputs, true, index(kWidth), steps_all});
    cases.push_back({"index_arithmetic", "index_multiply", "improved", "by a multiplication with a number from the host", 1,
                     [&b, grid, steps] { metrics::index_multiply<<<grid, 256>>>(b.in_words(), b.out_words(), steps, kWidth, kMagic, kShift); }, outputs, true,
                     index(kWidth), steps_all});
    cases.push_back({"index_arithmetic", "index_shift", "improved", "a width of 1,024: by shift and mask", 1,
                     [&b, grid, steps] { metrics::index_shift<<<grid, 256>>>(b.in_words(), b.out_words(), steps, kBits); }, outputs, true, index(1u << kBits), steps_all});
}

void add_chains(const Bench& b, Cases& cases) {
    const int steps = b.scaled(8192, 16), threads = 128 * b.gpu.multiProcessorCount;
    const float factor = 0.9990234375f;
    const auto add = [&](int chains, const char* role, auto kernel, double predicted) {
        cases.push_back({"dependency_chains", "chains_" + std::to_string(chains), role, "independent chains a thread, one warp a scheduler", predicted,
                         [&b, kernel, threads, steps, factor] { kernel<<<static_cast<unsigned>(threads / 128), 128>>>(b.in, b.out, steps, factor); },
                         static_cast<std::size_t>(threads), false,
                         [&b, steps, factor](std::size_t i) {
                             // n steps of x ← f·x + s have a closed form: fixed point + f^n · (x − fixed point)
                             const double f = static_cast<double>(factor), fixed = (1.0 / 64) / (1 - f), power = std::pow(f, steps);
                             double sum = 0;
                             for (int c = 0; c < metrics::kAdvanced; ++c) sum += fixed + power * (static_cast<double>(b.values[i] + static_cast<float>(c)) - fixed);
                             return sum;
                         },
                         static_cast<double>(threads) * steps * metrics::kAdvanced});
    };
    // A multiply-add's result can be used 4 cycles later.
    add(1, "baseline", metrics::chains<1>, 4);
    add(2, "knob", metrics::chains<2>, 2);
    add(4, "improved", metrics::chains<4>, 1);
    add(8, "knob", metrics::chains<8>, 1);
}

void add_atomics(const Bench& b, Cases& cases) {
    const int quads = static_cast<int>(b.words.size() / 4 / 32 * 32), blocks = 8 * b.gpu.multiProcessorCount;
    const auto add = [&](const char* family, const char* name, const char* role, const char* what, unsigned mask, auto kernel, double predicted) {
        std::vector<double> counts(256, 0.0);
        for (int i = 0; i < 4 * quads; ++i) {
            for (int byte = 0; byte < 4; ++byte) counts[(b.words[static_cast<std::size_t>(i)] >> (8 * byte)) & mask] += 1;
        }
        cases.push_back({family, name, role, what, predicted,
                         [&b, kernel, quads, blocks, mask] {
                             kernel<<<static_cast<unsigned>(blocks), 256>>>(reinterpret_cast<const uint4*>(b.in), b.counters, quads, mask);
                         },
                         256, true, [counts](std::size_t i) { return counts[i]; }, 16.0 * quads,
                         [&b] { LAB_CUDA(cudaMemsetAsync(b.counters, 0, 256 * sizeof(unsigned), nullptr)); }});
    };
    // Predictions: an address takes one atomic a cycle in the L2; shared memory one lane's a cycle and bank, 32 lanes at once at best.
    const char *same = "atomics_one_address", *many = "atomics_256_addresses";
    add(same, "same_global", "baseline", "one counter, atomics in global memory", 0, metrics::count_global, 130);
    add(same, "same_aggregated", "knob", "one atomic in global memory for a warp's equal keys", 0, metrics::count_aggregated<false>, 4);
    add(same, "same_shared", "improved", "a block's own counters in shared memory", 0, metrics::count_shared<1>, 2);
    add(same, "same_shared_aggregated", "knob", "both", 0, metrics::count_aggregated<true>, 1);
    add(many, "random_global", "baseline", "256 counters, random keys, atomics in global memory", 255, metrics::count_global, 16);
    add(many, "random_shared", "improved", "a block's own counters in shared memory", 255, metrics::count_shared<1>, 1);
    add(many, "random_shared_8_copies", "knob", "eight copies a block", 255, metrics::count_shared<8>, 1);
    add(many, "random_shared_aggregated", "knob", "one atomic for a warp's equal keys: few are", 255, metrics::count_aggregated<true>, 8);
}

void add_spills(const Bench& b, Cases& cases) {
    const int rounds = b.scaled(16, 1), threads = static_cast<int>(b.values.size()) / metrics::kPoints / 256 * 256;
    const auto add = [&](const char* name, const char* role, const char* what, auto kernel, double predicted) {
        cases.push_back({"spills", name, role, what, predicted,
                         [&b, kernel, threads, rounds] { kernel<<<static_cast<unsigned>(threads / 256), 256>>>(b.in, b.out, rounds); },
                         static_cast<std::size_t>(threads) * metrics::kPoints, false,
                         [&b, threads, rounds](std::size_t i) {
                             double x[metrics::kPoints];
                             const std::size_t thread = i % static_cast<std::size_t>(threads), point = i / static_cast<std::size_t>(threads);
                             for (std::size_t p = 0; p < metrics::kPoints; ++p) x[p] = static_cast<double>(b.values[thread + p * static_cast<std::size_t>(threads)]);
                             for (int r = 0; r < rounds; ++r) {
                                 double y[metrics::kPoints];
                                 for (unsigned p = 0; p < metrics::kPoints; ++p) {  // by the matrix: entry (p, q) is −1 to the number of common bits
                                     y[p] = 0;
                                     for (unsigned q = 0; q < metrics::kPoints; ++q) y[p] += __builtin_parity(p & q) ? -x[q] : x[q];
                                     y[p] *= p % 3 == 0 ? -0.125 : 0.125;
                                 }
                                 std::copy(y, y + metrics::kPoints, x);
                             }
                             return x[point];
                         },
                         static_cast<double>(threads) * rounds * metrics::kPoints * 7});
    };
    add("spills_for_occupancy", "baseline", "room for 8 blocks an SM asked for: 32 registers, the rest in local memory", metrics::hadamard<8>, 10);
    add("spills_some", "knob", "room for 4 blocks: 64 registers", metrics::hadamard<4>, 3);
    add("spills_none", "improved", "as many registers as it takes", metrics::hadamard<1>, 1);
}

const char* counter_of(const std::string& family) {
    if (family.rfind("occupancy", 0) == 0) return "sm__warps_active.avg.pct_of_peak_sustained_active";
    if (family == "divergence") return "smsp__thread_inst_executed_per_inst_executed.ratio";
    if (family.rfind("bank", 0) == 0) return "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum";
    if (family == "instruction_mix") return "sm__inst_executed_pipe_fp64.sum";
    if (family == "index_arithmetic") return "smsp__inst_executed_pipe_alu.sum";
    if (family == "dependency_chains") return "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio";
    if (family.rfind("atomics", 0) == 0) return "lts__t_sectors_op_red.sum";
    return "smsp__inst_executed_op_local_st.sum";
}

// How far a case's results are from the host's: a line for the record, and whether they agree.
bool verify(const Bench& b, const Case& c, char (&detail)[160]) {
    lab::Random random(static_cast<std::uint64_t>(b.options.seed) ^ 0x5eedULL);
    const std::size_t samples = c.outputs <= 256 ? c.outputs : kSamples;
    double error = 0, size = 0;
    std::size_t wrong = 0;
    for (std::size_t s = 0; s < samples; ++s) {
        const std::size_t i = c.outputs <= 256 ? s : s == 0 ? c.outputs - 1 : random.bits() % c.outputs;
        const double expected = c.expected(i), got = c.exact ? static_cast<double>(b.result_word(i)) : static_cast<double>(b.results[i]);
        wrong += c.exact && got != expected ? 1 : 0;
        error += (got - expected) * (got - expected);
        size += expected * expected;
    }
    if (c.exact) {
        std::snprintf(detail, sizeof detail, "%zu of %zu results differ from the host's", wrong, samples);
        return wrong == 0;
    }
    const double relative = std::sqrt(error / size);
    std::snprintf(detail, sizeof detail, "%zu results: relative error %.2e (allowed %.0e)", samples, relative, kFloatTolerance);
    return relative <= kFloatTolerance;
}

const std::vector<std::string> kFamilies = {"occupancy_registers", "occupancy_shared", "occupancy_block", "divergence", "bank_conflicts", "bank_strides",
                                            "instruction_mix", "index_arithmetic", "dependency_chains", "atomics_one_address", "atomics_256_addresses", "spills"};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> words = {"all"};
    words.insert(words.end(), kFamilies.begin(), kFamilies.end());
    lab::Args args("Times kernels that each show one thing that keeps an SM from working, with more and less of it.");
    args.choice("--variant", &o.variant, words, "one family of kernels, or all of them");
    args.real("--work", &o.work, 0.01, 100, "steps a thread does, as a multiple of the usual");
    args.integer("--waves", &o.waves, 1, 64, "threads, as a multiple of what the GPU holds");
    args.integer("--lines", &o.lines, 64, 1 << 24, "lines of 128 bytes in the chain that is followed");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured launches");
    args.integer("--warmup", &o.warmup, 1, 1000, "launches before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random inputs");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

void fill(Bench& b) {
    lab::Random random(static_cast<std::uint64_t>(b.options.seed));
    // The largest input: 64 values a thread for the transform, keys for the counters, a value a thread for the others.
    const std::size_t count = std::max<std::size_t>(static_cast<std::size_t>(b.threads), std::size_t{1} << 24);
    b.values.resize(count);
    b.words.resize(count);
    for (float& x : b.values) x = random.uniform();
    for (unsigned& w : b.words) w = static_cast<unsigned>(random.bits() >> 33);  // below 2^31, and i + steps fits 32 bits
    b.results.resize(count);
    // One cycle through all lines (Sattolo's shuffle).
    const std::size_t lines = static_cast<std::size_t>(b.options.lines);
    std::vector<unsigned> order(lines);
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t i = lines - 1; i > 0; --i) std::swap(order[i], order[random.bits() % i]);
    b.chain.resize(lines);
    for (std::size_t i = 0; i < lines; ++i) b.chain[order[i]] = order[(i + 1) % lines];
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "compute_metrics";
    Bench b;
    b.options = parse(argc, argv);
    const Options& o = b.options;
    const std::size_t chain_bytes = static_cast<std::size_t>(o.lines) * 128;
    b.gpu = lab::open_device(metrics::count_global, chain_bytes + (std::size_t{1} << 28));
    b.threads = static_cast<int>(o.waves) * b.gpu.multiProcessorCount * b.gpu.maxThreadsPerMultiProcessor / 3072 * 3072;
    fill(b);
    const std::size_t bytes = b.values.size() * sizeof(float);
    LAB_CUDA(cudaMalloc(&b.in, bytes));
    LAB_CUDA(cudaMalloc(&b.out, bytes));
    LAB_CUDA(cudaMalloc(&b.counters, 256 * sizeof(unsigned)));
    LAB_CUDA(cudaMalloc(&b.next, chain_bytes));
    {
        std::vector<unsigned> words(static_cast<std::size_t>(o.lines) * 32);
        for (std::size_t i = 0; i < words.size(); ++i) words[i] = b.chain[i / 32] * 32 + static_cast<unsigned>(i % 32);
        LAB_CUDA(cudaMemcpy(b.next, words.data(), chain_bytes, cudaMemcpyHostToDevice));
    }

    Cases cases;
    add_occupancy(b, cases);
    add_divergence(b, cases);
    add_banks(b, cases);
    add_mix(b, cases);
    add_chains(b, cases);
    add_atomics(b, cases);
    add_spills(b, cases);

    lab::Record record{"compute_metrics", o.variant, {}, {}, {}, lab::describe(b.gpu)};
    record.parameters.add("work", o.work).add("waves", o.waves).add("lines", o.lines).add("repetitions", o.repetitions);
    record.parameters.add("warmup", o.warmup).add("seed", o.seed).add("threads", b.threads);
    const lab::ClockMeter clock;
    const lab::Flush flush(static_cast<std::size_t>(b.gpu.l2CacheSize));
    std::printf("%s: %d threads\n", b.gpu.name, b.threads);
    lab::JsonObject entries;
    lab::warm_up([&] { metrics::mix_fma<float><<<1024, 256>>>(b.in, b.out, 1024, 0.5f); });
    for (const std::string& family : kFamilies) {
        if (o.variant != "all" && o.variant != family) continue;
        std::vector<const Case*> members;
        for (const Case& c : cases) {
            if (c.family == family) members.push_back(&c);
        }
        const Case& reference = **std::find_if(members.begin(), members.end(), [](const Case* c) { return c->role == "improved"; });
        // Floats and integers share the input's memory.
        const bool integer = family.rfind("occupancy", 0) == 0 || family.rfind("atomics", 0) == 0 || family == "index_arithmetic";
        std::vector<std::vector<double>> times;
        std::vector<double> mhz;
        for (const Case* c : members) {
            const void* source = integer || c->name == "mix_integer" ? static_cast<const void*>(b.words.data()) : b.values.data();
            LAB_CUDA(cudaMemcpy(b.in, source, bytes, cudaMemcpyHostToDevice));
            LAB_CUDA(cudaMemset(b.out, 0xff, bytes));
            lab::launch_times_us(static_cast<int>(o.warmup), 0, c->launch, c->before);
            LAB_CUDA(cudaDeviceSynchronize());
            const lab::Range measured(lab::kMeasured);
            const lab::Range range(c->name);
            times.push_back(lab::launch_times_us(static_cast<int>(o.repetitions), 0, c->launch, [&] { flush(), c->before(); }));
            c->before();
            {
                const lab::Profiled once;
                c->launch();
            }
            mhz.push_back(clock.sm_mhz());
            LAB_CUDA(cudaDeviceSynchronize());
            const bool counts = c->outputs == 256;
            LAB_CUDA(cudaMemcpy(b.results.data(), counts ? static_cast<void*>(b.counters) : b.out, std::min(c->outputs * sizeof(float), bytes), cudaMemcpyDeviceToHost));
            char detail[160];
            const bool right = verify(b, *c, detail);
            record.check(c->name + "_matches_host", right, detail);
        }
        const double base = lab::median(times[static_cast<std::size_t>(std::find(members.begin(), members.end(), &reference) - members.begin())]);
        std::printf("\n%-24s %10s  %-20s %9s %9s  %s\n", family.c_str(), "time us", " (quartiles)", "predicted", "measured", counter_of(family));
        for (std::size_t i = 0; i < members.size(); ++i) {
            const Case& c = *members[i];
            const double time = lab::median(times[i]);
            lab::JsonObject entry;
            entry.add("family", family).add("name", c.name).add("role", c.role).add("what", c.what).add("counter", counter_of(family));
            lab::add_spread(entry, "time", "us", times[i]);
            entry.add("predicted_ratio", c.predicted / reference.predicted).add("measured_ratio", time / base).add("sm_clock_mhz", mhz[i]);
            if (c.operations > 0) {
                entry.add("operations", c.operations);
                entry.add("operations_per_cycle_per_sm", c.operations / time / mhz[i] / b.gpu.multiProcessorCount);
            }
            entries.add(c.name, entry);
            std::printf("  %-22s %10.1f  (%.1f ... %.1f)%*s %9.2f %9.2f", c.name.c_str(), time, lab::quantile(times[i], 0.25), lab::quantile(times[i], 0.75),
                        2, "", c.predicted / reference.predicted, time / base);
            if (c.operations > 0) std::printf("  %7.1f a cycle and SM", c.operations / time / mhz[i] / b.gpu.multiProcessorCount);
            std::printf("  %s: %s\n", c.role.c_str(), c.what.c_str());
        }
    }
    record.results.add("cases", entries);
    for (void* memory : {static_cast<void*>(b.in), static_cast<void*>(b.out), static_cast<void*>(b.counters), static_cast<void*>(b.next)}) LAB_CUDA(cudaFree(memory));
    return record.finish(o.json);
}
