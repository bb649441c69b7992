// Attention of the newest token over a cache: one query a head, keys and values (bf16, heads of 128) of all tokens so far.
// Device code only, for nvcc and NVRTC alike; compute capability 7.5, from `tensor` on 8.0.
// SPDX-License-Identifier: Apache-2.0
//
// Queries and the result are [batch][heads][128]. A group of query heads shares one head of the cache (GQA). Every element of the
// cache is read once and serves two operations a query head: what decides is how often it is read, and how much is under way.
//   heads       a block a sequence and query head: a group reads its cache as often as it has heads
//   groups      a block a sequence and head of the cache: a row is read once, for all queries of the group
//   pages       … of a cache in pages that lie anywhere, 16 bytes a load
//   tensor      … with the products on tensor cores, from registers as they were loaded
//   split       … by several blocks, each a part of the tokens; `combine` joins the parts in a second launch
//   one_launch  … the last block of a sequence and head joins them
//   balanced    as many blocks as the GPU holds, each an equal share of all tokens, wherever sequences end
//   stealing    … and the end of each share waits in pieces for those that are done first
//
// The first two take a cache [batch][heads of the cache][capacity][128]; the others pages [page][heads of the cache][tokens][128]
// of 16 · 2ⁿ tokens, and a table [batch][row_pages] of their numbers. What lies behind a sequence's end is not looked at.
// A sequence without tokens gives zeros. A NaN in a query makes its row NaN, one in a key or value the rows of its group;
// a score of +∞ makes the row NaN, one of −∞ is a weight of 0.
#pragma once

#include "instructions.cuh"

namespace lab {
namespace paged_decode {

using Size = unsigned long long;

constexpr int kDim = 128, kThreads = 128, kWarps = 4, kMostGroup = 8;
constexpr int kTile = 16;         // tokens that a warp multiplies at a time
constexpr int kUnit = 64;         // tokens that a block does, and the least that blocks share out
constexpr int kAtOnce = 16;       // parts that a warp reads together when it joins them
constexpr int kPieces = 4;        // `stealing`: pieces of each block's share that whoever is done may take,
constexpr int kPieceShare = 64;   // each one in so many of its units
constexpr int kBlocksPerSm = 2;   // of the steps on tensor cores: what their registers leave room for
constexpr float kScale = 0.0883883476f * 1.442695041f;  // 1/√128, and log₂ e, since powers of two are what the hardware computes
constexpr float kLeast = -1e30f;  // below every score; finite, so that its difference to itself is 0

__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x) / 32; }
__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int parts_of(int whole, int part) { return (whole + part - 1) / part; }
__device__ __forceinline__ float lower(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float upper(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
template <int kLanes>
__device__ __forceinline__ float sum_over(float x) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
    return x;
}
template <int kLanes>
__device__ __forceinline__ float largest_over(float x) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lanes));
    return x;
}

// The result of one head from what several walked over: their sums of weighted values in this column, the largest scores that
// these are relative to, the sums of weights.
template <int kWalkers, int kGroup>
struct Walked {
    float sums[kWalkers][kGroup][kDim];
    float2 largest_and_weights[kWalkers][kGroup];

    __device__ __forceinline__ float3 join(int head, int column) const {
        float largest = kLeast, sum = 0.0f, weights = 0.0f;
#pragma unroll
        for (int w = 0; w < kWalkers; ++w) largest = fmaxf(largest, largest_and_weights[w][head].x);
#pragma unroll
        for (int w = 0; w < kWalkers; ++w) {
            const float2 one = largest_and_weights[w][head];
            const float share = exp2f(one.x - largest);
            sum += share * sums[w][head][column], weights += share * one.y;
        }
        return {sum, largest, weights};
    }
};
template <typename Walked>
__device__ __forceinline__ void write(const Walked& walked, Bf16* out, int group) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < group * kDim; i += kThreads) {
        const float3 joined = walked.join(i / kDim, i % kDim);
        out[i] = __float2bfloat16_rn(joined.z == 0.0f ? 0.0f : joined.x / joined.z);
    }
}

// ---- on the cores -----------------------------------------------------------------------------------------------------------------

