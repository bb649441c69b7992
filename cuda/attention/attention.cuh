// Attention forward in fp32: queries, keys and values (heads × length × dim) in, softmax(Q·Kᵀ / √dim)·V of each head out.
// Device code only, for nvcc and NVRTC alike. Any length; dim 64 or 128; `causal`: a query sees no key behind it.
// SPDX-License-Identifier: Apache-2.0
//
// Two products with a softmax between them. What decides is where the length × length scores live:
//   materialized   in memory: written once, read three times, 4 bytes each, more than everything else together
//   online         in registers, 32 keys at a time: the softmax is corrected whenever a larger score turns up
//   tiled          … for 128 × 64 tiles, both products as squares of 8 × 8 and more a thread, as in the fp32 matrix product
//
// A NaN in a query makes its row NaN; one in a key or value the rows that see it, with `causal` also some shortly before them.
// A score of +∞ makes its row NaN, one of −∞ is a weight of 0.
#pragma once

namespace lab {
namespace attention {

using Size = unsigned long long;

constexpr float kLog2e = 1.442695041f;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float minus_infinity() { return __int_as_float(static_cast<int>(0xff800000u)); }
// What scores are multiplied by: 1/√dim, and log₂ e, since powers of two are what the hardware computes.
template <int kDim>
constexpr float kScale = (kDim == 64 ? 0.125f : 0.0883883476f) * kLog2e;

// The largest, and the sum, over kLanes neighboring lanes; known to all of them.
template <int kLanes>
__device__ __forceinline__ float largest_over(float x) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, lanes));
    return x;
}
template <int kLanes>
__device__ __forceinline__ float sum_over(float x) {
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(kAllLanes, x, lanes);
    return x;
}

// Four neighboring elements; `words`: they lie in one aligned word of 16 bytes, as all do when the arrays start on 16 bytes.
__device__ __forceinline__ float4 read_word(const float* from, bool words) {
    if (words) return *reinterpret_cast<const float4*>(from);
    return {from[0], from[1], from[2], from[3]};
}
__device__ __forceinline__ void write_word(float* to, float4 word, bool words) {
    if (words) *reinterpret_cast<float4*>(to) = word;
    else to[0] = word.x, to[1] = word.y, to[2] = word.z, to[3] = word.w;
}
__device__ __forceinline__ bool on_words(const float* q, const float* k, const float* v, const float* out) {
    return (reinterpret_cast<Size>(q) | reinterpret_cast<Size>(k) | reinterpret_cast<Size>(v) | reinterpret_cast<Size>(out)) % 16 == 0;
}

// Step 1. A block a query: its scores to memory, their largest, the sum of their exponentials, then the weighted sum of the values.
// `scores`: heads × length × length; what is left there is written again before it is read again.
constexpr int kRowThreads = 128;
template <int kDim>
__global__ void __launch_bounds__(kRowThreads) materialized(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                                           float* __restrict__ out, float* __restrict__ scores, int length, int causal) {
    __shared__ float query[kDim], partial[kRowThreads / 32];
    const int row = blockIdx.x, thread = threadIdx.x, keys = causal ? row + 1 : length;
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim;
    float* const mine = scores + (static_cast<Size>(blockIdx.y) * length + row) * length;
    if (thread < kDim) query[thread] = q[head + static_cast<Size>(row) * kDim + thread] * kScale<kDim>;
    __syncthreads();
    float largest = minus_infinity(), sum = 0;
    for (int j = thread; j < keys; j += kRowThreads) {
        const float* const key = k + head + static_cast<Size>(j) * kDim;
        float score = 0;
        for (int d = 0; d < kDim; ++d) score += query[d] * key[d];
        mine[j] = score;
        largest = fmaxf(largest, score);
    }
    largest = largest_over<32>(largest);
    if (thread % 32 == 0) partial[thread / 32] = largest;
    __syncthreads();
    largest = largest_over<kRowThreads / 32>(partial[thread % (kRowThreads / 32)]);
    __syncthreads();
    for (int j = thread; j < keys; j += kRowThreads) sum += mine[j] = exp2f(mine[j] - largest);
    sum = sum_over<32>(sum);
    if (thread % 32 == 0) partial[thread / 32] = sum;
    __syncthreads();
    sum = sum_over<kRowThreads / 32>(partial[thread % (kRowThreads / 32)]);
    if (thread >= kDim) return;
    float total = 0;
    for (int j = 0; j < keys; ++j) total += mine[j] * v[head + static_cast<Size>(j) * kDim + thread];
    out[head + static_cast<Size>(row) * kDim + thread] = total / sum;
}

// Copies rows first … first + kRows - 1 of a head, zeros for those it does not have.
template <int kRows, int kDim, int kThreads>
__device__ __forceinline__ void copy_rows(const float* from, int first, int length, float* to, bool words) {
#pragma unroll 2
    for (int i = threadIdx.x; i < kRows * kDim / 4; i += kThreads) {
        const int row = first + i / (kDim / 4);
        const float4 zeros = {0, 0, 0, 0};
        reinterpret_cast<float4*>(to)[i] = row < length ? read_word(from + static_cast<Size>(row) * kDim + i % (kDim / 4) * 4, words) : zeros;
    }
}

