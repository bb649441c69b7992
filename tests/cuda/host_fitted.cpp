// Grouped matmul and Stream-K on the host, as host_gemm.cpp has it: a fiber for each thread of the blocks of a cluster, the
// instructions in plain C++. Tells wrong results, deadlocks, and, by the address sanitizer, accesses outside an array.
// SPDX-License-Identifier: Apache-2.0
//
// With a number, the synchronization of this number in the headers (the test numbers them) is left out.
// With one of stream_k, joint, second, aside, along, few, halves, pairs, cluster, grouped: these kernels only.

#include <algorithm>

#include "host_instructions.hpp"
#include "layout_on_host.cuh"
#include "bf16_on_host.cuh"

struct alignas(8) float2 {
    float x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace lab {
namespace gemm {
// What blocks tell each other: those that are waited for have run.
static bool deaf;  // nobody waits for what others have
inline void put_sums(float4* to, const float* sums) { *to = {sums[0], sums[1], sums[2], sums[3]}; }
inline void add_sums(float* sums, const float4* from) { sums[0] += from->x, sums[1] += from->y, sums[2] += from->z, sums[3] += from->w; }
inline void tell(unsigned* flag) {
    warp_meet();
    if (fibers::thread() % 32 == 0) *flag = 1, ++fibers::happened;
}
inline void hear(unsigned* flag) {
    if (fibers::thread() % 32 == 0) {
        fibers::until([&] { return *flag == 1; });
        *flag = 0, ++fibers::happened;
    }
    warp_meet();
}
inline float4 __ldcg(const float4* from) { return *from; }
inline void count_in(unsigned* counter) {
    warp_meet();
    if (fibers::thread() % 32 == 0) ++*counter, ++fibers::happened;
}
inline void await_count(unsigned* counter, unsigned count, int number) {
    if (number != left_out && fibers::thread() % 32 == 0) fibers::until([&] { return *counter >= count; });
    warp_meet();
}
inline void count_out(unsigned* counter, unsigned all) {
    warp_meet();
    if (fibers::thread() % 32 == 0 && ++*counter == all) *counter = 0;
}
inline int draw(unsigned* queue) { return static_cast<int>((*queue)++); }
inline float4 sums_in(int block, const float4* pointer) {
    float4 four;
    std::memcpy(&four, &memories[block][rows::shared_address(pointer) - kFirst], sizeof four);
    return four;
}
template <typename T>
T __ldg(const T* from) {
    if (reinterpret_cast<Size>(from) % sizeof(T) != 0) std::printf("a read of %zu bytes is not aligned\n", sizeof(T)), std::exit(1);
    return *from;
}
inline unsigned turned(unsigned pair) {
    const unsigned l = fibers::thread() % 32;
    warp()[l].a[0] = pair;
    warp_meet();
    const auto of = [&](unsigned row) { return warp()[4 * row + l / 8].a[0] >> 16 * (l / 4 % 2) & 0xffff; };
    const unsigned word = of(l % 4 * 2) | of(l % 4 * 2 + 1) << 16;
    warp_meet();
    return word;
}
// 64 × 8 of a group. B along n lies without a swizzle, eight columns wide; A along m as B otherwise does.
template <bool kTurnedA, bool kTurnedB>
void multiply_few(float (&d)[4], Size a, Size b, int adds) {
    float* const sums = d;
    products[fibers::now].open.push_back([=] {
        const Described of_a(a);
        const unsigned row = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, column = fibers::thread() % 4 * 2;
        if (kTurnedB && b >> 62 != 0) std::printf("eight columns along n have no swizzle\n"), std::exit(1);
        const auto at_a = [&](unsigned r, unsigned k) { return shared_bf16(kTurnedA ? of_a.along_n(k, r) : of_a.along_k(r, k)); };
        const auto at_b = [&](unsigned k, unsigned n) {
            return shared_bf16(kTurnedB ? static_cast<unsigned>(b & 0x3fff) * 16 + k / 8 * (static_cast<unsigned>(b >> 16 & 0x3fff) * 16) + k % 8 * 16 + 2 * n : Described(b).along_k(n, k));
        };
        for (unsigned i = 0; i < 4; ++i) {
            if (!adds) sums[i] = 0;
            for (unsigned k = 0; k < 16; ++k) sums[i] += at_a(row + i / 2 * 8, k) * at_b(k, column + i % 2);
        }
    });
}
// Adds to 64 × kN sums of a group: columns of B by rows of A.
template <int kN>
void multiply_columns(float (&d)[kN / 2], Size columns, Size rows) {
    float* const sums = d;
    products[fibers::now].open.push_back([=] {
        const Described of_b(columns), of_a(rows);
        const unsigned column = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, row = fibers::thread() % 4 * 2;
        for (unsigned i = 0; i < kN / 2; ++i) {
            for (unsigned k = 0; k < 16; ++k) sums[i] += shared_bf16(of_b.along_n(k, column + i % 4 / 2 * 8)) * shared_bf16(of_a.along_k(i / 4 * 8 + row + i % 2, k));
        }
    });
}
inline void put_in(int block, float* pointer, float x) { std::memcpy(&memories[block][rows::shared_address(pointer) - kFirst], &x, sizeof x); }
inline void put_four_in(int block, float4* pointer, const float* x) { std::memcpy(&memories[block][rows::shared_address(pointer) - kFirst], x, sizeof *pointer); }
inline void consumers_meet(int number) { LAB_UNLESS(number) fibers::meeting(3).meet(256); }
}  // namespace gemm
namespace rows {
inline float warp_sum(float x) {
    gemm::warp()[fibers::thread() % 32].a[0] = 0;
    std::memcpy(gemm::warp()[fibers::thread() % 32].a, &x, 4);
    warp_meet();
    float sum = 0;
    for (int i = 0; i < 32; ++i) {
        float one;
        std::memcpy(&one, gemm::warp()[i].a, 4);
        sum += one;
    }
    warp_meet();
    return sum;
}
}  // namespace rows
}  // namespace lab
#define memcpy std::memcpy
#define __noinline__
#include "fitted_on_host.cuh"
#include "stream_k_on_host.cuh"
#include "grouped_on_host.cuh"

namespace {

using namespace lab::gemm;

int wrong = 0;
unsigned over(int whole, int part) { return static_cast<unsigned>(parts(whole, part)); }

void expect(bool holds, const char* what) {
    if (holds) return;
    std::printf("wrong: %s\n", what);
    ++wrong;
}

void launch(unsigned grid, unsigned threads, unsigned cluster, std::function<void()> body, const char* name) {
    const bool ended = run_grid({grid, 1, 1}, threads, threads, cluster, std::move(body), [] {
        copies.clear(), products.clear();
        std::memset(memories, 0xff, sizeof memories);
    });
    if (ended) return;
    std::printf("%s: its threads wait for each other forever\n", name);
    std::exit(1);
}

// An array of exactly this many elements, on 16 bytes or `late` elements behind.
struct Array {
    Bf16* memory;
    Bf16* at;
    Array(Size count, int late) : memory(static_cast<Bf16*>(std::aligned_alloc(16, ((count + late) * 2 + 15) / 16 * 16))), at(memory + late) {}
    ~Array() { std::free(memory); }
    void fill(Size count, bool poison) {
        for (Size i = 0; i < count; ++i) at[i] = __float2bfloat16_rn(poison ? NAN : static_cast<float>(std::rand() % 5 - 2));
    }
};

template <typename Expected>
void compare(const char* name, const Bf16* c, int m, int n, int ldc, const Expected& expected) {
    long different = 0, outside = 0;
    for (int r = 0; r < m; ++r) {
        for (int i = 0; i < (r + 1 < m ? ldc : n); ++i) {
            const float found = __bfloat162float(c[static_cast<Size>(r) * ldc + i]);
            if (i >= n) outside += found == found;
            else different += !(found == __bfloat162float(__float2bfloat16_rn(expected(r, i))));
        }
    }
    if (different == 0 && outside == 0) return;
    std::printf("%s, %d x %d: %ld elements are wrong, %ld were written between the rows\n", name, m, n, different, outside);
    ++wrong;
}

void tiles() {
    for (const int m : {1, 64, 65, 128, 129, 300, 1000}) {
        for (const int n : {1, 128, 129, 256, 257, 700}) {
            for (const int tall : {128, 256}) {
                for (const int wide : {128, 256}) {
                    const Tiles t(m, n, 200, tall, wide);
                    std::set<std::pair<int, int>> places;
                    for (int i = 0; i < t.count(); ++i) {
                        const Place at = t.place(i, 4);
                        expect(at.row * tall < m && at.column * wide < n, "tiles lie in the matrix");
                        expect((i < t.full()) == ((at.row + 1) * tall <= m && (at.column + 1) * wide <= n), "whole tiles come first");
                        places.insert({at.row, at.column});
                    }
                    expect(static_cast<int>(places.size()) == t.count() && t.count() == parts(m, tall) * parts(n, wide), "every tile is taken once");
                    for (const int all : {1, 2, 3, 7}) {
                        for (const int whole : {0, t.full() / 2, t.full(), t.count()}) {
                            std::set<int> stages;
                            long long most = 0, sum = 0;
                            bool ended = whole >= t.count();
                            for (int part = 0; part < all; ++part) {
                                Line line(t, whole, part, all);
                                expect(!ended || line.stage == line.end, "parts without a stage are behind all others");
                                ended |= line.stage == line.end;
                                Run run{};
                                long long cost = 0;
                                while (line.next(t, run)) {
                                    expect(run.last > run.first && run.last <= t.stages, "a run has stages");
                                    for (int s = run.first; s < run.last; ++s) expect(stages.insert(run.tile * t.stages + s).second, "no stage is taken twice");
                                    const Place at = t.place(run.tile, 4);
                                    const bool low = at.row == t.down, right = at.column == t.across;
                                    cost += static_cast<long long>(run.last - run.first) * (low && right ? t.corner : low ? t.thin : right ? t.slim : kCostFull);
                                }
                                most = std::max(most, cost), sum += cost;
                            }
                            const long long deal = static_cast<long long>(parts(whole, all)) * t.stages * kCostFull;
                            expect(static_cast<int>(stages.size()) == t.count() * t.stages, "every stage is taken");
                            expect(most <= std::max(deal, sum / all + 1) + 3 * kCostFull, "no part costs more than its share, but for a few stages");
                        }
                    }
                }
            }
        }
    }
}

struct Sides {
    int m, n, k;
};

template <typename R, int kBlocks, bool kEngine>
void line(const char* name, Sides s, unsigned blocks, int whole_parts) {  // 2: all; 3: all of full size
    if (wrong != 0 && left_out >= 0) return;
    const int up = kEngine ? 8 : 1, lda = parts(s.k, 8) * 8, ldb = parts(s.n, 8) * 8, ldc = parts(s.n, up) * up;
    Array a(static_cast<Size>(s.m) * lda, 0), b(static_cast<Size>(s.k) * ldb, 0), c(static_cast<Size>(s.m - 1) * ldc + s.n, kEngine ? 0 : 1);
    a.fill(static_cast<Size>(s.m) * lda, false), b.fill(static_cast<Size>(s.k) * ldb, false), c.fill(static_cast<Size>(s.m - 1) * ldc + s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, lda, kGroupM}, map_b{b.at, s.k, s.n, ldb, kTileK}, map_c{c.at, s.m, s.n, ldc, kGroupM};
    const Tiles t(s.m, s.n, s.k, kBlocks * kTileM, R::kN);
    const int whole = whole_parts == 2 ? t.count() : whole_parts == 3 ? t.full() : t.full() * whole_parts / 2;
    const unsigned clusters = whole_parts == 2 ? std::min(blocks / kBlocks, static_cast<unsigned>(t.count())) : blocks / kBlocks;
    std::vector<float4> sums(static_cast<Size>(clusters) * kBlocks * 8 * 32 * R::kN / 8, float4{NAN, NAN, NAN, NAN});
    std::vector<unsigned> flags(static_cast<Size>(clusters) * kBlocks * 8);
    launch(clusters * kBlocks, kWorkThreads, kBlocks, [&] { stream_k<R, kBlocks, kEngine>(map_a, map_b, map_c, t, c.at, sums.data(), flags.data(), ldc, whole); }, name);
    compare(name, c.at, s.m, s.n, ldc, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * lda + k]) * __bfloat162float(b.at[static_cast<Size>(k) * ldb + column]);
        return sum;
    });
    for (const unsigned flag : flags) expect(flag == 0, "flags are as they were");
}