// A warp a token, a lane four elements of it. `keys`, `values`: of the sequence and head, [length][kDim].
template <int kGroup>
__device__ __forceinline__ void walk_rows(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                          Bf16* __restrict__ out, int length) {
    constexpr int kUnderWay = 4;
    __shared__ Walked<kWarps, kGroup> walked;
    const int column = 4 * lane();
    float query[kGroup][4], sums[kGroup][4] = {}, largest[kGroup], weights[kGroup] = {};
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
        largest[h] = kLeast;
#pragma unroll
        for (int d = 0; d < 4; ++d) query[h][d] = __bfloat162float(q[h * kDim + column + d]) * kScale;
    }
    for (int first = kUnderWay * warp(); first < length; first += kUnderWay * kWarps) {
        uint2 key[kUnderWay], value[kUnderWay];
#pragma unroll
        for (int i = 0; i < kUnderWay; ++i) {
            const Size at = static_cast<Size>(min(first + i, length - 1)) * kDim + column;
            key[i] = *reinterpret_cast<const uint2*>(keys + at), value[i] = *reinterpret_cast<const uint2*>(values + at);
        }
#pragma unroll
        for (int i = 0; i < kUnderWay; ++i) {
            const bool there = first + i < length;
#pragma unroll
            for (int h = 0; h < kGroup; ++h) {
                const float* const mine = query[h];
                const float score = sum_over<32>(mine[0] * lower(key[i].x) + mine[1] * upper(key[i].x) + mine[2] * lower(key[i].y) + mine[3] * upper(key[i].y));
                const float found = there ? fmaxf(largest[h], score) : largest[h];
                const float weight = there ? exp2f(score - found) : 0.0f, smaller = exp2f(largest[h] - found);
                largest[h] = found, weights[h] = weights[h] * smaller + weight;
                sums[h][0] = sums[h][0] * smaller + weight * lower(value[i].x), sums[h][1] = sums[h][1] * smaller + weight * upper(value[i].x);
                sums[h][2] = sums[h][2] * smaller + weight * lower(value[i].y), sums[h][3] = sums[h][3] * smaller + weight * upper(value[i].y);
            }
        }
    }
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
#pragma unroll
        for (int d = 0; d < 4; ++d) walked.sums[warp()][h][column + d] = sums[h][d];
        if (lane() == 0) walked.largest_and_weights[warp()][h] = {largest[h], weights[h]};
    }
    __syncthreads();
    write(walked, out, kGroup);
}

// Step 1. Blocks (query head, sequence).
__global__ void __launch_bounds__(kThreads) heads(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                 const int* __restrict__ lengths, Bf16* __restrict__ out, int capacity, int group) {
    const Size head = static_cast<Size>(blockIdx.y) * gridDim.x + blockIdx.x, from = head / static_cast<unsigned>(group) * capacity * kDim;
    walk_rows<1>(q + head * kDim, keys + from, values + from, out + head * kDim, lengths[blockIdx.y]);
}

// Step 2. Blocks (head of the cache, sequence).
template <int kGroup>
__global__ void __launch_bounds__(kThreads) groups(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                  const int* __restrict__ lengths, Bf16* __restrict__ out, int capacity) {
    const Size head = static_cast<Size>(blockIdx.y) * gridDim.x + blockIdx.x, from = head * capacity * kDim, first = head * kGroup * kDim;
    walk_rows<kGroup>(q + first, keys + from, values + from, out + first, lengths[blockIdx.y]);
}

// A cache in pages, as the steps from here on get it.
struct Pages {
    const Bf16 *keys, *values;
    const int *table, *lengths;
    int heads, shift, row_pages;  // of the cache; the logarithm of a page's tokens; entries a sequence has in the table

    __device__ __forceinline__ int number(int sequence, int token) const {
        return __ldg(table + static_cast<Size>(sequence) * row_pages + (token >> shift));
    }
    // Elements before this token's row.
    __device__ __forceinline__ Size at(int page, int head, int token) const {
        return (((static_cast<Size>(page) * heads + head) << shift) + (token & ((1 << shift) - 1))) * kDim;
    }
};

