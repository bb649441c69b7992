// Paged decode's device code on the host, beside the same in double precision: wrong results, threads that wait for each other
// forever and, by the address sanitizer, accesses outside an array. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
// With a number, the synchronization of this number (the test numbers them) is left out.

#include "host_fibers.hpp"

#include <numeric>

struct float2 {
    float x, y;
};
struct float3 {
    float x, y, z;
};
struct uint2 {
    unsigned x, y;
};
struct __nv_bfloat16 {
    unsigned short bits;
};
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static float __int_as_float(int bits) { return __uint_as_float(static_cast<unsigned>(bits)); }
static float __bfloat162float(__nv_bfloat16 x) { return __uint_as_float(static_cast<unsigned>(x.bits) << 16); }
static __nv_bfloat16 __float2bfloat16_rn(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return {static_cast<unsigned short>(x == x ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : 0x7fc0)};
}
static unsigned __byte_perm(unsigned x, unsigned y, unsigned order) {
    const unsigned long long both = static_cast<unsigned long long>(y) << 32 | x;
    unsigned found = 0;
    for (int i = 0; i < 4; ++i) found |= static_cast<unsigned>(both >> 8 * (order >> 4 * i & 7) & 0xff) << 8 * i;
    return found;
}
static int __ffs(int bits) { return __builtin_ffs(bits); }
static int __clz(int bits) { return __builtin_clz(static_cast<unsigned>(bits)); }
static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
static int min(int a, int b) { return a < b ? a : b; }
static unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
template <typename T>
static T __ldg(const T* at) {
    return *at;
}
template <typename T>
static T __ldcg(const T* at) {
    return *at;
}
static unsigned atomicAdd(unsigned* at, unsigned x) { return *at += x, *at - x; }
static void __threadfence() {}
static void __syncwarp() { warp_meet(); }

// What each lane of a warp shows to the others.
template <typename T>
static std::vector<T> shown(T x) {
    static std::map<unsigned, std::vector<T>> of_warps;
    auto& lanes = of_warps[fibers::now / 32];
    lanes.resize(32);
    lanes[fibers::thread() % 32] = x;
    warp_meet();
    const std::vector<T> found = lanes;
    warp_meet();
    return found;
}
template <typename T>
static T __shfl_xor_sync(unsigned, T x, int lanes) {
    return shown(x)[fibers::thread() % 32 ^ static_cast<unsigned>(lanes)];
}
template <typename T>
static T __shfl_sync(unsigned, T x, int from) {
    return shown(x)[static_cast<unsigned>(from) % 32];
}
template <typename T>
static T __shfl_up_sync(unsigned, T x, unsigned lanes) {
    const unsigned mine = fibers::thread() % 32;
    return shown(x)[mine < lanes ? mine : mine - lanes];
}
static unsigned __ballot_sync(unsigned, bool mine) {
    const std::vector<char> all = shown(static_cast<char>(mine));
    unsigned found = 0;
    for (unsigned i = 0; i < 32; ++i) found |= static_cast<unsigned>(all[i]) << i;
    return found;
}

alignas(128) static unsigned char memory_of_block[227 << 10];
static void* block_memory() { return memory_of_block; }
static bool lazy;  // the copy engine works when somebody waits for it, not as soon as it is asked