// Two blocks side by side, as those of a cluster are here: they wait for each other.
template <typename R, bool kEngine>
void together(Sides s, unsigned blocks, int whole) {
    if (wrong != 0 && left_out >= 0) return;
    const int up = kEngine ? 8 : 1, lda = parts(s.k, 8) * 8, ldb = parts(s.n, 8) * 8, ldc = parts(s.n, up) * up;
    Array a(static_cast<Size>(s.m) * lda, 0), b(static_cast<Size>(s.k) * ldb, 0), c(static_cast<Size>(s.m - 1) * ldc + s.n, kEngine ? 0 : 1);
    a.fill(static_cast<Size>(s.m) * lda, false), b.fill(static_cast<Size>(s.k) * ldb, false), c.fill(static_cast<Size>(s.m - 1) * ldc + s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, lda, kGroupM}, map_b{b.at, s.k, s.n, ldb, kTileK}, map_c{c.at, s.m, s.n, ldc, kGroupM};
    const Tiles t(s.m, s.n, s.k, kTileM, R::kN);
    std::vector<float4> sums(static_cast<Size>(blocks) * 8 * 32 * R::kN / 8, float4{NAN, NAN, NAN, NAN});
    std::vector<unsigned> counters(t.count());
    launch(blocks, kWorkThreads, 2, [&] { joint<R, kEngine>(map_a, map_b, map_c, t, c.at, sums.data(), counters.data(), ldc, whole, 2); }, "joint");
    compare("joint", c.at, s.m, s.n, ldc, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * lda + k]) * __bfloat162float(b.at[static_cast<Size>(k) * ldb + column]);
        return sum;
    });
    for (const unsigned counter : counters) expect(counter == 0, "counters are as they were");
}