// Step 3. Half a warp a token, a lane eight elements of it; a warp's tile of 16 tokens lies in one page.
template <int kGroup>
__global__ void __launch_bounds__(kThreads) pages(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                 const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                 int shift, int row_pages) {
    constexpr int kEach = 8, kUnderWay = 4;
    __shared__ Walked<2 * kWarps, kGroup> walked;
    const Pages cache{keys, values, table, lengths, static_cast<int>(gridDim.x), shift, row_pages};
    const int sequence = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x), length = lengths[sequence];
    const int half = lane() / 16, column = kEach * (lane() % 16);
    const Size first = (static_cast<Size>(sequence) * gridDim.x + head) * kGroup * kDim;
    float query[kGroup][kEach], sums[kGroup][kEach] = {}, largest[kGroup], weights[kGroup] = {};
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
        largest[h] = kLeast;
#pragma unroll
        for (int d = 0; d < kEach; ++d) query[h][d] = __bfloat162float(q[first + h * kDim + column + d]) * kScale;
    }
    for (int tile = kTile * warp(); tile < length; tile += kTile * kWarps) {
        const Size at = cache.at(cache.number(sequence, tile), head, tile) + column;
#pragma unroll 1
        for (int pass = 0; pass < kTile; pass += 2 * kUnderWay) {
            uint4 key[kUnderWay], value[kUnderWay];
#pragma unroll
            for (int i = 0; i < kUnderWay; ++i) {
                const int token = pass + 2 * i + half;
                key[i] = value[i] = make_uint4(0, 0, 0, 0);
                if (tile + token < length) key[i] = read_once(keys + at + token * kDim), value[i] = read_once(values + at + token * kDim);
            }
#pragma unroll
            for (int i = 0; i < kUnderWay; ++i) {
                const bool there = tile + pass + 2 * i + half < length;
                const unsigned of_key[4] = {key[i].x, key[i].y, key[i].z, key[i].w}, of_value[4] = {value[i].x, value[i].y, value[i].z, value[i].w};
#pragma unroll
                for (int h = 0; h < kGroup; ++h) {
                    float score = 0.0f;
#pragma unroll
                    for (int d = 0; d < kEach; d += 2) score += query[h][d] * lower(of_key[d / 2]) + query[h][d + 1] * upper(of_key[d / 2]);
                    score = sum_over<16>(score);
                    const float found = there ? fmaxf(largest[h], score) : largest[h];
                    const float weight = there ? exp2f(score - found) : 0.0f, smaller = exp2f(largest[h] - found);
                    largest[h] = found, weights[h] = weights[h] * smaller + weight;
#pragma unroll
                    for (int d = 0; d < kEach; d += 2) {
                        sums[h][d] = sums[h][d] * smaller + weight * lower(of_value[d / 2]);
                        sums[h][d + 1] = sums[h][d + 1] * smaller + weight * upper(of_value[d / 2]);
                    }
                }
            }
        }
    }
    const int walker = 2 * warp() + half;
#pragma unroll
    for (int h = 0; h < kGroup; ++h) {
#pragma unroll
        for (int d = 0; d < kEach; ++d) walked.sums[walker][h][column + d] = sums[h][d];
        if (column == 0) walked.largest_and_weights[walker][h] = {largest[h], weights[h]};
    }
    __syncthreads();
    write(walked, out + first, kGroup);
}

using OfBlock = Walked<kWarps, kMostGroup>;

// ---- on tensor cores --------------------------------------------------------------------------------------------------------------

// A part of one sequence and head of the cache that a block walks over, in units of kUnit tokens; none: `unit` is not below `end`.
struct Stretch {
    int sequence, head, unit, end, length;
    __device__ __forceinline__ bool any() const { return unit < end; }
    __device__ __forceinline__ int first() const { return unit * kUnit + kTile * warp(); }
    __device__ __forceinline__ int last() const { return min(end * kUnit, length); }
    __device__ __forceinline__ bool whole() const { return unit == 0 && end * kUnit >= length; }
};