namespace lab {
namespace rows {
struct Barrier {
    int missing, bytes, count;
    unsigned phase;
};
// Barriers of the device are a word: here, where their states are.
using Word = unsigned long long;
static std::map<Word*, Barrier> barriers;
static std::map<Word*, std::vector<std::function<void()>>> copies;
static void settle(Word* b) {
    Barrier& one = barriers[b];
    if (one.missing < 0) std::printf("a barrier got more arrivals than it awaits\n"), std::exit(1);
    if (one.missing == 0 && one.bytes == 0) one.phase ^= 1, one.missing = one.count, ++fibers::happened;
}
static void set_up(Word* b, unsigned count) { barriers[b] = {static_cast<int>(count), 0, static_cast<int>(count), 0}, copies[b].clear(); }
static void publish_barriers() {}
static void expect(Word* b, unsigned bytes) { barriers[b].bytes += static_cast<int>(bytes), --barriers[b].missing, settle(b); }
static void fetch(void* to, const void* from, unsigned bytes, Word* b) {
    if (reinterpret_cast<Word>(to) % 16 != 0 || reinterpret_cast<Word>(from) % 16 != 0 || bytes % 16 != 0) std::printf("a copy is not aligned\n"), std::exit(1);
    const auto work = [=] { std::memcpy(to, from, bytes), barriers[b].bytes -= static_cast<int>(bytes), ++fibers::happened, settle(b); };
    if (lazy) copies[b].push_back(work);
    else work();
}
}  // namespace rows
namespace decode {
using Word = rows::Word;
static Word read_once_policy() { return 0; }
static void fetch_once(void* to, const void* from, unsigned bytes, Word* b, Word) { rows::fetch(to, from, bytes, b); }
static void give_back(Word* b, unsigned warps) { rows::barriers[b].missing -= static_cast<int>(warps), rows::settle(b); }
}  // namespace decode
namespace paged_decode {
#define LAB_RING
static void wait_for(rows::Word* b, unsigned parity, int number) {
    LAB_UNLESS(number) fibers::until([&] {
        if (rows::barriers[b].phase == parity && !rows::copies[b].empty()) {
            const auto work = rows::copies[b].back();
            rows::copies[b].pop_back(), work();
        }
        return rows::barriers[b].phase != parity;
    });
}
static void consumers_meet(int number) { LAB_UNLESS(number) fibers::meeting(1).meet(128); }
static unsigned came_before(unsigned* counter) { return atomicAdd(counter, 1); }
using Bf16 = __nv_bfloat16;
constexpr unsigned kAllLanes = ~0u;
static uint4 read_once(const Bf16* from) {
    if (reinterpret_cast<unsigned long long>(from) % 16 != 0) std::printf("a load is not aligned\n"), std::exit(1);
    return *reinterpret_cast<const uint4*>(from);
}
static uint4 read_again(const uint4* from) { return *from; }
static unsigned pair_of(float low, float high) {
    return static_cast<unsigned>(__float2bfloat16_rn(high).bits) << 16 | __float2bfloat16_rn(low).bits;
}
struct Operands {
    unsigned a[4], b[2];
};
static float element(unsigned pair, int which) { return __uint_as_float(which == 0 ? pair << 16 : pair & 0xffff0000u); }
static void multiply(float (&sums)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const std::vector<Operands> all = shown(Operands{{a0, a1, a2, a3}, {b0, b1}});
    const int g = static_cast<int>(fibers::thread()) % 32 / 4, q = static_cast<int>(fibers::thread()) % 4;
    for (int i = 0; i < 4; ++i) {
        const int row = g + i / 2 * 8, column = 2 * q + i % 2;
        for (int k = 0; k < 16; ++k) {
            const float a = element(all[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
            sums[i] += a * element(all[column * 4 + k % 8 / 2].b[k / 8], k % 2);
        }
    }
}
}  // namespace paged_decode
}  // namespace lab

#include "paged_decode_on_host.cuh"
#include "ring_on_host.cuh"

namespace {

namespace steps = lab::paged_decode;
using steps::Bf16;
using steps::kDim;

double drawn() { return std::rand() / (RAND_MAX + 1.0) * 2 - 1; }
Bf16 narrowed(double x) { return __float2bfloat16_rn(static_cast<float>(x)); }
double widened(Bf16 x) { return __bfloat162float(x); }
template <typename T>
T* made(std::size_t count) {
    return static_cast<T*>(std::aligned_alloc(16, (sizeof(T) * count + 15) / 16 * 16));
}
int wrong = 0;

// A batch of sequences: the cache in one piece and in pages, what nobody may look at filled with NaN, as the result is.
struct Batch {
    std::vector<int> lengths, table;
    int heads, group, shift, capacity = 1, row_pages = 1;
    Bf16 *q, *keys, *values, *pool_keys, *pool_values, *out;
    std::vector<double> expected;

