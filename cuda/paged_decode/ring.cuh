// Paged decode, its last step: pages come by the copy engine, as far ahead as shared memory reaches.
// Device code only, for nvcc and NVRTC alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// `ring`: a block an SM. One warp looks up pages and has the copy engine fetch a head's keys and values of each, 4 KB in one piece, into
// a ring of units of 64 tokens; four warps multiply, 16 tokens of a unit each. What is under way takes no registers, and does not wait
// for those that compute: not at the end of a sequence either.
// Problem and arrays are those of paged_decode.cuh; all units of all sequences and heads together are fewer than 2³¹.
#pragma once

#include "paged_decode.cuh"
#include "ring_instructions.cuh"

namespace lab {
namespace paged_decode {

constexpr int kRing = 6;                     // units under way,
constexpr int kFew = 3;                      // where shares are below kShort
constexpr int kShort = 32, kLong = 256;      // units: shares from kLong on end in pieces for those that are done
constexpr int kRanges = 8;                   // of a share, at most
constexpr int kRingThreads = kThreads + 32;  // the last warp fetches
constexpr int kTiles = kUnit / kTile;        // of a unit: each lies in one page
constexpr int kTileBytes = kTile * kDim * 2;
constexpr int kTileWords = kTileBytes / 16;
constexpr int kWindow = 8;                   // units whose pages are looked up together
constexpr int kRounds = 8;                   // loads of lengths under way
constexpr int kRingBytes = 226432;           // of shared memory

// What a unit is, for those that multiply it. A `left` of 0: nothing comes any more.
struct alignas(16) Task {
    int pair, left;           // a sequence and head; tokens from the unit's first to the sequence's end
    int starts, ends;         // the first, the last unit of a stretch
    int slots;                // of the ring, as many as are used
    int one, count;           // ranges that the pair is in: the first, how many
    int range;                // the one that this unit is in
};
struct alignas(128) Slot {
    uint4 keys[kTiles * kTileWords], values[kTiles * kTileWords];
    uint4 queries[kMostGroup * kDim / 8];  // where a stretch starts
    Task task;
};
struct Ring {
    Slot slots[kRing];
    OfBlock walked;
    unsigned long long full[kRing], empty[kRing];
    int last;
};
static_assert(sizeof(Ring) == kRingBytes, "what a launch asks for");

// The equal share of so many units among the blocks, rounded up to a multiple of a power of two that adds a sixteenth at most: where
// sequences are equally long, shares then often end where they do, and there is nothing to join.
__device__ __forceinline__ unsigned share_of(unsigned all) {
    const unsigned share = (all + gridDim.x - 1) / gridDim.x, most = share / 16;
    const unsigned step = most == 0 ? 1 : 1u << (31 - __clz(static_cast<int>(most)));
    return (share + step - 1) / step * step;
}

#ifdef LAB_RING

// How all units are dealt. A block's share is its first range and, where shares are long, a few pieces, each smaller than the one
// before, for whoever is done: an SM's part of the memory's rate differs by a quarter from another's. Where a pair goes over many
// shares they are fewer: all parts of it have to be joined.
struct Deal {
    unsigned all, share, shares;
    unsigned long long ends;  // of a share's ranges, in 64ths of it, a byte each
    int ranges;

    __device__ __forceinline__ Deal(unsigned units, int pairs) : all(units), share(share_of(units)) {
        shares = share == 0 ? 0 : (all + share - 1) / share;
        if (share < kLong) ends = 64, ranges = 1;
        else if (pairs < static_cast<int>(shares)) ends = 0x403c3830, ranges = 4;
        else ends = 0x403f3e3c38342c20, ranges = kRanges;
    }
    __device__ __forceinline__ unsigned end_in_share(int k) const { return share * (static_cast<unsigned>(ends >> 8 * k) & 0xff) / 64; }
    __device__ __forceinline__ unsigned begin(unsigned of, int k) const { return min(all, of * share + (k == 0 ? 0 : end_in_share(k - 1))); }
    __device__ __forceinline__ unsigned end(unsigned of, int k) const { return min(all, of * share + end_in_share(k)); }
    __device__ __forceinline__ int range_of(unsigned unit) const {
        const unsigned of = unit / share;
        int k = 0;
        while (unit - of * share >= end_in_share(k)) ++k;
        return static_cast<int>(of) * ranges + k;
    }
};

// What a warp of those that multiply reads of a unit: rows 4 · warp … 4 · warp + 3 of each of its four tiles. In the order of the
// products (paged_decode.cuh: struct Warp) token 2q + e of eight is one of tile (q + 2e) % 4. With tiles 32 bytes more than whole lines
// apart, the eight lanes whose 16 bytes shared memory gives at once, four q and two g, would find them in eight different places of a
// line; but then the copy engine is slower, which costs more than the conflicts do.
struct Reader : Warp {
    uint4 query[4];