// What a warp has in registers. Lane 4 · g + q has of a tile, of
//   keys    tokens g and g + 8: words q, q + 4, q + 8, q + 12 of 16 bytes; as an operand, the n-th pair of all words is column n,
//   values  tokens 2q, 2q + 1, 2q + 8, 2q + 9: words g and g + 8,
// so that both are multiplied as they were loaded: in what order the elements of a scalar product come does not matter. The queries
// lie in shared memory, as lanes read them: word j of lane 4 · g + q is word 4 · j + q of head g.
constexpr int kQueryWords = kMostGroup * kDim / 8;
struct Warp {
    uint4 key[8], value[8];
    float sums[8][4];  // of heads 2q, 2q + 1: columns 64 · (i / 4) + 8g + 2 · (i % 4) and the next
    float largest, weights;  // of head g; the weights, of this lane's tokens alone

    __device__ __forceinline__ void start() {
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0.0f;
        largest = kLeast, weights = 0.0f;
    }
    // `rows`: the tile's first; `left`: tokens from there to the sequence's end, those behind them are zeros.
    __device__ __forceinline__ void read_keys(const Bf16* rows, int left) {
        const Bf16* const from = rows + lane() / 4 * kDim + 8 * (lane() % 4);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            key[i] = make_uint4(0, 0, 0, 0);
            if (lane() / 4 + i / 4 * 8 < left) key[i] = read_once(from + i / 4 * 8 * kDim + i % 4 * 32);
        }
    }
    __device__ __forceinline__ void read_values(const Bf16* rows, int left) {
        const int token = 2 * (lane() % 4);
        const Bf16* const from = rows + token * kDim + 8 * (lane() / 4);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int behind = i / 4 * 8 + i / 2 % 2;
            value[i] = make_uint4(0, 0, 0, 0);
            if (token + behind < left) value[i] = read_once(from + behind * kDim + i % 2 * 64);
        }
    }
    // Scores of this lane's tokens with head g, in the order of the tokens.
    __device__ __forceinline__ void score(float (&scores)[4], const uint4* queries, int left) const {
        float near[4] = {}, far[4] = {};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint4 query = read_again(queries + 32 * j + lane());
            multiply(near, query.x, 0u, query.y, 0u, key[j].x, key[j].y), multiply(far, query.x, 0u, query.y, 0u, key[4 + j].x, key[4 + j].y);
            multiply(near, query.z, 0u, query.w, 0u, key[j].z, key[j].w), multiply(far, query.z, 0u, query.w, 0u, key[4 + j].z, key[4 + j].w);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool there = i / 2 * 8 + 2 * (lane() % 4) + i % 2 < left;
            scores[i] = there ? (i < 2 ? near[i] : far[i - 2]) * kScale : __int_as_float(static_cast<int>(0xff800000u));
        }
    }
    // Scores become weights; what there is so far is made smaller where a larger score has come.
    __device__ __forceinline__ void weigh(float (&scores)[4]) {
        const float found = fmaxf(largest, largest_over<4>(fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]))));
        const float smaller = exp2f(largest - found);
        largest = found, weights *= smaller;
#pragma unroll
        for (int i = 0; i < 4; ++i) weights += scores[i] = exp2f(scores[i] - found);
        const float first = __shfl_sync(kAllLanes, smaller, 8 * (lane() % 4)), second = __shfl_sync(kAllLanes, smaller, 8 * (lane() % 4) + 4);
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[i][0] *= first, sums[i][1] *= second, sums[i][2] *= first, sums[i][3] *= second;
    }
    __device__ __forceinline__ void add_values(const float (&of_tokens)[4]) {
        const unsigned near = pair_of(of_tokens[0], of_tokens[1]), far = pair_of(of_tokens[2], of_tokens[3]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint4 &a = value[half], &b = value[2 + half], &c = value[4 + half], &d = value[6 + half];
            const auto add = [&](float (&to)[4], unsigned w, unsigned x, unsigned y, unsigned z) {
                multiply(to, __byte_perm(w, x, 0x5410), __byte_perm(w, x, 0x7632), __byte_perm(y, z, 0x5410), __byte_perm(y, z, 0x7632), near, far);
            };
            add(sums[4 * half], a.x, b.x, c.x, d.x), add(sums[4 * half + 1], a.y, b.y, c.y, d.y);
            add(sums[4 * half + 2], a.z, b.z, c.z, d.z), add(sums[4 * half + 3], a.w, b.w, c.w, d.w);
        }
    }
    __device__ __forceinline__ void leave(OfBlock& walked, int group) const {
        const int g = lane() / 4, q = lane() % 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int head = 2 * q + i % 2, half = i / 2;
            if (head >= group) continue;
            float* const to = walked.sums[warp()][head] + 64 * half + 8 * g;
#pragma unroll
            for (int j = 0; j < 4; ++j) to[2 * j] = sums[4 * half + j][i % 2], to[2 * j + 1] = sums[4 * half + j][i % 2 + 2];
        }
        const float all = sum_over<4>(weights);
        if (q == 0 && g < group) walked.largest_and_weights[warp()][g] = {largest, all};
    }
};

