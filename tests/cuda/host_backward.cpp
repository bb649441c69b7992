// Attention's backward on the host, beside the gradients in double precision. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
// With a number, the synchronization of this number (the test numbers them) is left out, and the first wrong result is the last.
// With a name too, steps of that name only.

#include "host_instructions.hpp"

#include <memory>

struct alignas(8) float2 {
    float x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
static float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
static int min(int a, int b) { return a < b ? a : b; }
static float values[1024];
static float __shfl_xor_sync(unsigned, float x, int lanes) {
    const unsigned mine = fibers::thread(), other = mine ^ static_cast<unsigned>(lanes);
    values[mine] = x;
    warp_meet();
    const float found = values[other];
    warp_meet();
    return found;
}
static bool __any_sync(unsigned, bool mine) {
    bool any = mine;
    for (int lanes = 1; lanes < 32; lanes *= 2) any |= __shfl_xor_sync(0, any, lanes) != 0;
    return any;
}

#include "layout_on_host.cuh"  // the headers without their includes, synchronizations numbered
#include "attention_on_host.cuh"
#include "tensor_on_host.cuh"

namespace lab {
namespace rows {
static void fetch(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    if ((reinterpret_cast<gemm::Size>(to) | reinterpret_cast<gemm::Size>(from) | bytes) % 16 != 0) std::printf("a fetch is not on 16 bytes\n"), std::exit(1);
    std::memcpy(to, from, bytes);
    barrier->of[fibers::rank()].bytes -= static_cast<int>(bytes);
    barrier->settle(fibers::rank());
}
}  // namespace rows
namespace backward {
static int uniform(int x) { return x; }
static int thread_now() { return static_cast<int>(fibers::thread()); }
static int block_now() { return static_cast<int>(blockIdx.x); }
static void add_four(float4* to, const float* sums) {
    if (reinterpret_cast<gemm::Size>(to) % 16 != 0) std::printf("a sum is not on 16 bytes\n"), std::exit(1);
    to->x += sums[0], to->y += sums[1], to->z += sums[2], to->w += sums[3];
}
static void add_bulk(float* to, const void* from, unsigned bytes) {
    if ((reinterpret_cast<gemm::Size>(to) | reinterpret_cast<gemm::Size>(from) | bytes) % 16 != 0) std::printf("sums are not on 16 bytes\n"), std::exit(1);
    for (unsigned i = 0; i < bytes / 4; ++i) to[i] += static_cast<const float*>(from)[i];
}
static void wait_turn(const unsigned* turn, unsigned before) {
    fibers::until([&] { return *turn == before; });
}
static void pass_turn(unsigned* turn, unsigned to) { *turn = to; }
static void store_turned(void* row, const unsigned (&r)[4]) {
    const unsigned l = fibers::thread() % 32;
    gemm::warp()[l].row = row;
    warp_meet();
    for (unsigned j = 0; j < 4; ++j) {  // this lane has row l / 4, columns l % 4 * 2 and one more; a column goes to a row of memory
        for (unsigned i = 0; i < 2; ++i) {
            const unsigned short half = static_cast<unsigned short>(r[j] >> 16 * i);
            std::memcpy(static_cast<unsigned char*>(const_cast<void*>(gemm::warp()[8 * j + l % 4 * 2 + i].row)) + 2 * (l / 4), &half, 2);
        }
    }
    warp_meet();
}
template <bool kTurnA, bool kTurnB, int kCount>
void multiply(float (&d)[kCount], gemm::Size a, gemm::Size b, int adds) {
    float* const sums = d;
    gemm::products[fibers::now].open.push_back([=] {
        const gemm::Described of_a(a), of_b(b);
        const unsigned row = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, column = fibers::thread() % 4 * 2;
        for (unsigned i = 0; i < kCount; ++i) {
            if (!adds) sums[i] = 0;
        }
        for (unsigned k = 0; k < 16; ++k) {
            const auto at_a = [&](unsigned m) { return shared_bf16(kTurnA ? of_a.along_n(k, m) : of_a.along_k(m, k)); };
            const float low = at_a(row), high = at_a(row + 8);
            for (unsigned i = 0; i < kCount / 4; ++i) {
                for (unsigned j = 0; j < 2; ++j) {
                    const float x = shared_bf16(kTurnB ? of_b.along_n(k, 8 * i + column + j) : of_b.along_k(8 * i + column + j, k));
                    sums[4 * i + j] += low * x, sums[4 * i + 2 + j] += high * x;
                }
            }
        }
    });
}
}  // namespace backward
}  // namespace lab

#define __syncwarp warp_meet
#include "backward_on_host.cuh"

namespace {

namespace steps = lab::backward;
using lab::gemm::Bf16;
using Doubles = std::vector<double>;
int wrong = 0;
std::string only;

float widened(Bf16 x) { return __bfloat162float(x); }

// Arrays of exactly these sizes, so that the address sanitizer sees what is beyond.
template <typename T>
std::shared_ptr<T> array(std::size_t count, T value) {
    T* const made = static_cast<T*>(std::aligned_alloc(16, (sizeof(T) * count + 15) / 16 * 16));
    for (std::size_t i = 0; i < count; ++i) made[i] = value;
    return {made, std::free};
}

struct Case {
    int kv_heads, group, length;
    bool causal;
    int heads() const { return kv_heads * group; }
    std::size_t rows() const { return static_cast<std::size_t>(heads()) * length; }
};

struct Problem {
    Case of;
    std::shared_ptr<Bf16> q, k, v, result, slope;
    std::shared_ptr<float> log_sums;
    Doubles logs, of_q, of_k, of_v;