    Batch(std::vector<int> given, int heads_of_cache, int of_group, int logarithm) : lengths(std::move(given)), heads(heads_of_cache), group(of_group), shift(logarithm) {
        const int batch = static_cast<int>(lengths.size()), page = 1 << shift;
        for (const int length : lengths) capacity = std::max(capacity, length);
        row_pages = (capacity + page - 1) / page;
        std::vector<int> order(static_cast<std::size_t>(batch * row_pages + 3));
        std::iota(order.begin(), order.end(), 0);
        for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[static_cast<std::size_t>(std::rand()) % (i + 1)]);
        const std::size_t queries = static_cast<std::size_t>(batch) * heads * group * kDim, whole = static_cast<std::size_t>(batch) * heads * capacity * kDim;
        const std::size_t pool = order.size() * static_cast<std::size_t>(heads) * page * kDim;
        q = made<Bf16>(queries), out = made<Bf16>(queries), keys = made<Bf16>(whole), values = made<Bf16>(whole);
        pool_keys = made<Bf16>(pool), pool_values = made<Bf16>(pool);
        std::memset(pool_keys, 0xff, 2 * pool), std::memset(pool_values, 0xff, 2 * pool), std::memset(keys, 0xff, 2 * whole), std::memset(values, 0xff, 2 * whole);
        for (std::size_t i = 0; i < queries; ++i) q[i] = narrowed(2 * drawn());
        table.assign(static_cast<std::size_t>(batch) * row_pages, -1);
        for (int s = 0; s < batch; ++s) {
            for (int token = 0; token < lengths[s]; ++token) {
                int& number = table[static_cast<std::size_t>(s) * row_pages + token / page];
                if (number < 0) number = order[static_cast<std::size_t>(s) * row_pages + token / page];
                for (int h = 0; h < heads; ++h) {
                    const std::size_t at = ((static_cast<std::size_t>(s) * heads + h) * capacity + token) * kDim;
                    const std::size_t to = ((static_cast<std::size_t>(number) * heads + h) * page + token % page) * kDim;
                    for (int d = 0; d < kDim; ++d) keys[at + d] = pool_keys[to + d] = narrowed(2 * drawn()), values[at + d] = pool_values[to + d] = narrowed(drawn());
                }
            }
        }
        for (int head = 0; head < batch * heads * group; ++head) {
            const int length = lengths[head / (heads * group)];
            const std::size_t from = static_cast<std::size_t>(head / group) * capacity * kDim;
            std::vector<double> weights, sums(kDim);
            double largest = -INFINITY, all = 0;
            for (int j = 0; j < length; ++j) {
                double score = 0;
                for (int d = 0; d < kDim; ++d) score += widened(q[head * kDim + d]) * widened(keys[from + static_cast<std::size_t>(j) * kDim + d]);
                weights.push_back(score / std::sqrt(kDim)), largest = std::fmax(largest, weights.back());
            }
            for (double& weight : weights) all += weight = std::exp(weight - largest);
            for (int j = 0; j < length; ++j) {
                for (int d = 0; d < kDim; ++d) sums[d] += weights[j] / all * widened(values[from + static_cast<std::size_t>(j) * kDim + d]);
            }
            expected.insert(expected.end(), sums.begin(), sums.end());
        }
    }
    ~Batch() { std::free(q), std::free(keys), std::free(values), std::free(pool_keys), std::free(pool_values), std::free(out); }

    void poison() const { std::memset(out, 0xff, 2 * expected.size()); }
    bool run(Dim grid, const std::function<void()>& body, unsigned threads = steps::kThreads) const {
        return run_grid(grid, threads, threads, 1, body, [] { std::memset(memory_of_block, 0xff, sizeof memory_of_block); });
    }
    void judge(const char* name, bool ended) const {
        double differences = 0, squares = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            differences += (widened(out[i]) - expected[i]) * (widened(out[i]) - expected[i]), squares += expected[i] * expected[i];
            if (expected[i] == 0 && widened(out[i]) != 0) differences = NAN;
        }
        const double error = std::sqrt(differences / squares);
        if (ended && error <= 5e-3) return;
        std::printf("%s, groups of %d, pages of %d: %s, error %.1e\n", name, group, 1 << shift, ended ? "wrong" : "hangs", error);
        ++wrong;
        if (!ended || left_out >= 0) std::exit(1);
    }

