// A token of a decoder at batch 1 by one kernel: weights, a cache and the newest token in; the next token out.
// Device code only, for NVRTC and nvcc alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// Every block keeps an SM and owns the same rows of every matrix all along. One thread of it fetches: it asks the copy engine for
// the block's rows, matrix after matrix, layer after layer, into a ring of slots, and waits for nothing but a free slot; nobody
// writes weights, so it may run ahead. Eight warps multiply: they hold the vector in registers, take one row from a slot at a time,
// and meet the other blocks between products. So the memory stays busy while blocks meet: the ring holds about five microseconds
// of its traffic. Around attention there are hardly any bytes, so nothing would hide a meeting: queries, keys, values and the parts
// of attention are told word by word, each with the number of its round, and whoever needs a word waits for that word alone.
#pragma once

#include "instructions.cuh"

namespace lab {
namespace decode {

constexpr int kThreads = kConsumers + kWarp;
constexpr int kSplits = 4;  // parts of a head's cache, a block each
constexpr float kEpsilon = 1e-5f;
constexpr float kLeast = -1e30f;

// Where everything lies: what the host fills in, 64 bits each.
struct Layer {
    const Bf16 *projections, *output, *widen, *narrow;                    // [rows][depth]
    const Bf16 *gain, *shift, *feed_forward_gain, *feed_forward_shift;  // of the normalizations
};
template <int kLayers>
struct Model {
    Layer layers[kLayers];
    const Bf16 *gain, *shift, *to_logits, *tokens, *places;
    Bf16 *keys, *values;  // [layers][2][heads][capacity][width]; the sequence has the second of both pages
    int *token, *length, *said;
    float* logits;
    Word* best;  // 0 before and after
    Word vocabulary, capacity;
};
template <int kD, int kHeads, int kSlots>
struct Shape {
    static constexpr int kWidth = kD / kHeads, kUnit = 2 * kD;  // bytes of kD elements: a row, a quarter of a narrow one
    static constexpr int kChunks = kD / (8 * kWarp), kHeld = 8 * kChunks;  // of kD elements, a lane's
    static constexpr int kBlock = kHeads < kWarp ? kHeads : kWarp;         // places of a head's cache in a unit
    static constexpr int kPairs = kD / (2 * kConsumers);                   // of kD, a thread's
    static constexpr int kMost = 320;                                      // units of a product, in a block
    static constexpr int kMine = kBlock / 2;                               // of a unit's places, one of two warps'
    static constexpr int kPart = kWidth + 2, kAllParts = kHeads * kSplits;  // words of a part
    static constexpr int kSums = kSlots * kUnit, kVector = kSums + 4 * kMost, kParts = kVector + 2 * kD;
    static constexpr int kShares = kParts + 4 * kWarps * kPart, kBarriers = kShares + 4 * kAllParts;
    static constexpr int kBytes = kBarriers + 2 * kSlots * 8;
    static_assert(kD % (8 * kWarp) == 0 && kHeads * kWidth == kD && kWidth % 16 == 0 && kWidth <= 128, "whole vectors");
    static_assert(kHeads % 2 == 0 && kAllParts <= kConsumers, "two warps a unit, a thread for each part");
    static_assert(kSplits == 4, "four neighbors put their shares together");
    static_assert(kD % (2 * kConsumers) == 0, "whole pairs of columns a thread");
    // A barrier tells one round of its slot from the next, and not from the one after: between two meetings of all warps, the
    // warp that waits for a slot's next round must be the one that has read the last.
    static_assert(kSlots % kWarps == 0, "a slot is read by the same warp in each round");
};

__device__ __forceinline__ float lower(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float upper(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ unsigned pair_of(float low, float high) {
    const unsigned short bits[2] = {__bfloat16_as_ushort(__float2bfloat16_rn(low)), __bfloat16_as_ushort(__float2bfloat16_rn(high))};
    return bits[0] | static_cast<unsigned>(bits[1]) << 16;
}
__device__ __forceinline__ float rounded(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }

// A lane's elements of a vector: 16 bytes of each chunk.
template <int kChunks>
__device__ __forceinline__ void widen(float (&x)[8 * kChunks], const uint4 (&words)[kChunks]) {
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
        const unsigned four[4] = {words[j].x, words[j].y, words[j].z, words[j].w};
#pragma unroll
        for (int i = 0; i < 4; ++i) x[8 * j + 2 * i] = lower(four[i]), x[8 * j + 2 * i + 1] = upper(four[i]);
    }
}
// Of a vector that other blocks have written.
template <int kChunks>
__device__ __forceinline__ void take(float (&x)[8 * kChunks], const Bf16* from, int lane) {
    uint4 words[kChunks];
#pragma unroll
    for (int j = 0; j < kChunks; ++j) words[j] = __ldcg(reinterpret_cast<const uint4*>(from) + lane + kWarp * j);
    widen<kChunks>(x, words);
}

// The vector normalized along its length; gain and shift lie in shared memory.
template <int kChunks>
__device__ __forceinline__ void normalize(float (&x)[8 * kChunks], const unsigned char* gains, const unsigned char* shifts, int lane) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 8 * kChunks; ++i) sum += x[i];
    const float mean = warp_sum(sum) / (8 * kChunks * kWarp);
#pragma unroll
    for (int i = 0; i < 8 * kChunks; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = rsqrtf(warp_sum(squares) / (8 * kChunks * kWarp) + kEpsilon);
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
        const uint4 gain = reinterpret_cast<const uint4*>(gains)[lane + kWarp * j], shift = reinterpret_cast<const uint4*>(shifts)[lane + kWarp * j];
        const unsigned of_gain[4] = {gain.x, gain.y, gain.z, gain.w}, of_shift[4] = {shift.x, shift.y, shift.z, shift.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float &low = x[8 * j + 2 * i], &high = x[8 * j + 2 * i + 1];
            low = rounded((low - mean) * inverse * lower(of_gain[i]) + lower(of_shift[i]));
            high = rounded((high - mean) * inverse * upper(of_gain[i]) + upper(of_shift[i]));
        }
    }
}

// The rows of a matrix that are a block's own.
struct Span {
    int first, count;
    __device__ __forceinline__ Span(int all) {
        const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
        first = static_cast<int>(static_cast<long long>(all) * block / blocks);
        count = static_cast<int>(static_cast<long long>(all) * (block + 1) / blocks) - first;
    }
};
// The blocks of a head's cache that are a block's own: none for blocks beyond the heads' parts.
template <class S>
struct Part {
    int head, split, first, count;
    __device__ __forceinline__ Part(int heads, int length) {
        head = static_cast<int>(blockIdx.x) / kSplits, split = static_cast<int>(blockIdx.x) % kSplits;
        const int blocks = (length + S::kBlock - 1) / S::kBlock;
        first = blocks * split / kSplits;
        count = head < heads ? blocks * (split + 1) / kSplits - first : 0;
    }
};

// What the eight warps share with the thread that fetches.
template <class S, int kSlots>
struct Ring {
    unsigned char* slots;
    Barrier *full, *empty;
    unsigned number;  // units so far