// Walks over stretches, one after another; while the last tile of one is multiplied, the first of the next is under way.
// `next(stretch)` gives the one after it; `finish(stretch, walked)` is called by the block's threads when all have left what they have.
template <typename Next, typename Finish>
__device__ __forceinline__ void walk(const Bf16* __restrict__ q, const Pages& cache, int group, Stretch now, const Next& next, const Finish& finish) {
    __shared__ OfBlock walked;
    __shared__ uint4 queries[kQueryWords];
    Warp mine;
    const auto read_first = [&](const Stretch& stretch, int page) {
        const Size at = cache.at(page, stretch.head, stretch.first());
        mine.read_keys(cache.keys + at, stretch.last() - stretch.first());
        mine.read_values(cache.values + at, stretch.last() - stretch.first());
    };
    const auto page_of = [&](const Stretch& stretch, int token) { return token < stretch.last() && stretch.any() ? cache.number(stretch.sequence, token) : 0; };
    if (now.any() && now.first() < now.last()) read_first(now, page_of(now, now.first()));
    while (now.any()) {
        const Stretch then = next(now);
        const int page_then = page_of(then, then.first());
        const bool has_then = then.any() && then.first() < then.last();
        mine.start();
        for (int word = static_cast<int>(threadIdx.x); word < kQueryWords; word += kThreads) {
            const Size first = (static_cast<Size>(now.sequence) * cache.heads + now.head) * group * kDim;
            const int head = word % 32 / 4;
            queries[word] = make_uint4(0, 0, 0, 0);
            if (head < group) queries[word] = *reinterpret_cast<const uint4*>(q + first + head * kDim + word / 32 * 32 + word % 4 * 8);
        }
        __syncthreads();
        int token = now.first(), page = page_of(now, token + kUnit);
        if (token >= now.last() && has_then) read_first(then, page_then);
        for (; token < now.last(); token += kUnit) {
            const int left = now.last() - token, coming = token + kUnit;
            const bool more = coming < now.last(), any = more || has_then;
            const Size at = more ? cache.at(page, now.head, coming) : cache.at(page_then, then.head, then.first());
            const int left_then = more ? now.last() - coming : then.last() - then.first();
            page = page_of(now, coming + kUnit);
            float scores[4];
            mine.score(scores, queries, left);
            if (any) mine.read_keys(cache.keys + at, left_then);
            mine.weigh(scores);
            mine.add_values(scores);
            if (any) mine.read_values(cache.values + at, left_then);
        }
        mine.leave(walked, group);
        __syncthreads();
        finish(now, walked);
        __syncthreads();
        now = then;
    }
}

// Where parts of results wait to be joined: of each, kMostGroup heads' sums and what they are relative to.
struct Parts {
    float* sums;                  // [part][kMostGroup][kDim]
    float2* largest_and_weights;  // [part][kMostGroup]