template <typename R = Deep>
void second_pass(Sides s, int cuts) {
    if (wrong != 0 && left_out >= 0) return;
    Array a(static_cast<Size>(s.m) * s.k, 0), b(static_cast<Size>(s.k) * s.n, 0), c(static_cast<Size>(s.m) * s.n, 0);
    a.fill(static_cast<Size>(s.m) * s.k, false), b.fill(static_cast<Size>(s.k) * s.n, false), c.fill(static_cast<Size>(s.m) * s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, s.k, kGroupM}, map_b{b.at, s.k, s.n, s.n, kTileK};
    const Tiles t(s.m, s.n, s.k, kTileM, R::kN);
    std::vector<float> sums(static_cast<Size>(s.m) * s.n * cuts, NAN);
    launch(2, kWorkThreads, 1, [&] { split<R>(map_a, map_b, t, sums.data(), cuts); }, "split");
    launch(over(s.m * s.n, 4 * kAddThreads), kAddThreads, 1, [&] { add_parts(sums.data(), c.at, s.m, s.n, s.n, cuts); }, "add_parts");
    compare("split", c.at, s.m, s.n, s.n, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * s.k + k]) * __bfloat162float(b.at[static_cast<Size>(k) * s.n + column]);
        return sum;
    });
}

// Few rows and columns in no tile.
template <bool kEngine>
void beside(Sides s, unsigned blocks) {
    if (wrong != 0 && left_out >= 0) return;
    const int up = kEngine ? 8 : 1, lda = parts(s.k, 8) * 8, ldb = parts(s.n, 8) * 8, ldc = parts(s.n, up) * up;
    Array a(static_cast<Size>(s.m) * lda, 0), b(static_cast<Size>(s.k) * ldb, 0), c(static_cast<Size>(s.m - 1) * ldc + s.n, kEngine ? 0 : 1);
    a.fill(static_cast<Size>(s.m) * lda, false), b.fill(static_cast<Size>(s.k) * ldb, false), c.fill(static_cast<Size>(s.m - 1) * ldc + s.n, true);
    for (int r = 0; r < s.m; ++r) std::fill(a.at + static_cast<Size>(r) * lda + s.k, a.at + static_cast<Size>(r + 1) * lda, Bf16{0});  // as packed rows are
    const TensorMap map_a{a.at, s.m, s.k, lda, kGroupM}, map_b{b.at, s.k, s.n, ldb, kTileK}, map_c{c.at, s.m, s.n, ldc, kGroupM};
    const auto tiled = [](int side, int tile) { return side > tile && side % tile <= kFew ? side - side % tile : side; };
    const Rest rest{a.at, b.at, c.at, s.m, s.n, s.k, lda, ldb, ldc, tiled(s.m, kTileM), tiled(s.n, Wide::kN)};
    const Tiles t(rest.rows, rest.columns, s.k, 2 * kTileM, Wide::kN);
    launch(blocks, kWorkThreads, 2, [&] { aside<Wide, 2, kEngine>(map_a, map_b, map_c, t, rest); }, "aside");
    compare("aside", c.at, s.m, s.n, ldc, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * lda + k]) * __bfloat162float(b.at[static_cast<Size>(k) * ldb + column]);
        return sum;
    });
}