// Step 2. kSplit neighboring lanes a query, each with 32 elements of it and of its result in registers; keys and values pass by in
// tiles that all queries of the block read together. No score ever reaches memory. Where a tile holds a larger score than all
// before, what is there so far is made smaller by as much.
constexpr int kPart = 32, kTileKeys = 32, kOnlineThreads = 128;
template <int kDim>
__global__ void __launch_bounds__(kOnlineThreads) online(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                                        float* __restrict__ out, int length, int causal) {
    constexpr int kSplit = kDim / kPart, kQueries = kOnlineThreads / kSplit;
    __shared__ float4 keys[kTileKeys * kDim / 4], values[kTileKeys * kDim / 4];
    const int part = threadIdx.x % kSplit, row = blockIdx.x * kQueries + threadIdx.x / kSplit, last = min(blockIdx.x * kQueries + kQueries, length);
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim;
    const bool words = on_words(q, k, v, out);
    float4 query[kPart / 4], sums[kPart / 4];  // words part, part + kSplit, … of the row
#pragma unroll
    for (int i = 0; i < kPart / 4; ++i) {
        sums[i] = {0, 0, 0, 0};
        query[i] = sums[i];
        if (row < length) query[i] = read_word(q + head + static_cast<Size>(row) * kDim + 4 * (part + kSplit * i), words);
        query[i].x *= kScale<kDim>, query[i].y *= kScale<kDim>, query[i].z *= kScale<kDim>, query[i].w *= kScale<kDim>;
    }
    float largest = minus_infinity(), sum = 0;
    for (int first = 0; first < (causal ? last : length); first += kTileKeys) {
        copy_rows<kTileKeys, kDim, kOnlineThreads>(k + head, first, length, reinterpret_cast<float*>(keys), words);
        copy_rows<kTileKeys, kDim, kOnlineThreads>(v + head, first, length, reinterpret_cast<float*>(values), words);
        __syncthreads();
        float scores[kTileKeys], found = largest;
#pragma unroll
        for (int j = 0; j < kTileKeys; ++j) {
            float score = 0;
#pragma unroll
            for (int i = 0; i < kPart / 4; ++i) {
                const float4 key = keys[j * kDim / 4 + part + kSplit * i];
                score += query[i].x * key.x + query[i].y * key.y + query[i].z * key.z + query[i].w * key.w;
            }
            score = sum_over<kSplit>(score);
            scores[j] = first + j < length && !(causal && first + j > row) ? score : minus_infinity();
            found = fmaxf(found, scores[j]);
        }
        const float smaller = exp2f(largest - found);
        largest = found;
        sum *= smaller;
#pragma unroll
        for (int i = 0; i < kPart / 4; ++i) sums[i].x *= smaller, sums[i].y *= smaller, sums[i].z *= smaller, sums[i].w *= smaller;
#pragma unroll
        for (int j = 0; j < kTileKeys; ++j) {
            const float weight = exp2f(scores[j] - largest);
            sum += weight;
#pragma unroll
            for (int i = 0; i < kPart / 4; ++i) {
                const float4 value = values[j * kDim / 4 + part + kSplit * i];
                sums[i].x += weight * value.x, sums[i].y += weight * value.y, sums[i].z += weight * value.z, sums[i].w += weight * value.w;
            }
        }
        __syncthreads();
    }
    if (row >= length) return;
#pragma unroll
    for (int i = 0; i < kPart / 4; ++i) {
        const float4 result = {sums[i].x / sum, sums[i].y / sum, sums[i].z / sum, sums[i].w / sum};
        write_word(out + head + static_cast<Size>(row) * kDim + 4 * (part + kSplit * i), result, words);
    }
}

// Step 3. A block 128 queries; 16 × 8 threads, each 8 queries with 8 keys, then with kDim / 8 columns of the values. Queries, keys
// and weights lie turned in shared memory, so that a thread reads what it multiplies in words of 16 bytes. Keys and values take
// turns in one place.
constexpr int kQueries = 128, kKeys = 64, kThreads = 128, kEach = 8;
constexpr int kQueryPitch = kQueries + 4, kKeyPitch = kKeys + 4;
template <int kDim>
constexpr int kTiledBytes = 4 * (kDim * kQueryPitch + kDim * kKeyPitch + kKeys * kQueryPitch);

