// The instructions of cuda/gemm/instructions.cuh in plain C++, on the host's fibers.
// SPDX-License-Identifier: Apache-2.0
//
// Whatever hardware may do early or late is done at the worst time: the copy engine writes as soon as it is asked, wgmma reads when
// its results are waited for, asynchronous copies write at once or, `lazy`, when they are waited for.
#pragma once

#include "host_fibers.hpp"

static bool lazy;  // asynchronous copies

static void __syncwarp() {}

// ---- instructions ----------------------------------------------------------------------------------------------------------------

#define LAB_CLUSTER(blocks)
#define LAB_WGMMA

struct __nv_bfloat16 {
    unsigned short bits;
};
struct __half {};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
inline float __bfloat162float(__nv_bfloat16 x) {
    const unsigned bits = static_cast<unsigned>(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static __nv_bfloat16 __float2bfloat16_rn(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, 4);
    return {static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
static __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)}; }

constexpr unsigned kMemory = 227 << 10, kFirst = 0x400;      // shared memory of a block; the address where it starts
alignas(1024) static unsigned char memories[2][kMemory];
static void* block_memory() { return memories[fibers::rank()] + 16; }  // as the driver does: on 16 bytes, not on more
inline unsigned char& shared_byte(unsigned address) { return memories[fibers::rank()][address - kFirst]; }
inline float shared_bf16(unsigned address) {
    __nv_bfloat16 x;
    std::memcpy(&x, &shared_byte(address), 2);
    return __bfloat162float(x);
}
inline unsigned shared_pair(unsigned address) {
    unsigned pair;
    std::memcpy(&pair, &shared_byte(address), 4);
    return pair;
}
// Where the copy engine puts the byte that would lie at `place` without a swizzle (boxes start on 1024 bytes): bits 4 to 6 are
// exclusive-ored with bits 7 to 9. wgmma reads so too.
inline unsigned engine(unsigned place) { return place ^ ((place >> 7 & 7) << 4); }

namespace lab {
namespace rows {
struct Barrier {
    struct State {
        int count, missing, bytes;
        unsigned phase;
    } of[2];
    void settle(int block) {
        State& s = of[block];
        if (s.missing < 0) std::printf("a barrier got more arrivals than it awaits\n"), std::exit(1);
        if (s.missing == 0 && s.bytes == 0) s.phase ^= 1, s.missing = s.count, ++fibers::happened;
    }
    void arrive(int block) { --of[block].missing, settle(block); }
};
static void set_up(Barrier* b, unsigned count) { b->of[fibers::rank()] = {static_cast<int>(count), static_cast<int>(count), 0, 0}; }
static void publish_barriers() {}
static void expect(Barrier* b, unsigned bytes) { b->of[fibers::rank()].bytes += static_cast<int>(bytes), b->arrive(fibers::rank()); }
static int cluster_rank() { return fibers::rank(); }
template <int kBlocks>
static void cluster_sync(int number) {
    LAB_UNLESS(number) fibers::meeting(kBlocks == 1 ? 0 : -1).meet(fibers::threads * kBlocks);
}
static unsigned shared_address(const void* p) {
    return static_cast<unsigned>(static_cast<const unsigned char*>(p) - memories[fibers::rank()]) + kFirst;
}
}  // namespace rows

namespace gemm {
using Size = unsigned long long;
using Bf16 = __nv_bfloat16;

template <typename T>
unsigned pack_pair(float x, float y) {
    return __float2bfloat16_rn(x).bits | static_cast<unsigned>(__float2bfloat16_rn(y).bits) << 16;
}
static float power_of_two(float x) { return std::exp2(x); }
constexpr int parts(int whole, int part) { return (whole + part - 1) / part; }
template <typename T>
bool on_words(const T* start, int ld) {
    return reinterpret_cast<Size>(start) % 16 == 0 && ld % (16 / static_cast<int>(sizeof(T))) == 0;
}

// Work of a thread that is under way: groups in the order of their commits.
struct Queue {
    std::vector<std::function<void()>> open;
    std::vector<std::vector<std::function<void()>>> groups;
    void commit() { groups.push_back(std::move(open)), open.clear(); }
    void wait(std::size_t pending) {
        while (groups.size() > pending) {
            for (const auto& work : groups.front()) work();
            groups.erase(groups.begin());
        }
    }
};
static std::map<unsigned, Queue> copies, products;

template <int kBytes>
void copy_async(void* to, const void* from, int valid) {
    if (reinterpret_cast<Size>(to) % kBytes != 0 || reinterpret_cast<Size>(from) % (valid > 0 ? kBytes : 1) != 0) std::printf("a copy of %d bytes is not aligned\n", kBytes), std::exit(1);
    const auto work = [=] {
        std::memset(to, 0, kBytes);
        std::memcpy(to, from, valid);
    };
    if (lazy) copies[fibers::now].open.push_back(work);
    else work();
}
static void copies_commit() { copies[fibers::now].commit(); }
template <int kPending>
void copies_wait(int number) {
    LAB_UNLESS(number) copies[fibers::now].wait(kPending);
}

struct Lane {
    const void* row;
    unsigned a[4], b[2];
};
static Lane lanes[1024];
inline Lane* warp() { return lanes + fibers::now / 32 * 32; }
inline unsigned short half_at(const void* row, unsigned i) {
    unsigned short x;
    std::memcpy(&x, static_cast<const unsigned char*>(row) + 2 * i, 2);
    return x;
}
static void load_matrices(unsigned (&r)[4], const uint4* chunk) {
    const unsigned l = fibers::thread() % 32;
    warp()[l].row = chunk;
    warp_meet();
    for (unsigned j = 0; j < 4; ++j) std::memcpy(&r[j], static_cast<const unsigned char*>(warp()[8 * j + l / 4].row) + 4 * (l % 4), 4);
    warp_meet();
}
static void load_turned(unsigned (&r)[4], const uint4* chunk) {
    const unsigned l = fibers::thread() % 32;
    warp()[l].row = chunk;
    warp_meet();
    for (unsigned j = 0; j < 4; ++j) {
        const Lane* const rows = warp() + 8 * j + l % 4 * 2;
        r[j] = half_at(rows[0].row, l / 4) | static_cast<unsigned>(half_at(rows[1].row, l / 4)) << 16;
    }
    warp_meet();
}
inline float half_of(unsigned pair, unsigned i) { return __bfloat162float({static_cast<unsigned short>(pair >> 16 * i)}); }
template <typename T>
void multiply_add(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    const unsigned l = fibers::thread() % 32;
    std::memcpy(warp()[l].a, a, sizeof a);
    warp()[l].b[0] = b0, warp()[l].b[1] = b1;
    warp_meet();
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = l / 4, column = l % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; ++k) {
            const float x = half_of(warp()[row * 4 + k % 8 / 2].a[i / 2 + k / 8 * 2], k % 2);
            d[i] += x * half_of(warp()[column * 4 + k % 8 / 2].b[k / 8], k % 2);
        }
    }
    warp_meet();
}