// … some tiles have them. The tiles in any order, each cluster's with strips first.
template <bool kEngine>
void with_few(Sides s, unsigned blocks) {
    if (wrong != 0 && left_out >= 0) return;
    const int up = kEngine ? 8 : 1, lda = parts(s.k, 8) * 8, ldb = parts(s.n, 8) * 8, ldc = parts(s.n, up) * up;
    Array a(static_cast<Size>(s.m) * lda, 0), b(static_cast<Size>(s.k) * ldb, 0), c(static_cast<Size>(s.m - 1) * ldc + s.n, kEngine ? 0 : 1);
    a.fill(static_cast<Size>(s.m) * lda, false), b.fill(static_cast<Size>(s.k) * ldb, false), c.fill(static_cast<Size>(s.m - 1) * ldc + s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, lda, kGroupM}, map_b{b.at, s.k, s.n, ldb, kTileK}, map_c{c.at, s.m, s.n, ldc, kGroupM};
    const TensorMap few_a{a.at, s.m, s.k, lda, kFew}, few_b{b.at, s.k, ldb, ldb, kTileK, kFew};
    const auto tiled = [](int side, int tile) { return side > tile && side % tile <= kFew ? side - side % tile : side; };
    const Rest rest{a.at, b.at, c.at, s.m, s.n, s.k, lda, ldb, ldc, tiled(s.m, kTileM), tiled(s.n, Wide::kN)};
    const Tiles t(rest.rows, rest.columns, s.k, 2 * kTileM, Wide::kN);
    const int down = parts(rest.rows, 2 * kTileM), across = parts(rest.columns, Wide::kN);
    std::vector<int> order, plain;
    std::set<int> rows_done, columns_done;
    for (int tile = t.count() - 1; tile >= 0; --tile) {  // each row and column of tiles where it comes first
        const Place at = t.place(tile, kBand);
        const int right = rest.columns < s.n && rows_done.insert(at.row).second, below = rest.rows < s.m && columns_done.insert(at.column).second;
        (right + below != 0 ? order : plain).push_back(4 * tile + right + 2 * below);
    }
    expect(static_cast<int>(rows_done.size()) <= down && static_cast<int>(columns_done.size()) <= across, "no more rows and columns than there are");
    order.insert(order.end(), plain.begin(), plain.end());
    launch(std::min(blocks, 2u * t.count()), kWorkThreads, 2, [&] { along<Wide, 2, kEngine>(map_a, map_b, map_c, few_a, few_b, t, rest, order.data()); }, "along");
    compare("along", c.at, s.m, s.n, ldc, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * lda + k]) * __bfloat162float(b.at[static_cast<Size>(k) * ldb + column]);
        return sum;
    });
}

