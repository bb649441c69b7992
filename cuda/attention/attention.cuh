// Attention in fp32: queries, keys and values (heads × length × dim) in, softmax(Q·Kᵀ / √dim)·V of each head out; its gradients.
// Device code only, for nvcc and NVRTC alike. Any length; dim 64 or 128; `causal`: a query sees no key behind it.
// SPDX-License-Identifier: Apache-2.0
//
// Two products with a softmax between them. What decides is where the length × length scores live:
//   materialized   in memory: written twice, read twice, 4 bytes each, more than everything else together
//   online         in registers, 32 keys at a time: the softmax is corrected whenever a larger score turns up
//   tiled          … for 128 × 64 tiles, both products as squares of 8 × 8 and more a thread, as in the fp32 matmul
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

// Step 1. One block per query: its scores to memory, their largest, the sum of their exponentials, then the weighted sum of the values.
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

// ---- backward --------------------------------------------------------------------------------------------------------------------

// From the gradient of the result, `slope`, those of queries, keys and values. With weights W = softmax(S), S = Q·Kᵀ / √dim:
//   of V: Wᵀ·slope        of W: slope·Vᵀ        of S: W ∘ (of W − each row's sum of W ∘ of W)        of Q: of S·K / √dim, of K: of Sᵀ·Q / √dim
// No weight is kept from the forward pass: a row's log₂ of the sum of its powers, `log_sum`, makes them again.

// Adds rows of `from`, each times its term; thread d has dimension d.
template <int kDim>
__device__ __forceinline__ float add_rows(float sum, const float* terms, const float* from, int count) {
    if (threadIdx.x >= kDim) return sum;
    for (int j = 0; j < count; ++j) sum += terms[j] * from[static_cast<Size>(j) * kDim + threadIdx.x];
    return sum;
}
template <int kDim>
__device__ __forceinline__ float dot(const float* shared, const float* row) {
    float sum = 0;
#pragma unroll 8
    for (int d = 0; d < kDim; ++d) sum += shared[d] * row[d];
    return sum;
}
// The sum over a block, known to all its threads; largest: the largest instead. `partial`: a float a warp.
template <bool kLargest>
__device__ __forceinline__ float over_block(float x, float* partial) {
    x = kLargest ? largest_over<32>(x) : sum_over<32>(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[threadIdx.x % (kRowThreads / 32)];
    return kLargest ? largest_over<kRowThreads / 32>(x) : sum_over<kRowThreads / 32>(x);
}

// One block per query: its gradient, and for backward_keys its log_sum and the sum of W ∘ of W.
template <int kDim>
__global__ void __launch_bounds__(kRowThreads) backward_queries(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                                               const float* __restrict__ slope, float* __restrict__ of_q, float* __restrict__ log_sum,
                                                               float* __restrict__ means, int length, int causal) {
    __shared__ float query[kDim], mine[kDim], terms[kRowThreads], partial[kRowThreads / 32];
    const int row = blockIdx.x, thread = threadIdx.x, keys = causal ? row + 1 : length;
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim, at = head + static_cast<Size>(row) * kDim;
    if (thread < kDim) query[thread] = q[at + thread] * kScale<kDim>, mine[thread] = slope[at + thread];
    __syncthreads();
    float largest = minus_infinity(), sum = 0, mean = 0, total = 0;
    for (int j = thread; j < keys; j += kRowThreads) largest = fmaxf(largest, dot<kDim>(query, k + head + static_cast<Size>(j) * kDim));
    largest = over_block<true>(largest, partial);
    for (int j = thread; j < keys; j += kRowThreads) {
        const float power = exp2f(dot<kDim>(query, k + head + static_cast<Size>(j) * kDim) - largest);
        sum += power;
        mean += power * dot<kDim>(mine, v + head + static_cast<Size>(j) * kDim);
    }
    sum = over_block<false>(sum, partial);
    mean = over_block<false>(mean, partial) / sum;
    for (int first = 0; first < keys; first += kRowThreads) {
        const int j = first + thread;
        __syncthreads();  // nobody reads the terms before any more
        if (j < keys) {
            const float weight = exp2f(dot<kDim>(query, k + head + static_cast<Size>(j) * kDim) - largest) / sum;
            terms[thread] = weight * (dot<kDim>(mine, v + head + static_cast<Size>(j) * kDim) - mean);
        }
        __syncthreads();
        total = add_rows<kDim>(total, terms, k + head + static_cast<Size>(first) * kDim, min(kRowThreads, keys - first));
    }
    if (thread < kDim) of_q[at + thread] = total * (kScale<kDim> / kLog2e);
    if (thread == 0) log_sum[blockIdx.y * static_cast<Size>(length) + row] = largest + log2f(sum), means[blockIdx.y * static_cast<Size>(length) + row] = mean;
}

// One block per key: its gradient and its value's.
template <int kDim>
__global__ void __launch_bounds__(kRowThreads) backward_keys(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                                            const float* __restrict__ slope, const float* __restrict__ log_sum,
                                                            const float* __restrict__ means, float* __restrict__ of_k, float* __restrict__ of_v,
                                                            int length, int causal) {
    __shared__ float key[kDim], value[kDim], weights[kRowThreads], terms[kRowThreads];
    const int row = blockIdx.x, thread = threadIdx.x;
    const Size head = static_cast<Size>(blockIdx.y) * length * kDim, at = head + static_cast<Size>(row) * kDim, rows = blockIdx.y * static_cast<Size>(length);
    if (thread < kDim) key[thread] = k[at + thread] * kScale<kDim>, value[thread] = v[at + thread];
    __syncthreads();
    float total_k = 0, total_v = 0;
    for (int first = causal ? row : 0; first < length; first += kRowThreads) {
        const int i = first + thread, count = min(kRowThreads, length - first);
        const Size from = head + static_cast<Size>(first) * kDim;
        __syncthreads();  // nobody reads the weights and terms before any more
        if (i < length) {
            const float weight = exp2f(dot<kDim>(key, q + head + static_cast<Size>(i) * kDim) - log_sum[rows + i]);
            weights[thread] = weight;
            terms[thread] = weight * (dot<kDim>(value, slope + head + static_cast<Size>(i) * kDim) - means[rows + i]);
        }
        __syncthreads();
        total_k = add_rows<kDim>(total_k, terms, q + from, count);
        total_v = add_rows<kDim>(total_v, weights, slope + from, count);
    }
    if (thread < kDim) of_k[at + thread] = total_k * (kScale<kDim> / kLog2e), of_v[at + thread] = total_v;
}

}  // namespace attention
}  // namespace lab