    __device__ __forceinline__ const unsigned char* wait(unsigned ahead) const {
        const unsigned mine = number + ahead, slot = mine % kSlots;
        wait_for(&full[slot], mine / kSlots % 2);
        return slots + slot * S::kUnit;
    }
    // By the only warp that has read it, or by each of them.
    __device__ __forceinline__ void release(unsigned ahead, int lane, unsigned warps = kWarps) const {
        __syncwarp();
        if (lane == 0) give_back(&empty[(number + ahead) % kSlots], warps);
    }
    __device__ __forceinline__ void bring(const void* from, unsigned bytes, unsigned under_way, Word policy) {
        const unsigned slot = number % kSlots, last = number - under_way;
        if (number >= under_way) wait_for(&full[last % kSlots], last / kSlots % 2);
        if (number >= kSlots) wait_for(&empty[slot], (number / kSlots - 1) % 2);
        rows::expect(&full[slot], bytes);
        fetch_once(slots + slot * S::kUnit, from, bytes, &full[slot], policy);
        ++number;
    }
};

// One token. What blocks write for each other: the residual stream and the wide vector; word by word, queries, keys and values, and
// parts of attention [heads][kSplits][width + 2]: its values, and the logarithm of its weight as a sum of two; and how many blocks
// have arrived and ended, both 0 before and after. A word's round is its layer's number from 1: between two of its rounds all blocks
// meet, so that a word holds this round's value or the last one's. No more than `under_way` units
// of a block are on their way at once, at most kSlots: what is queued in front of the memory delays the messages between blocks.
// A grid of as many blocks as there are SMs, kThreads threads and Shape::kBytes of shared memory each; launched cooperatively, for
// blocks wait for each other: all of them run at once, or the launch is refused.
template <int kD, int kHeads, int kLayers, int kSlots>
__global__ void __launch_bounds__(kThreads, 1)
    token(const Model<kLayers>* given, Bf16* x_of_all, unsigned* heads_of_all, Bf16* wide_of_all, unsigned* parts_of_all,
          unsigned* meetings, unsigned under_way) {
    static_assert(kLayers > 1, "a round differs from the last");
    using S = Shape<kD, kHeads, kSlots>;
    extern __shared__ uint4 block_start[];
    unsigned char* const memory = reinterpret_cast<unsigned char*>(block_start);
    float* const sums = reinterpret_cast<float*>(memory + S::kSums);
    unsigned* const vector = reinterpret_cast<unsigned*>(memory + S::kVector);  // in pairs
    float* const query = reinterpret_cast<float*>(memory + S::kVector);
    float* const parts = reinterpret_cast<float*>(memory + S::kParts);
    float* const shares = reinterpret_cast<float*>(memory + S::kShares);
    const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
    const Model<kLayers>& model = *given;
    Ring<S, kSlots> ring{memory, reinterpret_cast<Barrier*>(memory + S::kBarriers), nullptr, 0};
    ring.empty = ring.full + kSlots;
    if (thread == 0) {
        for (int slot = 0; slot < kSlots; ++slot) rows::set_up(&ring.full[slot], 1), rows::set_up(&ring.empty[slot], kWarps);
        rows::publish_barriers();
    }
    __syncthreads();
    const int length = __ldcg(model.length);
    const Span three(3 * kD), straight(kD), wide(4 * kD), words(static_cast<int>(model.vocabulary));
    const Part<S> part(kHeads, length);
    const Word head_bytes = model.capacity * (2 * S::kWidth);

    if (warp == kWarps) {  // fetches
        if (lane != 0) return;
        const Word policy = read_once_policy();
        const auto matrix = [&](const Bf16* whole, const Span& span, int units_a_row) {
            const unsigned char* at = reinterpret_cast<const unsigned char*>(whole) + static_cast<Word>(span.first) * units_a_row * S::kUnit;
            for (int unit = 0; unit < span.count * units_a_row; ++unit, at += S::kUnit) ring.bring(at, S::kUnit, under_way, policy);
        };
        const auto norm = [&](const Bf16* gain, const Bf16* shift) {
            ring.bring(gain, S::kUnit, under_way, policy);
            ring.bring(shift, S::kUnit, under_way, policy);
        };
        for (int number = 0; number < kLayers; ++number) {
            const Layer layer = model.layers[number];
            norm(layer.gain, layer.shift);
            matrix(layer.projections, three, 1);
            for (int block = 0; block < part.count; ++block) {
                const int place = (part.first + block) * S::kBlock, left = length - place;
                const unsigned bytes = (left < S::kBlock ? left : S::kBlock) * (2 * S::kWidth);
                const Word at = (static_cast<Word>(2 * number + 1) * kHeads + part.head) * head_bytes + static_cast<Word>(place) * (2 * S::kWidth);
                ring.bring(reinterpret_cast<const unsigned char*>(model.keys) + at, bytes, under_way, policy);
                ring.bring(reinterpret_cast<const unsigned char*>(model.values) + at, bytes, under_way, policy);
            }
            matrix(layer.output, straight, 1);
            norm(layer.feed_forward_gain, layer.feed_forward_shift);
            matrix(layer.widen, wide, 1);
            matrix(layer.narrow, straight, 4);
        }
        norm(model.gain, model.shift);
        matrix(model.to_logits, words, 1);
        return;
    }

    unsigned wanted = 0;  // arrivals
    const auto meet_others = [&] {
        wanted += gridDim.x;
        if (thread == 0) wait_for_blocks(meetings, wanted);
        consumers_meet();
    };
    const auto done = [&] {
        consumers_meet();
        if (thread == 0) arrive(meetings);
    };
    const auto normalized = [&](float (&x)[S::kHeld]) {  // by all warps
        normalize<S::kChunks>(x, ring.wait(0), ring.wait(1), lane);
        ring.release(0, lane, 1), ring.release(1, lane, 1);
        ring.number += 2;
    };
    // The sums of the block's next units with the vector, into `sums`.
    const auto multiply = [&](const float (&x)[S::kHeld], int units) {
        for (int unit = warp; unit < units; unit += kWarps) {
            const uint4* const at = reinterpret_cast<const uint4*>(ring.wait(unit)) + lane;
            uint4 pairs[S::kChunks];
#pragma unroll
            for (int j = 0; j < S::kChunks; ++j) pairs[j] = at[kWarp * j];
            float four[4] = {};
#pragma unroll
            for (int j = 0; j < S::kChunks; ++j) {
                four[0] += lower(pairs[j].x) * x[8 * j] + upper(pairs[j].x) * x[8 * j + 1];
                four[1] += lower(pairs[j].y) * x[8 * j + 2] + upper(pairs[j].y) * x[8 * j + 3];
                four[2] += lower(pairs[j].z) * x[8 * j + 4] + upper(pairs[j].z) * x[8 * j + 5];
                four[3] += lower(pairs[j].w) * x[8 * j + 6] + upper(pairs[j].w) * x[8 * j + 7];
            }
            ring.release(unit, lane);
            const float sum = warp_sum((four[0] + four[1]) + (four[2] + four[3]));
            if (lane == 0) sums[unit] = sum;
        }
        ring.number += units;
        consumers_meet();
    };

    const int newest = __ldcg(model.token);
    const Bf16* const embedded = model.tokens + static_cast<Word>(newest) * kD;
    const Bf16* const placed = model.places + static_cast<Word>(length) * kD;
    float x[S::kHeld], mine = 0.0f;  // of the residual stream, this thread's own element
    if (thread < straight.count) {
        const int row = straight.first + thread;
        mine = rounded(__bfloat162float(embedded[row]) + __bfloat162float(placed[row]));
    }
    for (int number = 0; number < kLayers; ++number) {
        if (number == 0) {  // queries, keys, values
            float at_place[S::kHeld];
            take<S::kChunks>(x, embedded, lane);
            take<S::kChunks>(at_place, placed, lane);
#pragma unroll
            for (int i = 0; i < S::kHeld; ++i) x[i] = rounded(x[i] + at_place[i]);
        } else {
            meet_others();
            take<S::kChunks>(x, x_of_all, lane);
        }
        normalized(x);
        multiply(x, three.count);
        const unsigned round = static_cast<unsigned>(number) + 1;
        if (thread < three.count) tell(heads_of_all + three.first + thread, sums[thread], round);

        if (part.head < kHeads) {  // attention: two warps take a block of places at a time
            const unsigned* const heads = heads_of_all + part.head * S::kWidth;
            const bool newest_too = part.split == kSplits - 1 && warp == kWarps - 1;  // the new token itself
            float2 fresh[4];  // of its key and its value, columns 2l, 2l + 1, 64 + 2l, 65 + 2l
            if (newest_too) {
                const auto at = [&](int i) {
                    const int column = i % 2 * 64 + 2 * lane;
                    return heads + (1 + i / 2) * kD + (column < S::kWidth ? column : 0);
                };
                hear(fresh, at, round);
            }
            if (2 * thread < S::kWidth) {
                float2 asked[1];
                hear(asked, [&](int) { return heads + 2 * thread; }, round);
                const float scale = rsqrtf(static_cast<float>(S::kWidth));
                query[2 * thread] = asked[0].x * scale, query[2 * thread + 1] = asked[0].y * scale;
            }
            consumers_meet();
            float top = kLeast, total = 0.0f, mixed[4] = {};  // columns as above
            for (int block = 0; block < part.count; ++block) {
                if (block % (kSlots / 2) % (kWarps / 2) != warp / 2) continue;
                const int left = length - (part.first + block) * S::kBlock, known = left < S::kBlock ? left : S::kBlock;
                const int before = warp % 2 * S::kMine, place = before + lane / 2;  // two lanes a place, half of its key each
                const bool there = lane / 2 < S::kMine && place < known;
                const unsigned char* const keys = ring.wait(2 * block);
                float score = 0.0f;
                if (there) {
                    const uint4* const key = reinterpret_cast<const uint4*>(keys + place * 2 * S::kWidth + lane % 2 * S::kWidth);
                    const float4* const half = reinterpret_cast<const float4*>(query + lane % 2 * (S::kWidth / 2));
#pragma unroll
                    for (int j = 0; j < S::kWidth / 16; ++j) {
                        const uint4 pairs = key[j];
                        const float4 first = half[2 * j], second = half[2 * j + 1];
                        score += lower(pairs.x) * first.x + upper(pairs.x) * first.y + lower(pairs.y) * first.z + upper(pairs.y) * first.w;
                        score += lower(pairs.z) * second.x + upper(pairs.z) * second.y + lower(pairs.w) * second.z + upper(pairs.w) * second.w;
                    }
                }
                ring.release(2 * block, lane, kWarps / 2);
                score += __shfl_xor_sync(rows::kAllLanes, score, 1);
                if (!there) score = kLeast;
                const float higher = fmaxf(top, warp_max(score));
                const float weight = there ? __expf(score - higher) : 0.0f, shrink = __expf(top - higher);
                top = higher, total = total * shrink + 0.5f * warp_sum(weight);
#pragma unroll
                for (int i = 0; i < 4; ++i) mixed[i] *= shrink;
                const unsigned char* const value = ring.wait(2 * block + 1) + before * 2 * S::kWidth + 4 * lane;
                const int mine_known = known - before < S::kMine ? known - before : S::kMine;
#pragma unroll 4
                for (int at = 0; at < mine_known; ++at) {
                    const float share = __shfl_sync(rows::kAllLanes, weight, 2 * at);
                    if (2 * lane < S::kWidth) {
                        const unsigned pair = *reinterpret_cast<const unsigned*>(value + at * 2 * S::kWidth);
                        mixed[0] += share * lower(pair), mixed[1] += share * upper(pair);
                    }
                    if (64 + 2 * lane < S::kWidth) {
                        const unsigned pair = *reinterpret_cast<const unsigned*>(value + at * 2 * S::kWidth + 128);
                        mixed[2] += share * lower(pair), mixed[3] += share * upper(pair);
                    }
                }
                ring.release(2 * block + 1, lane, kWarps / 2);
            }
            if (newest_too) {
                const Word to = ((static_cast<Word>(2 * number + 1) * kHeads + part.head) * model.capacity + length) * S::kWidth;
                float score = 0.0f;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int column = i * 64 + 2 * lane;
                    if (column >= S::kWidth) continue;
                    score += query[column] * fresh[i].x + query[column + 1] * fresh[i].y;
                    *reinterpret_cast<unsigned*>(model.keys + to + column) = pair_of(fresh[i].x, fresh[i].y);
                    *reinterpret_cast<unsigned*>(model.values + to + column) = pair_of(fresh[2 + i].x, fresh[2 + i].y);
                }
                score = warp_sum(score);
                const float higher = fmaxf(top, score), weight = __expf(score - higher), shrink = __expf(top - higher);
                top = higher, total = total * shrink + weight;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    mixed[2 * i] = mixed[2 * i] * shrink + weight * fresh[2 + i].x;
                    mixed[2 * i + 1] = mixed[2 * i + 1] * shrink + weight * fresh[2 + i].y;
                }
            }
            float* const own = parts + warp * S::kPart;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int column = i / 2 * 64 + 2 * lane + i % 2;
                if (column < S::kWidth) own[column] = mixed[i];
            }
            if (lane == 0) own[S::kWidth] = top, own[S::kWidth + 1] = total;
            consumers_meet();
            if (thread <= S::kWidth) {
                float highest = kLeast, sum = 0.0f, weights = 0.0f;
                for (int w = 0; w < kWarps; ++w) highest = fmaxf(highest, parts[w * S::kPart + S::kWidth]);
                for (int w = 0; w < kWarps; ++w) {
                    const float* const one = parts + w * S::kPart;
                    const float share = __expf(one[S::kWidth] - highest);
                    sum += one[thread] * share, weights += one[S::kWidth + 1] * share;
                }
                unsigned* const to = parts_of_all + static_cast<int>(blockIdx.x) * S::kPart + thread;
                if (thread < S::kWidth) {
                    tell(to, weights == 0.0f ? 0.0f : sum / weights, round);
                } else {
                    const float weight = weights == 0.0f ? kLeast : highest + __logf(weights);
                    tell(to, weight, round), tell(to + 1, weight - rounded(weight), round);
                }
            }
            ring.number += 2 * part.count;
        }

        {  // the parts of each head put together; their projection
            if (warp < (S::kAllParts + kWarp - 1) / kWarp) {
                float2 weight[1];
                const int told = thread < S::kAllParts ? thread : S::kAllParts - 1;
                hear(weight, [&](int) { return parts_of_all + told * S::kPart + S::kWidth; }, round);
                const float own = weight[0].x + weight[0].y;
                float highest = fmaxf(own, __shfl_xor_sync(rows::kAllLanes, own, 1));
                highest = fmaxf(highest, __shfl_xor_sync(rows::kAllLanes, highest, 2));
                const float share = __expf(own - highest), two = share + __shfl_xor_sync(rows::kAllLanes, share, 1);
                const float four = two + __shfl_xor_sync(rows::kAllLanes, two, 2);
                if (thread < S::kAllParts) shares[thread] = share / four;
            }
            consumers_meet();
            float2 pieces[S::kPairs * kSplits];
            const auto at = [&](int i) {
                const int column = 2 * (thread + kConsumers * (i / kSplits));
                return parts_of_all + (column / S::kWidth * kSplits + i % kSplits) * S::kPart + column % S::kWidth;
            };
            hear(pieces, at, round);
#pragma unroll
            for (int k = 0; k < S::kPairs; ++k) {
                const int head = 2 * (thread + kConsumers * k) / S::kWidth;
                float low = 0.0f, high = 0.0f;
#pragma unroll
                for (int split = 0; split < kSplits; ++split) {
                    const float of_split = shares[head * kSplits + split];
                    low += of_split * pieces[k * kSplits + split].x, high += of_split * pieces[k * kSplits + split].y;
                }
                vector[thread + kConsumers * k] = pair_of(low, high);
            }
            consumers_meet();
            uint4 words_of[S::kChunks];
#pragma unroll
            for (int j = 0; j < S::kChunks; ++j) words_of[j] = reinterpret_cast<const uint4*>(vector)[lane + kWarp * j];
            widen<S::kChunks>(x, words_of);
        }
        multiply(x, straight.count);
        if (thread < straight.count) {
            mine += sums[thread];
            x_of_all[straight.first + thread] = __float2bfloat16_rn(mine);
        }
        done();

        meet_others();  // the wide product
        take<S::kChunks>(x, x_of_all, lane);
        normalized(x);
        multiply(x, wide.count);
        if (thread < wide.count) {
            const float sum = rounded(sums[thread]);
            wide_of_all[wide.first + thread] = __float2bfloat16_rn(0.5f * sum * (1.0f + erff(sum * 0.7071067811865476f)));
        }
        done();

        meet_others();  // the narrow one: a row's quarters, by four warps
        take<S::kChunks>(x, wide_of_all + warp % 4 * kD, lane);
        multiply(x, 4 * straight.count);
        if (thread < straight.count) {
            const float* const quarters = sums + 4 * thread;
            mine += (quarters[0] + quarters[1]) + (quarters[2] + quarters[3]);
            x_of_all[straight.first + thread] = __float2bfloat16_rn(mine);
        }
        done();
    }

    meet_others();
    take<S::kChunks>(x, x_of_all, lane);
    normalized(x);
    multiply(x, words.count);
    // The likeliest token: the highest of all pairs of a logit, as a number that orders like it, and the token counted from behind.
    // What is no number is above all of them.
    Word best = 0;
    for (int word = thread; word < words.count; word += kConsumers) {
        const float logit = sums[word];
        model.logits[words.first + word] = logit;
        const unsigned bits = __float_as_uint(logit), ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
        const Word pair = static_cast<Word>(logit == logit ? ordered : ~0u) << 32 | (~0u - static_cast<unsigned>(words.first + word));
        best = pair > best ? pair : best;
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        const Word other = __shfl_xor_sync(rows::kAllLanes, best, lanes);
        best = other > best ? other : best;
    }
    if (lane == 0) atomicMax(model.best, best);
    __threadfence();
    consumers_meet();
    if (thread == 0 && atomicAdd(meetings + 1, 1u) == gridDim.x - 1) {  // the last block: all others have met for good
        __threadfence();
        const Word highest = atomicExch(model.best, 0ull);
        const bool number = highest >> 32 != ~0u;
        const int chosen = static_cast<int>(~0u - static_cast<unsigned>(highest));
        model.said[length] = number ? chosen : -1;
        *model.token = number ? chosen : 0;
        *model.length = length + 1;
        meetings[0] = meetings[1] = 0;
    }
}

}  // namespace decode
}  // namespace lab