    __device__ __forceinline__ static int tile(int q, int e) { return (q + 2 * e) % kTiles; }
    __device__ __forceinline__ static int row(int half, int e) { return 4 * warp() + 2 * half + e; }

    __device__ __forceinline__ void begin(const uint4* queries, int group) {
        start();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            query[j] = make_uint4(0, 0, 0, 0);
            if (lane() / 4 < group) query[j] = queries[lane() / 4 * (kDim / 8) + 4 * j + lane() % 4];
        }
    }
    __device__ __forceinline__ void take_keys(const uint4* keys) {
        const int q = lane() / 8, e = lane() / 4 % 2;
        const uint4* const from = keys + tile(q, e) * kTileWords + row(0, e) * (kDim / 8) + lane() % 4;
#pragma unroll
        for (int i = 0; i < 8; ++i) key[i] = from[i / 4 * 2 * (kDim / 8) + i % 4 * 4];
    }
    __device__ __forceinline__ void take_values(const uint4* values) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int half = i / 4, e = i / 2 % 2;
            value[i] = values[tile(lane() % 4, e) * kTileWords + row(half, e) * (kDim / 8) + lane() / 4 + i % 2 * 8];
        }
    }
    __device__ __forceinline__ bool there(int half, int e, int left) const { return kTile * tile(lane() % 4, e) + row(half, e) < left; }
    __device__ __forceinline__ void score_all(float (&scores)[4]) const {
        float near[4] = {}, far[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            multiply(near, query[j].x, 0u, query[j].y, 0u, key[j].x, key[j].y), multiply(far, query[j].x, 0u, query[j].y, 0u, key[4 + j].x, key[4 + j].y);
            multiply(near, query[j].z, 0u, query[j].w, 0u, key[j].z, key[j].w), multiply(far, query[j].z, 0u, query[j].w, 0u, key[4 + j].z, key[4 + j].w);
        }
        scores[0] = near[0] * kScale, scores[1] = near[1] * kScale, scores[2] = far[0] * kScale, scores[3] = far[1] * kScale;
    }
    // What lies behind the sequence's end: no weight, and no value that may be no number.
    __device__ __forceinline__ void cut(float (&scores)[4], int left) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (there(i / 2, i % 2, left)) continue;
            scores[i] = __int_as_float(static_cast<int>(0xff800000u));
            value[4 * (i / 2) + 2 * (i % 2)] = value[4 * (i / 2) + 2 * (i % 2) + 1] = make_uint4(0, 0, 0, 0);
        }
    }
};

// Four columns of a head's result, and what they are relative to.
struct Four {
    float4 sum;
    float largest, weights;