// At most 16 rows.
void few_rows(Sides s, int cuts) {
    if (wrong != 0 && left_out >= 0) return;
    Array a(static_cast<Size>(s.m) * s.k, 0), b(static_cast<Size>(s.k) * s.n, 0), c(static_cast<Size>(s.m) * s.n, 0);
    a.fill(static_cast<Size>(s.m) * s.k, false), b.fill(static_cast<Size>(s.k) * s.n, false), c.fill(static_cast<Size>(s.m) * s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, s.k, kFewRows}, map_b{b.at, s.k, s.n, s.n, kTileK};
    const Tiles t(s.m, s.n, s.k, kTileM, kNarrow);
    std::vector<float> sums(static_cast<Size>(s.m) * s.n * cuts, NAN);
    launch(2, 2 * kGroupThreads, 1, [&] { split_few(map_a, map_b, t, sums.data(), cuts); }, "split_few");
    launch(over(s.m * s.n, 4 * kAddThreads), kAddThreads, 1, [&] { add_parts(sums.data(), c.at, s.m, s.n, s.n, cuts); }, "add_parts");
    compare("few", c.at, s.m, s.n, s.n, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * s.k + k]) * __bfloat162float(b.at[static_cast<Size>(k) * s.n + column]);
        return sum;
    });
}