// Rows turned: element d of row r at d · kPitch + r. Rows along the lanes, so that no bank is written twice.
template <int kRows, int kDim, int kPitch>
__device__ __forceinline__ void turn_rows(const float* from, int first, int length, float scale, float* to, bool words) {
#pragma unroll 2
    for (int i = threadIdx.x; i < kRows * kDim / 4; i += kThreads) {
        const int r = i % kRows, d = i / kRows * 4;
        float4 word = {0, 0, 0, 0};
        if (first + r < length) word = read_word(from + static_cast<Size>(first + r) * kDim + d, words);
        to[d * kPitch + r] = word.x * scale, to[(d + 1) * kPitch + r] = word.y * scale;
        to[(d + 2) * kPitch + r] = word.z * scale, to[(d + 3) * kPitch + r] = word.w * scale;
    }
}
// Words `kApart` floats apart, from place `at` on, into registers.
template <int kCount, int kApart>
__device__ __forceinline__ void read_words(float (&to)[kCount], const float* at) {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
        const float4 word = *reinterpret_cast<const float4*>(at + i * kApart);
        to[4 * i] = word.x, to[4 * i + 1] = word.y, to[4 * i + 2] = word.z, to[4 * i + 3] = word.w;
    }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads) tiled(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                                 float* __restrict__ out, int length, int causal) {
    extern __shared__ float4 memory[];
    float* const queries = reinterpret_cast<float*>(memory);
    float* const keys = queries + kDim * kQueryPitch;  // or values, in rows
    float* const weights = keys + kDim * kKeyPitch;
    constexpr int kOut = kDim / 8;
    const bool words = on_words(q, k, v, out);
    const int x = threadIdx.x % 8 * 4, y = threadIdx.x / 8 * 4;  // the first key (column) of each 32, the first query of each 64
    const int row0 = blockIdx.x * kQueries, end = causal ? min(row0 + kQueries, length) : length;
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim;
    turn_rows<kQueries, kDim, kQueryPitch>(q + head, row0, length, kScale<kDim>, queries, words);
    float sums[kEach][kOut] = {}, largest[kEach], sum[kEach] = {};
#pragma unroll
    for (int r = 0; r < kEach; ++r) largest[r] = minus_infinity();
    for (int first = 0; first < end; first += kKeys) {
        __syncthreads();  // nobody reads the values before any more
        turn_rows<kKeys, kDim, kKeyPitch>(k + head, first, length, 1.0f, keys, words);
        __syncthreads();
        float scores[kEach][kEach] = {};
#pragma unroll 2
        for (int d = 0; d < kDim; ++d) {
            float of_q[kEach], of_k[kEach];
            read_words<kEach, 64>(of_q, queries + d * kQueryPitch + y);
            read_words<kEach, 32>(of_k, keys + d * kKeyPitch + x);
#pragma unroll
            for (int r = 0; r < kEach; ++r) {
#pragma unroll
                for (int s = 0; s < kEach; ++s) scores[r][s] += of_q[r] * of_k[s];
            }
        }
        __syncthreads();  // nobody reads the keys any more
        copy_rows<kKeys, kDim, kThreads>(v + head, first, length, keys, words);
#pragma unroll
        for (int r = 0; r < kEach; ++r) {
            const int row = row0 + y + r / 4 * 64 + r % 4;
            float found = largest[r];
#pragma unroll
            for (int s = 0; s < kEach; ++s) {
                const int key = first + x + s / 4 * 32 + s % 4;
                if (key >= length || (causal && key > row)) scores[r][s] = minus_infinity();
                found = fmaxf(found, scores[r][s]);
            }
            found = largest_over<8>(found);
            const float smaller = exp2f(largest[r] - found);
            largest[r] = found;
            sum[r] *= smaller;
#pragma unroll
            for (int s = 0; s < kOut; ++s) sums[r][s] *= smaller;
#pragma unroll
            for (int s = 0; s < kEach; ++s) {
                scores[r][s] = exp2f(scores[r][s] - found);
                sum[r] += scores[r][s];
            }
        }
#pragma unroll
        for (int s = 0; s < kEach; ++s) {
            float* const to = weights + (x + s / 4 * 32 + s % 4) * kQueryPitch + y;
#pragma unroll
            for (int r = 0; r < kEach; r += 4) {
                *reinterpret_cast<float4*>(to + r / 4 * 64) = {scores[r][s], scores[r + 1][s], scores[r + 2][s], scores[r + 3][s]};
            }
        }
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < kKeys; ++j) {
            float of_w[kEach], of_v[kOut];
            read_words<kEach, 64>(of_w, weights + j * kQueryPitch + y);
            read_words<kOut, 32>(of_v, keys + j * kDim + x);
#pragma unroll
            for (int r = 0; r < kEach; ++r) {
#pragma unroll
                for (int s = 0; s < kOut; ++s) sums[r][s] += of_w[r] * of_v[s];
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
        const int row = row0 + y + r / 4 * 64 + r % 4;
        const float all = sum_over<8>(sum[r]);
        if (row >= length) continue;
#pragma unroll
        for (int s = 0; s < kOut; s += 4) {
            const float4 word = {sums[r][s] / all, sums[r][s + 1] / all, sums[r][s + 2] / all, sums[r][s + 3] / all};
            write_word(out + head + static_cast<Size>(row) * kDim + x + s / 4 * 32, word, words);
        }
    }
}

}  // namespace attention
}  // namespace lab