    __device__ __forceinline__ void add(float4 x, float share) { sum.x += share * x.x, sum.y += share * x.y, sum.z += share * x.z, sum.w += share * x.w; }
    __device__ __forceinline__ void write(Bf16* out) const {
        const float by = weights == 0.0f ? 0.0f : 1.0f / weights;
        *reinterpret_cast<uint2*>(out) = {pair_of(sum.x * by, sum.y * by), pair_of(sum.z * by, sum.w * by)};
    }
};
__device__ __forceinline__ Four of_warps(const OfBlock& walked, int head) {
    Four found = {{0.0f, 0.0f, 0.0f, 0.0f}, kLeast, 0.0f};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) found.largest = fmaxf(found.largest, walked.largest_and_weights[w][head].x);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
        const float2 one = walked.largest_and_weights[w][head];
        const float share = exp2f(one.x - found.largest);
        found.weights += share * one.y;
        found.add(*reinterpret_cast<const float4*>(walked.sums[w][head] + 4 * lane()), share);
    }
    return found;
}
// … of parts, kAtOnce under way: sums and what they are relative to come together.
__device__ __forceinline__ Four of_parts(const Parts& parts, int one, int count, int head) {
    Four found = {{0.0f, 0.0f, 0.0f, 0.0f}, kLeast, 0.0f};
#pragma unroll 1
    for (int first = 0; first < count; first += kAtOnce) {
        float4 sums[kAtOnce];
        float2 rest[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const Size at = static_cast<Size>(2 * (one + first + i) + (first + i == 0)) * kMostGroup + head;
            sums[i] = {0.0f, 0.0f, 0.0f, 0.0f}, rest[i] = {kLeast, 0.0f};
            if (first + i < count) sums[i] = __ldcg(reinterpret_cast<const float4*>(parts.sums + at * kDim) + lane()), rest[i] = __ldcg(parts.largest_and_weights + at);
        }
        float largest = found.largest;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) largest = fmaxf(largest, rest[i].x);
        const float smaller = exp2f(found.largest - largest);
        found.largest = largest, found.weights *= smaller;
        found.sum.x *= smaller, found.sum.y *= smaller, found.sum.z *= smaller, found.sum.w *= smaller;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            const float share = exp2f(rest[i].x - largest);
            found.weights += share * rest[i].y;
            found.add(sums[i], share);
        }
    }
    return found;
}

// Units of a block's share that follow one another, of one sequence and head; none: `count` is 0.
struct Window {
    int pair, head, length, first, count, page;  // lane l has the page of the l-th tile
    int range;
    bool starts, ends;  // … a stretch
    unsigned from, each;                         // the pair's first unit in the row of all; how many it has
};