template <typename H>
void by_halves(Sides s) {
    if (wrong != 0 && left_out >= 0) return;
    Array a(static_cast<Size>(s.m) * s.k, 0), b(static_cast<Size>(s.k) * s.n, 0), c(static_cast<Size>(s.m) * s.n, 0);
    a.fill(static_cast<Size>(s.m) * s.k, false), b.fill(static_cast<Size>(s.k) * s.n, false), c.fill(static_cast<Size>(s.m) * s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, s.k, H::kRows}, map_b{b.at, s.k, s.n, s.n, H::kDeep * kTileK};
    launch(2 * over(s.n, kBox) * over(s.m, H::kRows), kHalvesThreads, 2, [&] { halves<H>(map_a, map_b, c.at, s.m, s.n, s.k); }, "halves");
    compare("halves", c.at, s.m, s.n, s.n, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * s.k + k]) * __bfloat162float(b.at[static_cast<Size>(k) * s.n + column]);
        return sum;
    });
}

template <typename R>
void by_pairs(Sides s, int cuts) {
    if (wrong != 0 && left_out >= 0) return;
    Array a(static_cast<Size>(s.m) * s.k, 0), b(static_cast<Size>(s.k) * s.n, 0), c(static_cast<Size>(s.m) * s.n, 0);
    a.fill(static_cast<Size>(s.m) * s.k, false), b.fill(static_cast<Size>(s.k) * s.n, false), c.fill(static_cast<Size>(s.m) * s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, s.k, kGroupM}, map_b{b.at, s.k, s.n, s.n, kTileK};
    const Tiles t(s.m, s.n, s.k, kTileM, R::kN);
    std::vector<float> sums(static_cast<Size>(s.m) * s.n * cuts / 2, NAN);
    launch(static_cast<unsigned>(t.count() * cuts), kWorkThreads, 2, [&] { split_pairs<R>(map_a, map_b, t, sums.data(), cuts); }, "split_pairs");
    launch(over(s.m * s.n, 4 * kAddThreads), kAddThreads, 1, [&] { add_parts(sums.data(), c.at, s.m, s.n, s.n, cuts / 2); }, "add_parts");
    compare("pairs", c.at, s.m, s.n, s.n, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * s.k + k]) * __bfloat162float(b.at[static_cast<Size>(k) * s.n + column]);
        return sum;
    });
}

void by_clusters(Sides s) {
    if (wrong != 0 && left_out >= 0) return;
    Array a(static_cast<Size>(s.m) * s.k, 0), b(static_cast<Size>(s.k) * s.n, 0), c(static_cast<Size>(s.m) * s.n, 0);
    a.fill(static_cast<Size>(s.m) * s.k, false), b.fill(static_cast<Size>(s.k) * s.n, false), c.fill(static_cast<Size>(s.m) * s.n, true);
    const TensorMap map_a{a.at, s.m, s.k, s.k, kGroupM}, map_b{b.at, s.k, s.n, s.n, kTileK};
    const Tiles t(s.m, s.n, s.k, kTileM, Deep::kN);
    launch(static_cast<unsigned>(t.count()) * 2, kWorkThreads, 2, [&] { cluster_split<Deep, 2>(map_a, map_b, t, c.at, s.n); }, "cluster");
    compare("cluster", c.at, s.m, s.n, s.n, [&](int row, int column) {
        float sum = 0;
        for (int k = 0; k < s.k; ++k) sum += __bfloat162float(a.at[static_cast<Size>(row) * s.k + k]) * __bfloat162float(b.at[static_cast<Size>(k) * s.n + column]);
        return sum;
    });
}