struct TensorMap {
    Bf16* matrix;
    int rows, columns, ld, box_rows, box_columns = 64;  // those of 64 columns are swizzled
};
static unsigned char* aligned(unsigned char* start) { return start + (1024 - rows::shared_address(start) % 1024) % 1024; }
static void prefetch_map(const TensorMap&) {}
template <int kBlocks>
void fetch_box(void* to, const TensorMap& map, int column, int row, rows::Barrier* barrier) {
    if (column % 8 != 0) std::printf("a box does not start on 16 bytes\n"), std::exit(1);
    const unsigned start = rows::shared_address(to);
    for (int block = kBlocks == 1 ? fibers::rank() : 0; block < (kBlocks == 1 ? fibers::rank() + 1 : kBlocks); ++block) {
        for (int r = 0; r < map.box_rows; ++r) {
            for (int c = 0; c < map.box_columns; ++c) {
                const bool inside = row + r < map.rows && column + c < map.columns;
                const Bf16 x = inside ? map.matrix[static_cast<Size>(row + r) * map.ld + column + c] : Bf16{0};
                const unsigned place = start + 2 * (map.box_columns * r + c);
                std::memcpy(&memories[block][(map.box_columns == 64 ? engine(place) : place) - kFirst], &x, 2);
            }
        }
        barrier->of[block].bytes -= 2 * map.box_columns * map.box_rows;
        barrier->settle(block);
    }
}
static void fetch_box(void* to, const TensorMap& map, int column, int row, int matrix, rows::Barrier* barrier) {
    TensorMap one = map;
    one.matrix += static_cast<Size>(matrix) * map.rows * map.ld;
    fetch_box<1>(to, one, column, row, barrier);
}
static void write_box(const TensorMap& map, int column, int row, const void* from) {
    const unsigned start = rows::shared_address(from);
    for (int r = 0; r < map.box_rows; ++r) {
        for (int c = 0; c < 64; ++c) {
            if (row + r < map.rows && column + c < map.columns) std::memcpy(&map.matrix[static_cast<Size>(row + r) * map.ld + column + c], &shared_byte(engine(start + 128 * r + 2 * c)), 2);
        }
    }
}
template <int kPending, bool kDone>
void boxes_wait() {}
static void arrive_in(int block, rows::Barrier* barrier) { barrier->arrive(block); }
static void wait_for(rows::Barrier* barrier, unsigned parity, int number) {
    rows::Barrier::State& s = barrier->of[fibers::rank()];
    LAB_UNLESS(number) fibers::until([&] { return s.phase != parity; });
}
static void publish_writes() {}
template <int>
void give_registers() {}
template <int>
void take_registers() {}
static void group_sync(int group, int number) { LAB_UNLESS(number) fibers::meeting(1 + group).meet(128); }
template <int kThreads>
void turn_wait(int group, int number) {
    LAB_UNLESS(number) fibers::meeting(1 + group).meet(kThreads);
}
template <int kThreads>
void turn_give(int group) {
    fibers::meeting(1 + group).arrive(kThreads);
}
template <int kCount>
void take_results(float (&)[kCount]) {}
static void not_before(float) {}
static void store_matrices(void* row, const unsigned (&r)[4]) {
    const unsigned l = fibers::thread() % 32;
    warp()[l].row = row;
    warp_meet();
    for (unsigned j = 0; j < 4; ++j) std::memcpy(static_cast<unsigned char*>(const_cast<void*>(warp()[8 * j + l / 4].row)) + 4 * (l % 4), &r[j], 4);
    warp_meet();
}