    __device__ __forceinline__ void put(int part, const OfBlock& walked, int group) const {
        const Size first = static_cast<Size>(part) * kMostGroup;
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < group * kDim; i += kThreads) {
            const float3 joined = walked.join(i / kDim, i % kDim);
            sums[first * kDim + i] = joined.x;
            if (i % kDim == 0) largest_and_weights[first + i / kDim] = {joined.y, joined.z};
        }
    }
    // A warp a head, a lane four columns, kAtOnce parts under way. part(i): the number of the i-th of `count`.
    template <typename Part>
    __device__ __forceinline__ void join(const Part& part, int count, Bf16* out, int group) const {
        for (int h = warp(); h < group; h += kWarps) {
            float largest = kLeast, weights = 0.0f;
            float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
            for (int first = 0; first < count; first += 32) {
                float2 one = {kLeast, 0.0f};
                if (first + lane() < count) one = __ldcg(largest_and_weights + static_cast<Size>(part(first + lane())) * kMostGroup + h);
                const float found = fmaxf(largest, largest_over<32>(one.x)), smaller = exp2f(largest - found), share = exp2f(one.x - found);
                largest = found, weights = weights * smaller + sum_over<32>(share * one.y);
                sum.x *= smaller, sum.y *= smaller, sum.z *= smaller, sum.w *= smaller;
                for (int from = 0; from < 32 && first + from < count; from += kAtOnce) {
                    float4 of_part[kAtOnce];
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i) {
                        of_part[i] = {0.0f, 0.0f, 0.0f, 0.0f};
                        if (first + from + i < count) of_part[i] = __ldcg(reinterpret_cast<const float4*>(sums + (static_cast<Size>(part(first + from + i)) * kMostGroup + h) * kDim) + lane());
                    }
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i) {
                        const float weight = __shfl_sync(kAllLanes, share, from + i);
                        sum.x += weight * of_part[i].x, sum.y += weight * of_part[i].y, sum.z += weight * of_part[i].z, sum.w += weight * of_part[i].w;
                    }
                }
            }
            const float by = weights == 0.0f ? 0.0f : 1.0f / weights;
            *reinterpret_cast<uint2*>(out + h * kDim + 4 * lane()) = {pair_of(sum.x * by, sum.y * by), pair_of(sum.z * by, sum.w * by)};
        }
    }
};

__device__ __forceinline__ void write_zeros(Bf16* out, int group) {
    for (int i = static_cast<int>(threadIdx.x); i < group * kDim; i += kThreads) out[i] = __float2bfloat16_rn(0.0f);
}

// Whether this block is the last of `count` to come by; what the others wrote before is then there. The counter is 0 again.
__device__ __forceinline__ bool is_last(unsigned* counter, int count) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1u) == static_cast<unsigned>(count) - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

__device__ __forceinline__ Stretch none() { return {0, 0, 0, 0, 0}; }
// Behind a block's only stretch.
struct Nothing {
    __device__ __forceinline__ Stretch operator()(const Stretch&) const { return none(); }
};

// Step 4. Blocks (head of the cache, sequence).
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) tensor(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                                 const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                                 int group, int shift, int row_pages) {
    const Pages cache{keys, values, table, lengths, static_cast<int>(gridDim.x), shift, row_pages};
    const int sequence = static_cast<int>(blockIdx.y), head = static_cast<int>(blockIdx.x), length = lengths[sequence];
    Bf16* const to = out + (static_cast<Size>(sequence) * cache.heads + head) * group * kDim;
    if (length == 0) write_zeros(to, group);
    walk(q, cache, group, {sequence, head, 0, parts_of(length, kUnit), length}, Nothing{},
         [&](const Stretch&, const OfBlock& walked) { write(walked, to, group); });
}

