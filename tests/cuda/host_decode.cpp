// Decoding by one kernel on the host: a fiber for each thread of all blocks, the instructions of cuda/decode/instructions.cuh in
// plain C++. Tells wrong results, deadlocks, and, by the address sanitizer, accesses outside an array. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
//
// With a number, the synchronization of this number in the header (the test numbers them) is left out.

#include "host_fibers.hpp"

struct float2 {
    float x, y;
};
struct __nv_bfloat16 {
    unsigned short bits;
};
static float as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static unsigned as_bits(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
static float __uint_as_float(unsigned bits) { return as_float(bits); }
static unsigned __float_as_uint(float value) { return as_bits(value); }
static float __bfloat162float(__nv_bfloat16 x) { return as_float(static_cast<unsigned>(x.bits) << 16); }
static __nv_bfloat16 __float2bfloat16_rn(float x) {
    const unsigned bits = as_bits(x);
    return {static_cast<unsigned short>(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fc0)};
}
static unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
#define __expf(x) std::exp(x)
#define __logf(x) std::log(x)
static float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <typename T>
static T __ldcg(const T* at) {
    return *at;
}
template <typename T>
static T shuffled(T x, unsigned from) {
    static std::map<unsigned, std::vector<T>> of_warps;
    auto& lanes = of_warps[fibers::now / 32];
    lanes.resize(32);
    lanes[fibers::thread() % 32] = x;
    warp_meet();
    const T found = lanes[from];
    warp_meet();
    return found;
}
template <typename T>
static T __shfl_xor_sync(unsigned, T x, int lanes) {
    return shuffled(x, fibers::thread() % 32 ^ static_cast<unsigned>(lanes));
}
static float __shfl_sync(unsigned, float x, int from) { return shuffled(x, static_cast<unsigned>(from)); }
static void __syncwarp() { warp_meet(); }
static void __threadfence() {}
template <typename T>
static T atomicMax(T* at, T x) {
    const T before = *at;
    *at = x > before ? x : before;
    return before;
}
static unsigned atomicAdd(unsigned* at, unsigned x) { return *at += x, *at - x; }
static unsigned long long atomicExch(unsigned long long* at, unsigned long long x) {
    const unsigned long long before = *at;
    return *at = x, before;
}

constexpr unsigned kBlocks = 17, kMemory = 1 << 16;
alignas(16) static unsigned char memories[kBlocks][kMemory];
static void* block_memory() { return memories[fibers::rank()]; }

namespace lab {
namespace rows {
constexpr unsigned kAllLanes = ~0u;
struct Barrier {
    int count, missing, bytes;
    unsigned phase;
    void settle() {
        if (missing < 0) std::printf("a barrier got more arrivals than it awaits\n"), std::exit(1);
        if (missing == 0 && bytes == 0) phase ^= 1, missing = count, ++fibers::happened;
    }
};
static void set_up(Barrier* b, unsigned count) { *b = {static_cast<int>(count), static_cast<int>(count), 0, 0}; }
static void publish_barriers() {}
static void expect(Barrier* b, unsigned bytes) { b->bytes += static_cast<int>(bytes), --b->missing, b->settle(); }
}  // namespace rows
namespace decode {
using rows::Barrier;
using Bf16 = __nv_bfloat16;
using Word = unsigned long long;
constexpr int kWarp = 32, kWarps = 8, kConsumers = kWarps * kWarp;

template <typename Join>
static float joined(float x, Join join) {
    static std::map<unsigned, std::vector<float>> of_warps;
    auto& lanes = of_warps[fibers::now / 32];
    lanes.resize(32);
    lanes[fibers::thread() % 32] = x;
    warp_meet();
    float found = lanes[0];
    for (int i = 1; i < 32; ++i) found = join(found, lanes[i]);
    warp_meet();
    return found;
}
static float warp_sum(float x) { return joined(x, [](float a, float b) { return a + b; }); }
static float warp_max(float x) { return joined(x, [](float a, float b) { return std::max(a, b); }); }
static void consumers_meet(int number) { LAB_UNLESS(number) fibers::meeting(1).meet(kConsumers); }
static void give_back(Barrier* empty, unsigned warps) { empty->missing -= static_cast<int>(warps), empty->settle(); }
static Word read_once_policy() { return 0; }
static void fetch_once(void* to, const void* from, unsigned bytes, Barrier* full, Word) {
    if (reinterpret_cast<Word>(to) % 16 != 0 || reinterpret_cast<Word>(from) % 16 != 0 || bytes % 16 != 0) std::printf("a copy is not aligned\n"), std::exit(1);
    std::memcpy(to, from, bytes);  // at the worst time: at once
    full->bytes -= static_cast<int>(bytes), full->settle();
}
// Words on their way: the last one told arrives first, and none before somebody waits in vain.
static std::vector<std::pair<unsigned*, unsigned>> on_the_way;
static bool one_arrives() {
    if (on_the_way.empty()) return false;
    const auto [word, value] = on_the_way.back();
    on_the_way.pop_back();
    return *word = value, ++fibers::happened, true;
}
static void tell(unsigned* word, float value, unsigned round) {
    on_the_way.emplace_back(word, static_cast<unsigned>(__float2bfloat16_rn(value).bits) << 16 | round), ++fibers::happened;
}
template <int kCount, class At>
static void hear(float2 (&values)[kCount], const At& at, unsigned round, int number) {
    LAB_UNLESS(number) fibers::until([&] {
        for (int i = 0; i < 2 * kCount; ++i) {
            while ((at(i / 2)[i % 2] & 0xffff) != round) {
                if (!one_arrives()) return false;
            }
        }
        return true;
    });
    for (int i = 0; i < kCount; ++i) values[i] = {as_float(at(i)[0] & 0xffff0000), as_float(at(i)[1] & 0xffff0000)};
}
static void arrive(unsigned* count) {
    while (one_arrives()) continue;  // what was told before is there
    ++*count, ++fibers::happened;
}
static void wait_for(Barrier* barrier, unsigned parity, int number) {
    LAB_UNLESS(number) fibers::until([&] { return barrier->phase != parity; });
}
static void wait_for_blocks(const unsigned* count, unsigned wanted, int number) {
    LAB_UNLESS(number) fibers::until([&] { return *count >= wanted; });
}
}  // namespace decode
}  // namespace lab

#include "decode_on_host.cuh"

namespace {

constexpr int kD = 512, kHeads = 4, kLayers = 2, kSlots = 8, kWidth = kD / kHeads, kVocabulary = 300, kCapacity = 112;
using lab::decode::Bf16;
using Vector = std::vector<double>;

double drawn() { return std::rand() / (RAND_MAX + 1.0) - 0.5; }
struct Matrix {
    std::vector<Bf16> at;
    int depth;
    Matrix(int rows, int depth, double size, double middle = 0.0) : at(static_cast<std::size_t>(rows) * depth), depth(depth) {
        for (auto& one : at) one = __float2bfloat16_rn(static_cast<float>(middle + size * drawn()));
    }
    double of(int row, int column) const { return __bfloat162float(at[static_cast<std::size_t>(row) * depth + column]); }
    Vector times(const Vector& x) const {
        Vector found(at.size() / depth);
        for (std::size_t r = 0; r < found.size(); ++r) {
            for (int c = 0; c < depth; ++c) found[r] += of(static_cast<int>(r), c) * x[c];
        }
        return found;
    }
    Vector normalized(const Vector& x, const Matrix& shift) const {
        double mean = 0, squares = 0;
        for (const double one : x) mean += one / kD;
        for (const double one : x) squares += (one - mean) * (one - mean) / kD;
        Vector found(kD);
        for (int c = 0; c < kD; ++c) found[c] = (x[c] - mean) / std::sqrt(squares + 1e-5) * of(0, c) + shift.of(0, c);
        return found;
    }
};
struct Weights {
    Matrix projections{3 * kD, kD, 0.15}, output{kD, kD, 0.15}, widen{4 * kD, kD, 0.15}, narrow{kD, 4 * kD, 0.1};
    Matrix gain{1, kD, 0.5, 1.0}, shift{1, kD, 0.5}, second_gain{1, kD, 0.5, 1.0}, second_shift{1, kD, 0.5};
};

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    std::vector<Weights> weights(kLayers);
    Matrix gain(1, kD, 0.5, 1.0), shift(1, kD, 0.5), to_logits(kVocabulary, kD, 0.3), tokens(kVocabulary, kD, 2.0), places(kCapacity, kD, 2.0);
    Matrix keys(2 * kLayers * kHeads * kCapacity, kWidth, 1.0), values(2 * kLayers * kHeads * kCapacity, kWidth, 2.0);
    std::vector<Bf16> x(kD), wide(4 * kD);
    std::vector<unsigned> heads(3 * kD), parts(kHeads * lab::decode::kSplits * (kWidth + 2));
    std::vector<float> logits(kVocabulary);
    std::vector<int> said(kCapacity, -7);
    int token = 11, length = 0;
    unsigned meetings[2] = {};
    lab::decode::Word best = 0;
    lab::decode::Model<kLayers> model{};
    for (int l = 0; l < kLayers; ++l) {
        Weights& w = weights[l];
        model.layers[l] = {w.projections.at.data(), w.output.at.data(), w.widen.at.data(),       w.narrow.at.data(),
                           w.gain.at.data(),        w.shift.at.data(),  w.second_gain.at.data(), w.second_shift.at.data()};
    }
    model.gain = gain.at.data(), model.shift = shift.at.data(), model.to_logits = to_logits.at.data();
    model.tokens = tokens.at.data(), model.places = places.at.data(), model.keys = keys.at.data(), model.values = values.at.data();
    model.token = &token, model.length = &length, model.said = said.data(), model.logits = logits.data(), model.best = &best;
    model.vocabulary = kVocabulary, model.capacity = kCapacity;

    for (const int start : {0, 110}) {
        for (int step = 0; step < 2 && (step == 0 || start == 0); ++step) {
            if (step == 0) length = start, token = 11 + start;
            const int before = length, given = token;
            Vector stream(kD);
            for (int c = 0; c < kD; ++c) stream[c] = tokens.of(given, c) + places.of(before, c);
            const auto row_of = [](int layer, int head, int place) { return ((2 * layer + 1) * kHeads + head) * kCapacity + place; };
            for (int l = 0; l < kLayers; ++l) {
                const Weights& w = weights[l];
                const Vector three = w.projections.times(w.gain.normalized(stream, w.shift));
                Vector mixed(kD), narrow;
                for (int h = 0; h < kHeads; ++h) {
                    Vector scores(before + 1);
                    double total = 0;
                    for (int p = 0; p <= before; ++p) {
                        for (int c = 0; c < kWidth; ++c) {
                            scores[p] += three[h * kWidth + c] * (p < before ? keys.of(row_of(l, h, p), c) : three[kD + h * kWidth + c]) / std::sqrt(kWidth);
                        }
                        total += std::exp(scores[p]);
                    }
                    for (int p = 0; p <= before; ++p) {
                        for (int c = 0; c < kWidth; ++c) {
                            mixed[h * kWidth + c] += std::exp(scores[p]) / total * (p < before ? values.of(row_of(l, h, p), c) : three[2 * kD + h * kWidth + c]);
                        }
                    }
                }
                const Vector added = w.output.times(mixed);
                for (int c = 0; c < kD; ++c) stream[c] += added[c];
                Vector wider = w.widen.times(w.second_gain.normalized(stream, w.second_shift));
                for (double& one : wider) one = 0.5 * one * (1 + std::erf(one / std::sqrt(2.0)));
                narrow = w.narrow.times(wider);
                for (int c = 0; c < kD; ++c) stream[c] += narrow[c];
            }
            const Vector wanted = to_logits.times(gain.normalized(stream, shift));

            std::memset(memories, 0xff, sizeof memories);
            const bool ended = run_grid({kBlocks, 1, 1}, lab::decode::kThreads, lab::decode::kThreads, kBlocks, [&] {
                lab::decode::token<kD, kHeads, kLayers, kSlots>(&model, x.data(), heads.data(), wide.data(), parts.data(), meetings, 5);
            }, [] {});
            if (!ended) return std::printf("%d tokens: its threads wait for each other forever\n", before), std::fflush(stdout), std::_Exit(1), 1;
            double wrong = 0, size = 0;
            int likeliest = 0;
            for (int v = 0; v < kVocabulary; ++v) {
                wrong += (logits[v] - wanted[v]) * (logits[v] - wanted[v]), size += wanted[v] * wanted[v];
                if (logits[v] > logits[likeliest]) likeliest = v;
            }
            const double error = std::sqrt(wrong / size);

            if (!(error < 0.01)) return std::printf("%d tokens: wrong, error %.3f\n", before, error), 1;
            if (length != before + 1 || token != likeliest || said[before] != likeliest || meetings[0] != 0 || meetings[1] != 0 || best != 0) {
                return std::printf("%d tokens: the next token is not told: %d %d %d\n", before, token, said[before], likeliest), 1;
            }
        }
    }
    to_logits.at[5 * kD + 3] = {0x7fc0};  // what is no number
    length = 2, token = 3;
    run_grid({kBlocks, 1, 1}, lab::decode::kThreads, lab::decode::kThreads, kBlocks, [&] {
        lab::decode::token<kD, kHeads, kLayers, kSlots>(&model, x.data(), heads.data(), wide.data(), parts.data(), meetings, 5);
    }, [] {});
    if (said[2] != -1 || token != 0) return std::printf("logits that are no numbers: %d %d\n", said[2], token), 1;
    return 0;
}