void packing(int rows_a, int columns_a, int rows_b, int columns_b, int late) {
    const Size of_a = static_cast<Size>(rows_a) * columns_a, of_b = static_cast<Size>(rows_b) * columns_b;
    const int pitch_a = parts(columns_a, 8) * 8, pitch_b = parts(columns_b, 8) * 8;
    Array a(of_a, late), b(of_b, late ? 8 - late : 0), to_a(static_cast<Size>(rows_a) * pitch_a, 0), to_b(static_cast<Size>(rows_b) * pitch_b, 0);
    a.fill(of_a, false), b.fill(of_b, false);
    to_a.fill(static_cast<Size>(rows_a) * pitch_a, true), to_b.fill(static_cast<Size>(rows_b) * pitch_b, true);
    launch(over(rows_a * parts(columns_a, 8) + rows_b * parts(columns_b, 8), kPackThreads), kPackThreads, 1,
           [&] { pack(a.at, to_a.at, rows_a, columns_a, pitch_a, b.at, to_b.at, rows_b, columns_b, pitch_b); }, "pack");
    const auto at = [](const Bf16* x, int columns, int row, int column) { return column < columns ? __bfloat162float(x[static_cast<Size>(row) * columns + column]) : 0.0f; };
    compare("pack, first", to_a.at, rows_a, pitch_a, pitch_a, [&](int r, int i) { return at(a.at, columns_a, r, i); });
    compare("pack, second", to_b.at, rows_b, pitch_b, pitch_b, [&](int r, int i) { return at(b.at, columns_b, r, i); });
}

template <typename R, bool kPersistent, bool kStore, bool kFitted, bool kQueue, bool kPaired = false>
void experts(const char* name, const std::vector<int>& loads, int n, int k, int late) {
    if (wrong != 0 && left_out >= 0) return;
    std::vector<int> ends;
    int tokens = 0;
    for (const int load : loads) ends.push_back(tokens += load);
    const int count = static_cast<int>(loads.size());
    Array x(static_cast<Size>(tokens) * k, 0), w(static_cast<Size>(count) * k * n, 0), y(static_cast<Size>(tokens) * n, late);
    x.fill(static_cast<Size>(tokens) * k, false), w.fill(static_cast<Size>(count) * k * n, false), y.fill(static_cast<Size>(tokens) * n, true);
    const TensorMap map_x{x.at, tokens, k, k, kGroupM}, map_w{w.at, k, n, n, kTileK}, map_y{y.at, tokens, n, n, kGroupM};
    const unsigned most = (tokens / kTileM + count) * over(n, R::kN);
    unsigned queue = 0;
    launch(kPersistent ? std::min(2u, most) : most, kWorkThreads, 1,
           [&] { grouped<R, kPersistent, kStore, kFitted, kQueue, kPaired>(map_x, map_w, map_y, y.at, ends.data(), &queue, count, n, k); }, name);
    compare(name, y.at, tokens, n, n, [&](int row, int column) {
        const int expert = static_cast<int>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
        float sum = 0;
        for (int i = 0; i < k; ++i) sum += __bfloat162float(x.at[static_cast<Size>(row) * k + i]) * __bfloat162float(w.at[(static_cast<Size>(expert) * k + i) * n + column]);
        return sum;
    });
    expect(queue == 0, "the queue is as it was");
}