// The warp that fetches.
__device__ __forceinline__ void fetch_share(Ring& ring, const Bf16* __restrict__ q, const Pages& cache, const Deal& deal, unsigned* taken, int batch, int group) {
    const int slots = deal.share < kShort ? kFew : kRing;
    int range = static_cast<int>(blockIdx.x) * deal.ranges;
    unsigned unit = deal.begin(blockIdx.x, 0), end = deal.end(blockIdx.x, 0);
    unsigned before = 0;  // units of the sequences before the one that `unit` is in
    int sequence = 0, length = 0, head = 0, at = 0, upto = 0;
    const auto find = [&] {  // the sequence that `unit` is in, from the present one on: 32 at a time
#pragma unroll 1
        for (int first = sequence;; first += 32) {
            const int mine = first + lane() < batch ? __ldg(cache.lengths + first + lane()) : 0;
            const unsigned own = static_cast<unsigned>(parts_of(mine, kUnit) * cache.heads);
            unsigned upto_mine = own;
#pragma unroll
            for (int lanes = 1; lanes < 32; lanes *= 2) {
                const unsigned of_other = __shfl_up_sync(kAllLanes, upto_mine, static_cast<unsigned>(lanes));
                if (lane() >= lanes) upto_mine += of_other;
            }
            const unsigned behind = __ballot_sync(kAllLanes, before + upto_mine > unit);
            if (behind != 0) {
                const int found = __ffs(static_cast<int>(behind)) - 1;
                before += __shfl_sync(kAllLanes, upto_mine - own, found);
                sequence = first + found, length = __shfl_sync(kAllLanes, mine, found);
                return;
            }
            before += __shfl_sync(kAllLanes, upto_mine, 31);
        }
    };
    const auto next = [&](bool may_take) {
        Window window = {};
        if (at == upto) {
            if (unit >= end && !may_take) return window;
            while (unit >= end) {  // the first piece of every share, then the second …
                unsigned piece = 0;
                if (lane() == 0 && deal.ranges > 1) piece = atomicAdd(taken, 1u);
                piece = __shfl_sync(kAllLanes, piece, 0);
                const int k = static_cast<int>(1 + piece / max(deal.shares, 1u));
                if (k >= deal.ranges) return window;
                const unsigned of = piece % deal.shares;
                range = static_cast<int>(of) * deal.ranges + k, unit = deal.begin(of, k), end = deal.end(of, k);
                if (unit < before) before = 0, sequence = 0;
            }
            find();
            const unsigned each = static_cast<unsigned>(parts_of(length, kUnit)), within = unit - before;
            head = static_cast<int>(within / each), at = static_cast<int>(within % each);
            upto = static_cast<int>(min(each, static_cast<unsigned>(at) + (end - unit)));
            unit += static_cast<unsigned>(upto - at);
            window.starts = true;
        }
        const int token = at * kUnit + kTile * lane();
        window.pair = sequence * cache.heads + head, window.head = head, window.length = length;
        window.first = at, window.count = min(kWindow, upto - at);
        at += window.count;
        window.page = token < length && lane() < kTiles * window.count ? cache.number(sequence, token) : 0;
        window.ends = at == upto, window.range = range;
        window.each = static_cast<unsigned>(parts_of(length, kUnit)), window.from = before + static_cast<unsigned>(head) * window.each;
        return window;
    };
    const decode::Word policy = decode::read_once_policy();
    const int tile = lane() % kTiles;
    const bool of_keys = lane() < kTiles;
    int number = 0;
    unsigned parity = 1;
    const auto turn = [&] {
        if (++number == slots) number = 0, parity ^= 1;
    };
    Window now = {};
#pragma unroll 1
    for (bool any = true; any;) {
        // Its pages are on their way while those of the one before are fetched. A piece is taken when nothing is left to be fetched:
        // what an SM holds back, others wait for at the end.
        const Window then = next(now.count == 0);
        any = now.count + then.count != 0;
#pragma unroll 1
        for (int u = 0; u < now.count; ++u) {
            Slot& slot = ring.slots[number];
            const int token = (now.first + u) * kUnit, left = now.length - token, tiles = min(kTiles, parts_of(left, kTile));
            const int page = __shfl_sync(kAllLanes, now.page, kTiles * u + tile);
            const bool starts = now.starts && u == 0, ends = now.ends && u == now.count - 1;
            wait_for(ring.empty + number, parity);
            if (lane() == 0) {
                Task task = {now.pair, left, starts, ends, slots, 0, 1, now.range};
                if (ends) task.one = deal.range_of(now.from), task.count = deal.range_of(now.from + now.each - 1) - task.one + 1;
                slot.task = task;
                rows::expect(ring.full + number, static_cast<unsigned>(2 * tiles * kTileBytes + (starts ? group * kDim * 2 : 0)));
            }
            __syncwarp();
            if (lane() < 2 * kTiles && tile < tiles) {
                uint4* const to = (of_keys ? slot.keys : slot.values) + tile * kTileWords;
                decode::fetch_once(to, (of_keys ? cache.keys : cache.values) + cache.at(page, now.head, token + kTile * tile), kTileBytes, ring.full + number, policy);
            }
            if (lane() == 2 * kTiles && starts) {
                rows::fetch(slot.queries, q + static_cast<Size>(now.pair) * static_cast<unsigned>(group * kDim), static_cast<unsigned>(group * kDim * 2), ring.full + number);
            }
            turn();
        }
        now = then;
    }
    wait_for(ring.empty + number, parity);
    if (lane() == 0) {
        ring.slots[number].task.left = 0;
        rows::expect(ring.full + number, 0);
        if (deal.ranges > 1 && atomicAdd(taken + 1, 1u) == gridDim.x - 1) taken[0] = taken[1] = 0;
    }
}