// What a descriptor says of a matrix, by the layouts in the PTX manual (128-byte swizzle): the address of an element.
struct Described {
    unsigned start, leading, stride;
    explicit Described(Size d)
        : start(static_cast<unsigned>(d & 0x3fff) << 4), leading(static_cast<unsigned>(d >> 16 & 0x3fff) << 4), stride(static_cast<unsigned>(d >> 32 & 0x3fff) << 4) {
        if (d >> 62 != 1 || (d >> 49 & 7) != 0) std::printf("a descriptor names another swizzle\n"), std::exit(1);
    }
    unsigned along_k(unsigned row, unsigned k) const { return engine(start + row / 8 * stride + row % 8 * 128 + 2 * k); }
    unsigned along_n(unsigned k, unsigned n) const { return engine(start + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2); }
};

static void products_begin() {}
static void products_commit() { products[fibers::now].commit(); }
template <int kPending>
void products_wait(int number) {
    LAB_UNLESS(number) products[fibers::now].wait(kPending);
    warp_meet();  // as all of these instructions are a warp's
}
template <int kN>
void multiply(float (&d)[kN / 2], Size a, Size b, int adds) {
    float* const sums = d;
    products[fibers::now].open.push_back([=] {
        const Described of_a(a), of_b(b);
        const unsigned row = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, column = fibers::thread() % 4 * 2;
        for (unsigned i = 0; i < kN / 2; ++i) {
            if (!adds) sums[i] = 0;
        }
        for (unsigned k = 0; k < 16; ++k) {
            const float low = shared_bf16(of_a.along_k(row, k)), high = shared_bf16(of_a.along_k(row + 8, k));
            for (unsigned i = 0; i < kN / 8; ++i) {
                const unsigned pair = shared_pair(of_b.along_n(k, 8 * i + column));
                for (unsigned j = 0; j < 2; ++j) {
                    const float x = half_of(pair, j);
                    sums[4 * i + j] += low * x, sums[4 * i + 2 + j] += high * x;
                }
            }
        }
    });
}
// … with B along k; with A in registers, which are read as late as the results are waited for.
template <typename T>
void multiply_turned(float (&d)[64], Size a, Size b, int adds) {
    float* const sums = d;
    products[fibers::now].open.push_back([=] {
        const Described of_a(a), of_b(b);
        const unsigned row = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, column = fibers::thread() % 4 * 2;
        for (unsigned i = 0; i < 64; ++i) {
            if (!adds) sums[i] = 0;
        }
        for (unsigned k = 0; k < 16; k += 2) {
            const unsigned low = shared_pair(of_a.along_k(row, k)), high = shared_pair(of_a.along_k(row + 8, k));
            for (unsigned i = 0; i < 32; ++i) {
                const unsigned pair = shared_pair(of_b.along_k(i / 2 * 8 + column + i % 2, k)), at = i / 2 * 4 + i % 2;
                for (unsigned j = 0; j < 2; ++j) sums[at] += half_of(low, j) * half_of(pair, j), sums[at + 2] += half_of(high, j) * half_of(pair, j);
            }
        }
    });
}
template <typename T, int kCount>
void multiply_held(float (&d)[kCount], const unsigned (&a)[4], Size b) {
    float* const sums = d;
    const unsigned* const mine = a;
    products[fibers::now].open.push_back([=] {  // a row's 16 elements lie in four lanes
        const Described of_b(b);
        const unsigned l = fibers::thread() % 32, column = l % 4 * 2;
        std::memcpy(warp()[l].a, mine, sizeof warp()[l].a);
        warp_meet();
        for (unsigned k = 0; k < 16; ++k) {
            const Lane& lane = warp()[l / 4 * 4 + k % 8 / 2];
            const float low = half_of(lane.a[k / 8 * 2], k % 2), high = half_of(lane.a[k / 8 * 2 + 1], k % 2);
            for (unsigned i = 0; i < kCount; i += 4) {
                const unsigned pair = shared_pair(of_b.along_n(k, 2 * i + column));
                for (unsigned j = 0; j < 2; ++j) sums[i + j] += low * half_of(pair, j), sums[i + 2 + j] += high * half_of(pair, j);
            }
        }
        warp_meet();
    });
}
}  // namespace gemm
}  // namespace lab