void all_grouped(const std::vector<int>& loads, int n, int k) {
    experts<Deep, false, false, false, false>("by_expert", loads, n, k, 0);
    experts<Deep, true, false, false, false>("persistent", loads, n, k, 0);
    experts<Wide, true, true, false, false>("store", loads, n, k, 0);
    experts<Wide, true, true, true, false>("fitted", loads, n, k, 0);
    experts<Wide, true, true, true, true>("queue", loads, n, k, 0);
    experts<Wide, true, true, true, true, true>("paired", loads, n, k, 0);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    const std::string part = count > 2 ? words[2] : "";
    const auto asked = [&](const char* name) { return part.empty() || part == name; };
    if (part.empty()) {
        tiles();
        packing(5, 13, 7, 21, 0), packing(3, 8, 4, 16, 3), packing(1, 1, 1, 1, 1), packing(9, 31, 2, 700, 5);
    }
    if (asked("stream_k")) {
        line<Wide, 1, true>("stream_k", {130, 264, 520}, 3, 0);
        line<Wide, 1, true>("hybrid", {260, 520, 200}, 2, 1);
        line<Wide, 1, true>("edges", {260, 520, 200}, 3, 3);
        line<Wide, 1, true>("whole", {260, 264, 136}, 2, 2);
        line<Wide, 2, true>("both", {330, 264, 328}, 4, 0);
        line<Wide, 2, true>("pair", {330, 264, 328}, 4, 2);
    }
    if (part.empty()) {
        line<Wide, 1, true>("stream_k", {1, 1, 1}, 3, 0);
        line<Wide, 1, false>("stream_k, odd", {65, 131, 201}, 2, 0);
        line<Wide, 2, false>("pair, odd", {257, 65, 201}, 4, 0);
    }
    if (asked("joint")) {
        together<Wide, true>({260, 264, 264}, 4, 4);    // tiles of full size, at the sides, in the corner; the corner is cut
        together<Wide, true>({70, 264, 264}, 4, 0);     // nothing but parts, two tiles of them
        together<Wide, false>({257, 129, 200}, 2, 2);
    }
    if (asked("second")) second_pass({70, 264, 456}, 3), second_pass({16, 8, 64}, 1), second_pass<Ring<128, 6, 0>>({70, 136, 712}, 2);
    if (asked("aside")) {
        beside<true>({257, 264, 136}, 2), beside<true>({392, 264, 40}, 4), beside<true>({129, 328, 72}, 2);
        beside<false>({261, 257, 75}, 2), beside<true>({40, 264, 24}, 2), beside<true>({1, 8, 8}, 2);
    }
    if (asked("along")) {
        with_few<true>({257, 264, 136}, 2), with_few<true>({520, 264, 328}, 4), with_few<true>({129, 328, 72}, 2);
        with_few<false>({261, 257, 75}, 2), with_few<true>({392, 520, 40}, 2), with_few<false>({257, 321, 40}, 2), with_few<true>({300, 264, 40}, 2), with_few<true>({40, 264, 24}, 2), with_few<true>({1, 8, 8}, 2);
    }
    if (asked("few")) few_rows({16, 136, 2056}, 2), few_rows({1, 8, 64}, 1), few_rows({9, 264, 1000}, 3);
    if (asked("halves")) {
        by_halves<FewHalves>({16, 136, 2500}), by_halves<FewHalves>({3, 9, 200}), by_halves<FewHalves>({1, 1, 1});
        by_halves<MoreHalves>({100, 72, 1800}), by_halves<MoreHalves>({64, 131, 64});
    }
    if (asked("pairs")) by_pairs<Ring<128, 6, 0>>({100, 136, 1864}, 4), by_pairs<Ring<128, 6, 0>>({130, 8, 200}, 2), by_pairs<Ring<128, 6, 0>>({65, 131, 64}, 2);
    if (asked("cluster")) by_clusters({130, 264, 840}), by_clusters({16, 8, 1000});
    if (asked("grouped")) {
        all_grouped({0, 1, 130, 0, 65}, 264, 136);
        if (part.empty()) experts<Wide, true, true, true, true, true>("paired", {70, 0, 330, 200, 256}, 320, 136, 0);
        if (part.empty()) all_grouped({64, 200}, 128, 72), all_grouped({0, 0, 1}, 8, 8);
    }
    return wrong != 0;
}