// Steps 5 and 6. Blocks (part, head of the cache of a sequence), `chunk` units each. `counters`: one a sequence and head of the cache, 0
// before and after; none: the parts wait for `combine`.
__device__ __forceinline__ void walk_parts(const Bf16* __restrict__ q, const Pages& cache, Bf16* __restrict__ out, const Parts& parts,
                                           unsigned* counters, int group, int chunk) {
    const int pair = static_cast<int>(blockIdx.y), part = static_cast<int>(blockIdx.x), first = pair * static_cast<int>(gridDim.x);
    const int sequence = pair / cache.heads, head = pair % cache.heads, length = cache.lengths[sequence];
    const int units = parts_of(length, kUnit), count = parts_of(units, chunk);
    Bf16* const to = out + static_cast<Size>(pair) * group * kDim;
    if (length == 0 && part == 0) write_zeros(to, group);
    walk(q, cache, group, {sequence, head, min(part * chunk, units), min((part + 1) * chunk, units), length}, Nothing{},
         [&](const Stretch&, const OfBlock& walked) {
             if (count == 1) return write(walked, to, group);
             parts.put(first + part, walked, group);
             if (counters != nullptr && is_last(counters + pair, count)) parts.join([&](int i) { return first + i; }, count, to, group);
         });
}
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) split(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                                const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                                float* sums, float2* largest_and_weights, int heads_of_cache, int group, int shift, int row_pages,
                                                                int chunk) {
    const Pages cache{keys, values, table, lengths, heads_of_cache, shift, row_pages};
    walk_parts(q, cache, out, {sums, largest_and_weights}, nullptr, group, chunk);
}
// The second launch. Blocks (head of the cache, sequence); `most`: parts that the first one had room for.
__global__ void __launch_bounds__(kThreads) combine(const int* __restrict__ lengths, Bf16* __restrict__ out, float* sums, float2* largest_and_weights,
                                                   int group, int chunk, int most) {
    const int pair = static_cast<int>(blockIdx.y * gridDim.x + blockIdx.x), count = parts_of(parts_of(lengths[blockIdx.y], kUnit), chunk);
    if (count < 2) return;
    Parts{sums, largest_and_weights}.join([&](int i) { return pair * most + i; }, count, out + static_cast<Size>(pair) * group * kDim, group);
}
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) one_launch(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                                     const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                                     float* sums, float2* largest_and_weights, unsigned* counters, int heads_of_cache, int group,
                                                                     int shift, int row_pages, int chunk) {
    const Pages cache{keys, values, table, lengths, heads_of_cache, shift, row_pages};
    walk_parts(q, cache, out, {sums, largest_and_weights}, counters, group, chunk);
}