// The warps that multiply.
__device__ __forceinline__ void multiply_share(Ring& ring, const Parts& parts, unsigned* counters, Bf16* __restrict__ out, int group) {
    Reader mine;
    int number = 0;
    unsigned parity = 0;
#pragma unroll 1
    for (;;) {
        const Slot& slot = ring.slots[number];
        wait_for(ring.full + number, parity);
        const Task task = slot.task;
        if (task.left == 0) return;
        if (task.starts) mine.begin(slot.queries, group);
        float scores[4];
        mine.take_keys(slot.keys);
        mine.score_all(scores);
        mine.take_values(slot.values);
        __syncwarp();
        if (lane() == 0) decode::give_back(ring.empty + number, 1);
        if (task.left < kUnit) mine.cut(scores, task.left);
        mine.weigh(scores);
        mine.add_values(scores);
        if (task.ends) {
            mine.leave(ring.walked, group);
            consumers_meet();
            Bf16* const to = out + static_cast<Size>(task.pair) * static_cast<unsigned>(group * kDim);
            const Size part = (2 * static_cast<Size>(task.range) + (task.range == task.one)) * kMostGroup;
#pragma unroll 1
            for (int head = warp(); head < group; head += kWarps) {
                const Four found = of_warps(ring.walked, head);
                if (task.count == 1) {
                    found.write(to + head * kDim + 4 * lane());
                } else {
                    reinterpret_cast<float4*>(parts.sums + (part + static_cast<unsigned>(head)) * kDim)[lane()] = found.sum;
                    if (lane() == 0) parts.largest_and_weights[part + static_cast<unsigned>(head)] = {found.largest, found.weights};
                }
            }
            if (task.count > 1) {
                consumers_meet();
                if (threadIdx.x == 0) {
                    ring.last = came_before(counters + task.pair) == static_cast<unsigned>(task.count) - 1;
                    if (ring.last) counters[task.pair] = 0;
                }
                consumers_meet();
                if (ring.last) {
#pragma unroll 1
                    for (int head = warp(); head < group; head += kWarps) of_parts(parts, task.one, task.count, head).write(to + head * kDim + 4 * lane());
                }
            } else {
                consumers_meet();
            }
        }
        if (++number == task.slots) number = 0, parity ^= 1;
    }
}

#endif

// Step 9. A block an SM.
__global__ void __launch_bounds__(kRingThreads, 1) ring(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                       const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out, float* sums,
                                                       float2* largest_and_weights, unsigned* counters, int batch, int heads_of_cache, int group, int shift,
                                                       int row_pages) {
#ifdef LAB_RING
    extern __shared__ uint4 memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    const Pages cache{keys, values, table, lengths, heads_of_cache, shift, row_pages};
    if (warp() == kWarps) {
        if (lane() == 0) {
            for (int i = 0; i < kRing; ++i) rows::set_up(ring.full + i, 1), rows::set_up(ring.empty + i, kWarps);
            rows::publish_barriers();
        }
        __syncthreads();
        unsigned units = 0;  // of one head, all sequences
#pragma unroll 1
        for (int first = 0; first < batch; first += 32 * kRounds) {
#pragma unroll
            for (int s = first + lane(), i = 0; i < kRounds; ++i, s += 32) units += s < batch ? static_cast<unsigned>(parts_of(__ldg(lengths + s), kUnit)) : 0;
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) units += __shfl_xor_sync(kAllLanes, units, lanes);
        const int pairs = batch * heads_of_cache;
        fetch_share(ring, q, cache, Deal(units * static_cast<unsigned>(heads_of_cache), pairs), counters + pairs, batch, group);
    } else {
        __syncthreads();
        const int of_sequence = heads_of_cache * group * kDim;
#pragma unroll 1
        for (int s = static_cast<int>(blockIdx.x); s < batch; s += static_cast<int>(gridDim.x)) {
            if (__ldg(lengths + s) != 0) continue;
#pragma unroll 1
            for (int i = 8 * static_cast<int>(threadIdx.x); i < of_sequence; i += 8 * kThreads) {
                *reinterpret_cast<uint4*>(out + static_cast<Size>(s) * static_cast<unsigned>(of_sequence) + i) = make_uint4(0, 0, 0, 0);
            }
        }
        multiply_share(ring, {sums, largest_and_weights}, counters, out, group);
    }
#else
    __trap();
#endif
}

}  // namespace paged_decode
}  // namespace lab