    explicit Problem(Case given) : of(given) {
        const std::size_t d = steps::kDim, length = static_cast<std::size_t>(of.length), keys = of.kv_heads * length;
        const auto random = [&](std::size_t rows, float over) {
            auto made = array<Bf16>(rows * d, Bf16{});
            for (std::size_t i = 0; i < rows * d; ++i) made.get()[i] = __float2bfloat16_rn(std::rand() % 2001 / over - 1000 / over);
            return made;
        };
        q = random(of.rows(), 400), k = random(keys, 400), v = random(keys, 1000), slope = random(of.rows(), 1000);
        result = array<Bf16>(of.rows() * d, Bf16{}), log_sums = array<float>(of.rows(), NAN);
        of_q.assign(of.rows() * d, 0), of_k.assign(keys * d, 0), of_v.assign(keys * d, 0), logs.assign(of.rows(), 0);
        for (std::size_t row = 0; row < of.rows(); ++row) {
            const std::size_t head = row / length, first = head / of.group * length, seen = of.causal ? row % length + 1 : length;
            Doubles w(seen), along(seen);
            double largest = -INFINITY, sum = 0, mean = 0;
            for (std::size_t j = 0; j < seen; ++j) {
                for (std::size_t i = 0; i < d; ++i) {
                    w[j] += static_cast<double>(widened(q.get()[row * d + i])) * widened(k.get()[(first + j) * d + i]);
                    along[j] += static_cast<double>(widened(slope.get()[row * d + i])) * widened(v.get()[(first + j) * d + i]);
                }
                largest = std::fmax(largest, w[j] /= std::sqrt(static_cast<double>(d)));
            }
            for (double& x : w) sum += x = std::exp(x - largest);
            logs[row] = largest + std::log(sum);
            Doubles out(d);
            for (std::size_t j = 0; j < seen; ++j) {
                mean += (w[j] /= sum) * along[j];
                for (std::size_t i = 0; i < d; ++i) out[i] += w[j] * widened(v.get()[(first + j) * d + i]);
            }
            for (std::size_t i = 0; i < d; ++i) result.get()[row * d + i] = __float2bfloat16_rn(static_cast<float>(out[i]));
            for (std::size_t j = 0; j < seen; ++j) {
                const double s = w[j] * (along[j] - mean) / std::sqrt(static_cast<double>(d));
                for (std::size_t i = 0; i < d; ++i) {
                    of_q[row * d + i] += s * widened(k.get()[(first + j) * d + i]);
                    of_k[(first + j) * d + i] += s * widened(q.get()[row * d + i]);
                    of_v[(first + j) * d + i] += w[j] * widened(slope.get()[row * d + i]);
                }
            }
        }
        for (std::size_t row = 0; row < of.rows(); ++row) log_sums.get()[row] = static_cast<float>(logs[row]);
    }
};

void clear() {
    lab::gemm::copies.clear(), lab::gemm::products.clear();
    std::memset(memories, 0xff, sizeof memories);
}

template <typename T>
double error_of(const Doubles& expected, const T* found) {
    double differences = 0, squares = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        double x;
        if constexpr (std::is_same_v<T, float>) x = found[i];
        else x = widened(found[i]);
        differences += (x - expected[i]) * (x - expected[i]), squares += expected[i] * expected[i];
    }
    return std::sqrt(differences / std::fmax(squares, 1e-3));  // of a single key the gradients are 0
}

void judge(const std::string& name, const Case& of, const char* what, bool ended, double error, double allowed) {
    if (ended && error <= allowed) return;
    std::printf("%s, %d of %d + %d heads%s: %s %s, error %.1e\n", name.c_str(), of.length, of.heads(), of.kv_heads, of.causal ? ", causal" : "", what,
                ended ? "wrong" : "hangs", error);
    ++wrong;
    if (!ended) std::exit(1);
}

lab::gemm::TensorMap map(const std::shared_ptr<Bf16>& x, int length, int box_rows) { return {x.get(), length, steps::kDim, steps::kDim, box_rows}; }
unsigned blocks(int whole, int part) { return static_cast<unsigned>((whole + part - 1) / part); }

bool skipped(const char* name) { return (wrong != 0 && left_out >= 0) || (!only.empty() && only != name); }

struct Found {
    std::shared_ptr<Bf16> of_q, of_k, of_v;
    std::shared_ptr<float> logs, means, sums;
    std::shared_ptr<unsigned> turns;
    int padded;
    Found(const Problem& of, int queries, bool adds) : padded(static_cast<int>(blocks(of.of.length, queries)) * queries) {
        const std::size_t rows = static_cast<std::size_t>(of.of.heads()) * padded;
        const Bf16 nan = __float2bfloat16_rn(NAN);
        of_q = array(of.of_q.size(), nan), of_k = array(of.of_k.size(), nan), of_v = array(of.of_v.size(), nan);
        logs = array(rows, NAN), means = array(rows, NAN), sums = array(adds ? rows * steps::kDim : 1, NAN), turns = array(rows, 77u);
        run_grid({blocks(padded, steps::kRowThreads / 32), static_cast<unsigned>(of.of.heads()), 1}, steps::kRowThreads, steps::kRowThreads, 1,
                 [&] { steps::prepare(of.result.get(), of.slope.get(), of.log_sums.get(), logs.get(), means.get(), adds ? sums.get() : nullptr, adds ? turns.get() : nullptr, of.of.length, padded, of.of.heads()); }, clear);
    }
};

template <typename P>
void check(const char* name, const Problem& of, double allowed = 6e-3) {
    if (skipped(name)) return;
    constexpr bool kAdds = P::kAdding != steps::kNone;
    const Case& c = of.of;
    Found found(of, P::kQueries, kAdds);
    static_assert(P::kBytes <= static_cast<int>(kMemory), "a block's shared memory");
    bool ended = run_grid({blocks(c.length, steps::kKeys), static_cast<unsigned>(c.kv_heads), 1}, steps::kBlockThreads, steps::kBlockThreads, 1, [&] {
        steps::one_pass<P>(map(of.q, c.length, P::kQueries), map(of.k, c.length, steps::kKeys), map(of.v, c.length, steps::kKeys), map(of.slope, c.length, P::kQueries),
                           found.logs.get(), found.means.get(), found.sums.get(), found.turns.get(), found.of_k.get(), found.of_v.get(), c.length, c.group, c.causal);
    }, clear);
    judge(name, c, "of V", ended, error_of(of.of_v, found.of_v.get()), allowed);
    judge(name, c, "of K", ended, error_of(of.of_k, found.of_k.get()), allowed);
    if constexpr (kAdds) {
        run_grid({blocks(c.length * (steps::kDim / 8), steps::kRowThreads), static_cast<unsigned>(c.heads()), 1}, steps::kRowThreads, steps::kRowThreads, 1,
                 [&] { steps::finish<P::kQueries, P::kTurned>(found.sums.get(), found.of_q.get(), c.length, found.padded); }, clear);
        judge(name, c, "of Q", ended, error_of(of.of_q, found.of_q.get()), allowed);
    }
}

template <bool kLogs>
void check_rows(const char* name, const Problem& of) {
    if (skipped(name)) return;
    const Case& c = of.of;
    using R = steps::Rows;
    Found found(of, 64, false);
    const auto logs = array(of.logs.size(), NAN);
    const bool ended = run_grid({blocks(c.length, R::kQueries), static_cast<unsigned>(c.heads()), 1}, steps::kBlockThreads, steps::kBlockThreads, 1, [&] {
        steps::of_rows<kLogs>(map(of.q, c.length, R::kQueries), map(of.k, c.length, R::kTileKeys), map(of.v, c.length, R::kTileKeys), map(of.slope, c.length, R::kQueries),
                              found.logs.get(), found.means.get(), found.of_q.get(), logs.get(), c.length, found.padded, c.group, c.causal);
    }, clear);
    if (kLogs) judge(name, c, "log_sums", ended, error_of(of.logs, logs.get()), 1e-5);
    else judge(name, c, "of Q", ended, error_of(of.of_q, found.of_q.get()), 6e-3);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    if (count > 2) only = words[2];
    using namespace steps;
    const Case cases[] = {{1, 2, 140, true}, {2, 1, 65, false}, {1, 1, 1, true}};
    for (const Case& one : cases) {
        const Problem of(one);
        check_rows<true>("log_sums", of);
        check_rows<false>("rows", of);
        check<Plan<64, kOneByOne, kNone>>("keys", of);
        check<Plan<64, kOneByOne, kThreads>>("one_pass", of);
        check<Plan<64, kTogether, kThreads>>("together", of);
        check<Plan<64, kAhead, kThreads, false, true>>("ahead", of);
        check<Plan<64, kAhead, kThreads, true>>("held", of);
        check<Plan<80, kAhead, kThreads>>("tall", of);
        check<Plan<64, kAhead, kBulk, false, true>>("bulk", of);
        check<Plan<64, kAhead, kOrdered, false, true>>("ordered", of);
        check<Plan<64, kTogether, kThreads, false, false, true>>("turned", of);
        if (left_out >= 0 && wrong != 0) break;
    }
    return wrong != 0;
}