// Steps 7 and 8. All units of all sequences and heads in a row; block b of B has those from b/B to (b + 1)/B of them. Each block finds
// by itself where its units are: lengths change with every token, and nobody has to tell it. Not all SMs are equally fast: with
// kStealing the end of each share waits in a few pieces, and whoever is done takes the next. Parts: 2 a range of units, the one that
// goes on from the range before and the one that goes on in the next. `counters`: one a sequence and head, and two.
template <bool kStealing>
__device__ __forceinline__ void walk_shares(const Bf16* __restrict__ q, const Pages& cache, Bf16* __restrict__ out, const Parts& parts, unsigned* counters,
                                            int batch, int group) {
    const int* const lengths = cache.lengths;
    const int of_pair = group * kDim;
    __shared__ Size shared_piece;
    int units = 0;  // of one head, all sequences
    for (int s = lane(); s < batch; s += 32) units += parts_of(__ldg(lengths + s), kUnit);
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) units += __shfl_xor_sync(kAllLanes, units, lanes);
    for (int s = static_cast<int>(blockIdx.x); s < batch; s += static_cast<int>(gridDim.x)) {
        if (__ldg(lengths + s) == 0) write_zeros(out + static_cast<Size>(s) * cache.heads * of_pair, cache.heads * group);
    }
    const Size all = static_cast<Size>(units) * static_cast<unsigned>(cache.heads), blocks = min(static_cast<Size>(gridDim.x), all);
    if (blockIdx.x >= blocks) return;
    const Size piece = (all / blocks + kPieceShare / 2) / kPieceShare, pieces = kStealing && piece != 0 ? kPieces : 0;  // of a share; units of one
    const auto share = [&](Size block) { return block * all / blocks; };
    const auto owner = [&](Size of) {  // the range that a unit is in: of each share the first units, then its pieces
        const Size block = ((of + 1) * blocks - 1) / all, first = share(block + 1) - pieces * piece;
        return static_cast<int>(block * (1 + pieces) + (of < first ? 0 : 1 + (of - first) / piece));
    };
    int range = static_cast<int>(blockIdx.x * (1 + pieces));
    Size unit = share(blockIdx.x), end = share(blockIdx.x + 1) - pieces * piece;
    unsigned* const taken = counters + batch * cache.heads;  // pieces so far; behind it, blocks that found none left

    // The sequence that `unit` is in, from the present one on: 32 at a time.
    Size before = 0;  // units of the sequences before it
    int sequence = 0, length = 0;
    const auto find = [&] {
        for (int first = sequence;; first += 32) {
            const int mine = first + lane() < batch ? __ldg(lengths + first + lane()) : 0;
            const Size own = static_cast<Size>(parts_of(mine, kUnit)) * static_cast<unsigned>(cache.heads);
            Size upto = own;  // and with those of the lanes before
#pragma unroll
            for (int lanes = 1; lanes < 32; lanes *= 2) {
                const Size of_other = __shfl_up_sync(kAllLanes, upto, static_cast<unsigned>(lanes));
                if (lane() >= lanes) upto += of_other;
            }
            const unsigned behind = __ballot_sync(kAllLanes, before + upto > unit);
            if (behind != 0) {
                const int found = __ffs(static_cast<int>(behind)) - 1;
                before += __shfl_sync(kAllLanes, upto - own, found);
                sequence = first + found, length = __shfl_sync(kAllLanes, mine, found);
                return;
            }
            before += __shfl_sync(kAllLanes, upto, 31);
        }
    };
    find();
    const auto stretch_at = [&] {  // the one that begins at `unit`, in `sequence`
        const int each = parts_of(length, kUnit), within = static_cast<int>(unit - before), head = within / each, from = within % each;
        const int upto = static_cast<int>(min(static_cast<Size>(each), from + (end - unit)));
        return Stretch{sequence, head, from, upto, length};
    };
    const auto next = [&](const Stretch& now) {
        unit += static_cast<unsigned>(now.end - now.unit);
        if (unit >= end) {
            if (threadIdx.x == 0) shared_piece = pieces == 0 ? 0 : atomicAdd(taken, 1u);
            __syncthreads();
            if (shared_piece >= pieces * blocks) return none();
            const Size block = shared_piece % blocks, number = shared_piece / blocks;  // the first piece of every share, then the second …
            range = static_cast<int>(block * (1 + pieces) + 1 + number);
            unit = share(block + 1) - (pieces - number) * piece, end = unit + piece;
            before = 0, sequence = 0;
        }
        find();
        return stretch_at();
    };
    // Of the stretch that is walked over, where its sequence begins in the row of all units, and its range: `next` has gone on already.
    Size begins = before, begins_then = before;
    int range_now = range, range_then = range;
    walk(
        q, cache, group, stretch_at(),
        [&](const Stretch& now) {
            begins = begins_then, range_now = range_then;
            const Stretch then = next(now);
            begins_then = before, range_then = range;
            return then;
        },
        [&](const Stretch& now, const OfBlock& walked) {
            const int pair = now.sequence * cache.heads + now.head, own = parts_of(now.length, kUnit);
            Bf16* const to = out + static_cast<Size>(pair) * of_pair;
            if (now.whole()) return write(walked, to, group);
            const Size from = begins + static_cast<Size>(own) * static_cast<unsigned>(now.head);
            const int one = owner(from), other = owner(from + static_cast<unsigned>(own) - 1);
            parts.put(2 * range_now + (now.unit == 0), walked, group);
            if (is_last(counters + pair, other - one + 1)) parts.join([&](int i) { return 2 * (one + i) + (i == 0); }, other - one + 1, to, group);
        });
    if (threadIdx.x == 0 && pieces != 0 && atomicAdd(taken + 1, 1u) == static_cast<unsigned>(blocks) - 1) taken[0] = taken[1] = 0;
}
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) balanced(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                                   const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                                   float* sums, float2* largest_and_weights, unsigned* counters, int batch, int heads_of_cache,
                                                                   int group, int shift, int row_pages) {
    walk_shares<false>(q, {keys, values, table, lengths, heads_of_cache, shift, row_pages}, out, {sums, largest_and_weights}, counters, batch, group);
}
__global__ void __launch_bounds__(kThreads, kBlocksPerSm) stealing(const Bf16* __restrict__ q, const Bf16* __restrict__ keys, const Bf16* __restrict__ values,
                                                                   const int* __restrict__ table, const int* __restrict__ lengths, Bf16* __restrict__ out,
                                                                   float* sums, float2* largest_and_weights, unsigned* counters, int batch, int heads_of_cache,
                                                                   int group, int shift, int row_pages) {
    walk_shares<true>(q, {keys, values, table, lengths, heads_of_cache, shift, row_pages}, out, {sums, largest_and_weights}, counters, batch, group);
}

}  // namespace paged_decode
}  // namespace lab