    template <int kGroup>
    void on_the_cores() const {
        const unsigned batch = static_cast<unsigned>(lengths.size()), of_cache = static_cast<unsigned>(heads);
        poison();
        judge("heads", run({of_cache * kGroup, batch}, [&] { steps::heads(q, keys, values, lengths.data(), out, capacity, group); }));
        poison();
        judge("groups", run({of_cache, batch}, [&] { steps::groups<kGroup>(q, keys, values, lengths.data(), out, capacity); }));
        poison();
        judge("pages", run({of_cache, batch}, [&] { steps::pages<kGroup>(q, pool_keys, pool_values, table.data(), lengths.data(), out, shift, row_pages); }));
    }
    void on_tensor_cores(const std::vector<int>& chunks, const std::vector<unsigned>& blocks) const {
        const unsigned batch = static_cast<unsigned>(lengths.size()), of_cache = static_cast<unsigned>(heads);
        poison();
        judge("tensor", run({of_cache, batch}, [&] { steps::tensor(q, pool_keys, pool_values, table.data(), lengths.data(), out, group, shift, row_pages); }));
        std::vector<unsigned> counters(lengths.size() * static_cast<std::size_t>(heads) + 2);
        const auto room = [&](std::size_t parts, const std::function<void(float*, float2*)>& use) {
            std::vector<float> sums(parts * steps::kMostGroup * kDim, NAN);
            std::vector<float2> rest(parts * steps::kMostGroup, float2{NAN, NAN});
            poison();
            use(sums.data(), rest.data());
            for (const unsigned counter : counters) {
                if (counter != 0) std::printf("a counter is left at %u\n", counter), ++wrong;
            }
        };
        for (const int chunk : chunks) {
            const unsigned most = static_cast<unsigned>((capacity + steps::kUnit * chunk - 1) / (steps::kUnit * chunk));
            const Dim grid{most, batch * of_cache};
            room(most * grid.y, [&](float* sums, float2* rest) {
                const bool first = run(grid, [&] { steps::split(q, pool_keys, pool_values, table.data(), lengths.data(), out, sums, rest, heads, group, shift, row_pages, chunk); });
                const bool second = run({of_cache, batch}, [&] { steps::combine(lengths.data(), out, sums, rest, group, chunk, static_cast<int>(most)); });
                judge("split", first && second);
            });
            room(most * grid.y, [&](float* sums, float2* rest) {
                judge("one_launch", run(grid, [&] {
                          steps::one_launch(q, pool_keys, pool_values, table.data(), lengths.data(), out, sums, rest, counters.data(), heads, group, shift, row_pages, chunk);
                      }));
            });
        }
        for (const unsigned count : blocks) {
            for (const auto& [name, kernel] : {std::pair{"balanced", steps::balanced}, std::pair{"stealing", steps::stealing}}) room(2 * (1 + steps::kPieces) * count, [&, name = name, kernel = kernel](float* sums, float2* rest) {
                judge(name, run({count, 1}, [&] {
                          kernel(q, pool_keys, pool_values, table.data(), lengths.data(), out, sums, rest, counters.data(), static_cast<int>(lengths.size()), heads, group, shift, row_pages);
                      }));
            });
            for (const bool late : {false, true}) room(2 * steps::kRanges * count, [&](float* sums, float2* rest) {
                lazy = late;
                judge("ring", run({count, 1}, [&] {
                          steps::ring(q, pool_keys, pool_values, table.data(), lengths.data(), out, sums, rest, counters.data(), static_cast<int>(lengths.size()), heads, group, shift, row_pages);
                      }, steps::kRingThreads));
            });
        }
    }
};

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    {
        const Batch some({65, 0, 1, 333, 16, 130}, 2, 4, 4);
        some.on_the_cores<4>();
        some.on_tensor_cores({1, 2, 5}, {1, 3, 5, 17, 40});
    }
    {
        const Batch lengthy({700, 3, 1600, 0, 90}, 2, 2, 4);  // enough to leave pieces for those that are done
        lengthy.on_tensor_cores({}, {1, 2, 30});
    }
    if (left_out >= 0) return 0;
    {
        const Batch wide({17, 100, 64}, 1, 8, 6);
        wide.on_the_cores<8>();
        wide.on_tensor_cores({1}, {2, 4});
    }
    {
        const Batch alone({15, 31, 2, 5, 150}, 3, 1, 4);
        alone.on_the_cores<1>();
        alone.on_tensor_cores({2}, {7});
    }
    {
        std::vector<int> many;
        for (int i = 0; i < 70; ++i) many.push_back(i % 11 == 0 ? 70 : i % 3);
        const Batch batch(many, 1, 2, 5);
        batch.on_the_cores<2>();
        batch.on_tensor_cores({1}, {13});
    }
    return wrong != 0;
}
