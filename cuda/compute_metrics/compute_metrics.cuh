// What keeps an SM from working: one effect a kernel, its size a template parameter or an argument. Device code only.
// SPDX-License-Identifier: Apache-2.0
//
//   chase          occupancy: as many loads under way as there are warps; what a warp holds decides how many fit
//   diverge        lanes of a warp on different paths run one after another
//   read_columns, read_strided    bank conflicts: lanes that want different words of one bank wait for each other
//   mix_*          what an SM does of each kind of instruction in a clock cycle
//   index_*        integer division against multiply-high and against shift and mask
//   chains         dependent operations against independent ones, at few warps
//   count_*        atomics on one address, on many, in shared memory, one for each group of equal lanes
//   hadamard       the same transform with enough registers, and with too few (spills)
#pragma once

namespace lab::compute_metrics {

// ---- occupancy ------------------------------------------------------------------------------------------------------------

constexpr int kLine = 32;  // a node of the chain: one word for each lane, 128 bytes

// A load that the compiler neither moves nor repeats.
__device__ inline unsigned load(const unsigned* from) {
    unsigned value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

// Each warp follows a chain of 128-byte lines: the next line is known only when the present one has arrived, so that a warp
// has one load under way, and an SM as many as it has warps. `next` holds, for lane l of a line, where lane l finds its word
// of the next one. The thread's weights, HELD of them, are needed only at the end: EARLY loads them before the chain, where
// each of them occupies a register all along, or after it.
// The result mixes weights and place so that neither can be summed up beforehand: Σ (weight ^ place) · (r + 1).
template <int HELD, bool EARLY>
__device__ unsigned follow(const unsigned* next, const unsigned* weights, int lines, int steps) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    unsigned held[HELD > 0 ? HELD : 1];
    if (EARLY) {
#pragma unroll
        for (int r = 0; r < HELD; ++r) held[r] = load(weights + (thread + static_cast<unsigned>(r) * threads) % kLine);
    }
    unsigned place = thread / kLine % static_cast<unsigned>(lines) * kLine + thread % kLine;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) place = load(next + place);
    if (!EARLY) {
#pragma unroll
        for (int r = 0; r < HELD; ++r) held[r] = load(weights + (thread + static_cast<unsigned>(r) * threads) % kLine);
    }
    unsigned result = place;
#pragma unroll
    for (int r = 0; r < HELD; ++r) result += (held[r] ^ place) * static_cast<unsigned>(r + 1);
    return result;
}

template <int HELD, bool EARLY>
__global__ void chase(const unsigned* __restrict__ next, const unsigned* __restrict__ weights, unsigned* __restrict__ out,
                      int lines, int steps) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = follow<HELD, EARLY>(next, weights, lines, steps);
}

// The same with a table a block in shared memory; how large it is decides how many blocks an SM takes.
__global__ void chase_shared(const unsigned* __restrict__ next, const unsigned* __restrict__ weights, unsigned* __restrict__ out,
                             int lines, int steps) {
    extern __shared__ unsigned table[];
    table[threadIdx.x] = weights[threadIdx.x % kLine];
    __syncthreads();
    const unsigned place = follow<0, true>(next, weights, lines, steps);
    out[blockIdx.x * blockDim.x + threadIdx.x] = place + table[(threadIdx.x + 1) % blockDim.x];
}

// ---- divergence -----------------------------------------------------------------------------------------------------------

// Path p: `rounds` steps of x ← a·x + b with its own a and b. Each is a loop of its own in the machine code.
template <int PATH>
__device__ float walk(float x, int rounds) {
    constexpr float a = 1.0f - (PATH + 1) / 256.0f, b = (PATH + 1) / 128.0f;
#pragma unroll 16
    for (int k = 0; k < rounds; ++k) x = fmaf(x, a, b);
    return x;
}

// Element i takes path i mod paths, a power of two. In order, neighboring lanes differ. Regrouped, a warp takes 32 elements of one
// path: of each 32·paths elements its lane l has element l·paths + path (what is left over at the end stays in order).
template <bool REGROUPED>
__global__ void diverge(const float* __restrict__ in, float* __restrict__ out, int count, int rounds, int paths) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    if (REGROUPED) {
        const int group = 32 * paths, begin = i & ~(group - 1);
        if (begin + group <= count)
            i = begin + (i & 31) * paths + (i & (group - 1)) / 32;
    }
    float x = in[i];
    switch (i & (paths - 1)) {
#define LAB_PATH(p) case p: x = walk<p>(x, rounds); break;
#define LAB_PATHS(p) LAB_PATH(p) LAB_PATH(p + 1) LAB_PATH(p + 2) LAB_PATH(p + 3)
        LAB_PATHS(0) LAB_PATHS(4) LAB_PATHS(8) LAB_PATHS(12) LAB_PATHS(16) LAB_PATHS(20) LAB_PATHS(24) LAB_PATHS(28)
#undef LAB_PATHS
#undef LAB_PATH
    }
    out[i] = x;
}

// ---- bank conflicts -------------------------------------------------------------------------------------------------------

enum Layout { kPlain, kPadded, kSwizzled };

// Where word (row, column) of a 32 × 32 tile lies in shared memory.
template <Layout LAYOUT>
__device__ inline int word(int row, int column) {
    if (LAYOUT == kPadded) return row * 33 + column;
    if (LAYOUT == kSwizzled) return row * 32 + (column ^ row);
    return row * 32 + column;
}

// A block of 32 × 32 threads loads a tile, and each warp reads columns of it, eight at
// a time: lane l reads row l of a column. Plain, a column lies in one bank. The sum is
// weighted: turn t adds Σ_r 2^−r · tile[l][8·((w + t) mod 4) + r].
template <Layout LAYOUT>
__global__ void read_columns(const float* __restrict__ in, float* __restrict__ out, int turns) {
    __shared__ volatile float tile[32 * 33];  // volatile: one word a load, also where four lie side by side
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    const unsigned base = blockIdx.x * 1024u + static_cast<unsigned>(32 * warp + lane);
    tile[word<LAYOUT>(warp, lane)] = in[base];
    __syncthreads();
    float sum = 0;
#pragma unroll 2
    for (int turn = 0; turn < turns; ++turn) {
        const int first = word<LAYOUT>(lane, 8 * ((warp + turn) & 3));
        float weight = 1;
#pragma unroll
        for (int r = 0; r < 8; ++r, weight *= 0.5f) {  // swizzled: column ^ row of column first + r is (first ^ row) ^ r, as first is a multiple of 8
            sum = fmaf(weight, tile[LAYOUT == kSwizzled ? first ^ r : first + r], sum);
        }
    }
    out[base] = sum;
}

// Lane l reads words stride·l, stride·l + 1, …: the lanes fall on 32 / gcd(stride, 32) banks. Each warp reads the same words.
// Turn t adds Σ_r 2^−r · words[stride·l + 8·(t mod 4) + r].
constexpr int kWords = 32 * 32 + 32;

__global__ void read_strided(const float* __restrict__ in, float* __restrict__ out, int turns, int stride) {
    __shared__ float words[kWords];
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x)) words[i] = in[i];
    __syncthreads();
    const int lane = static_cast<int>(threadIdx.x % 32);
    float sum = 0;
#pragma unroll 2
    for (int turn = 0; turn < turns; ++turn) {
        const float* first = words + lane * stride + 8 * (turn & 3);
        float weight = 1;
#pragma unroll
        for (int r = 0; r < 8; ++r, weight *= 0.5f) sum = fmaf(weight, first[r], sum);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// ---- instruction mix ------------------------------------------------------------------------------------------------------

constexpr int kChains = 4;  // independent chains a thread, enough with 64 warps to keep any pipe fed

// x ← a·x + b, in fp32 or fp64: one multiply-add a step.
template <typename T>
__global__ void mix_fma(const float* __restrict__ in, float* __restrict__ out, int rounds, float factor) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const T a = static_cast<T>(factor), b = static_cast<T>(1.0f / 64);
    T x[kChains];
    for (int c = 0; c < kChains; ++c) x[c] = static_cast<T>(in[thread]) + static_cast<T>(c);
#pragma unroll 32
    for (int k = 0; k < rounds; ++k) {
        for (int c = 0; c < kChains; ++c) x[c] = x[c] * a + b;
    }
    out[thread] = static_cast<float>((x[0] + x[1]) + (x[2] + x[3]));
}

// x ← x·1664525 + 1013904223 modulo 2³²: one integer multiply-add a step.
__global__ void mix_integer(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds, unsigned factor) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x[kChains];
    for (int c = 0; c < kChains; ++c) x[c] = in[thread] + static_cast<unsigned>(c);
#pragma unroll 8
    for (int k = 0; k < rounds; ++k) {
        for (int c = 0; c < kChains; ++c) x[c] = x[c] * factor + 1013904223u;
    }
    out[thread] = (x[0] ^ x[1]) + (x[2] ^ x[3]);
}

// Σ 2^t over t = x, x − 1/64, x − 2/64 …: one special-function instruction, and two additions beside it, a step.
__global__ void mix_special(const float* __restrict__ in, float* __restrict__ out, int rounds, float step) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    float t[kChains], sum[kChains];
    for (int c = 0; c < kChains; ++c) t[c] = in[thread] - static_cast<float>(c), sum[c] = 0;
#pragma unroll 8
    for (int k = 0; k < rounds; ++k) {
        for (int c = 0; c < kChains; ++c) {
            float power;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(t[c]));
            sum[c] += power;
            t[c] -= step;
        }
    }
    out[thread] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Row and column of element i of a matrix `width` wide, for i, i + 1, …: Σ (row ^ 3·column).
__device__ inline unsigned mixed(unsigned row, unsigned column) { return row ^ (3u * column); }

__global__ void index_divide(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds, unsigned width) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned i = in[thread], sum = 0;
#pragma unroll 4
    for (int k = 0; k < rounds; ++k, ++i) sum += mixed(i / width, i % width);
    out[thread] = sum;
}

// The same with what the host has worked out: i / width = (i · magic) >> 32 >> shift, for the
// widths and i that the magic number was chosen for (Granlund and Montgomery, Division by invariant integers using
// multiplication, PLDI 1994).
__global__ void index_multiply(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds, unsigned width,
                               unsigned magic, unsigned shift) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned i = in[thread], sum = 0;
#pragma unroll 4
    for (int k = 0; k < rounds; ++k, ++i) {
        const unsigned row = __umulhi(i, magic) >> shift;
        sum += mixed(row, i - row * width);
    }
    out[thread] = sum;
}

// The same for a width of 2^bits.
__global__ void index_shift(const unsigned* __restrict__ in, unsigned* __restrict__ out, int rounds, unsigned bits) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, mask = (1u << bits) - 1u;
    unsigned i = in[thread], sum = 0;
#pragma unroll 4
    for (int k = 0; k < rounds; ++k, ++i) sum += mixed(i >> bits, i & mask);
    out[thread] = sum;
}

// ---- dependent and independent operations ---------------------------------------------------------------------------------

// Eight values a thread, each advanced by `steps` multiply-adds; CHAINS of them side by side, one group after another. The work is
// the same, the number of operations that do not wait for each other is not. Launched with one warp a scheduler.
constexpr int kAdvanced = 8;

template <int CHAINS>
__global__ void chains(const float* __restrict__ in, float* __restrict__ out, int steps, float factor) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const float start = in[thread];
    float sum = 0;
#pragma unroll 1
    for (int first = 0; first < kAdvanced; first += CHAINS) {
        float x[CHAINS];
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) x[c] = start + static_cast<float>(first + c);
#pragma unroll 16
        for (int k = 0; k < steps; ++k) {
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = fmaf(x[c], factor, 1.0f / 64);
        }
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) sum += x[c];
    }
    out[thread] = sum;
}

// ---- atomics --------------------------------------------------------------------------------------------------------------

// How often each byte value occurs: `quads` times four words of keys, 256 counters that start at zero. Keys are masked
// first: mask 0 sends all of them to one counter.
__device__ inline unsigned key_of(unsigned keys, int byte, unsigned mask) { return (keys >> (8 * byte)) & mask; }

template <typename Count>
__device__ void for_each_key(const uint4* keys, int quads, unsigned mask, Count count) {
    const int stride = static_cast<int>(gridDim.x * blockDim.x);
    // Whole warps stay together: the last turn of the loop is a warp's for all its lanes or for none (quads is a multiple of 32).
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < quads; i += stride) {
        const uint4 four = keys[i];
#pragma unroll
        for (int byte = 0; byte < 4; ++byte) {
            count(key_of(four.x, byte, mask));
            count(key_of(four.y, byte, mask));
            count(key_of(four.z, byte, mask));
            count(key_of(four.w, byte, mask));
        }
    }
}

__global__ void count_global(const uint4* __restrict__ keys, unsigned* __restrict__ counters, int quads, unsigned mask) {
    for_each_key(keys, quads, mask, [&](unsigned key) { atomicAdd(counters + key, 1u); });
}

// COPIES sets of counters a block, a warp's set by its number; merged at the end.
template <int COPIES>
__global__ void count_shared(const uint4* __restrict__ keys, unsigned* __restrict__ counters, int quads, unsigned mask) {
    __shared__ unsigned own[COPIES * 256];
    for (int i = static_cast<int>(threadIdx.x); i < COPIES * 256; i += static_cast<int>(blockDim.x)) own[i] = 0;
    __syncthreads();
    unsigned* mine = own + threadIdx.x / 32 % COPIES * 256;
    for_each_key(keys, quads, mask, [&](unsigned key) { atomicAdd(mine + key, 1u); });
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += static_cast<int>(blockDim.x)) {
        unsigned sum = 0;
        for (int c = 0; c < COPIES; ++c) sum += own[c * 256 + i];
        if (sum != 0) atomicAdd(counters + i, sum);
    }
}

// Lanes with equal keys find each other; one of them adds for all.
template <bool SHARED>
__global__ void count_aggregated(const uint4* __restrict__ keys, unsigned* __restrict__ counters, int quads, unsigned mask) {
    __shared__ unsigned own[256];
    if (SHARED) {
        for (int i = static_cast<int>(threadIdx.x); i < 256; i += static_cast<int>(blockDim.x)) own[i] = 0;
        __syncthreads();
    }
    const unsigned below = (1u << (threadIdx.x % 32)) - 1u;
    for_each_key(keys, quads, mask, [&](unsigned key) {
        const unsigned equal = __match_any_sync(0xffffffffu, key);
        if ((equal & below) == 0) atomicAdd((SHARED ? own : counters) + key, static_cast<unsigned>(__popc(equal)));
    });
    if (SHARED) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < 256; i += static_cast<int>(blockDim.x)) {
            if (own[i] != 0) atomicAdd(counters + i, own[i]);
        }
    }
}

// ---- spills ---------------------------------------------------------------------------------------------------------------

constexpr int kPoints = 64;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define LAB_FITTING(blocks) ((blocks) < 4 ? (blocks) : 4)  // an SM of compute capability 7.5 holds 1,024 threads
#else
#define LAB_FITTING(blocks) (blocks)
#endif

// The Walsh–Hadamard transform of 64 values a thread, each round scaled by 1/8 (which makes it orthogonal) and followed by a
// change of sign of every third value, so that no two rounds cancel. All 64 values are needed at once.
// BLOCKS is what the kernel asks the compiler to make room for: 256 · BLOCKS threads an SM, 65,536 / that registers each.
template <int BLOCKS>
__global__ void __launch_bounds__(256, LAB_FITTING(BLOCKS))
    hadamard(const float* __restrict__ in, float* __restrict__ out, int rounds) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x,
                   threads = gridDim.x * blockDim.x;
    float x[kPoints];
#pragma unroll
    for (int i = 0; i < kPoints; ++i)
        x[i] = in[thread + static_cast<unsigned>(i) * threads];
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
#pragma unroll
        for (int half = 1; half < kPoints; half *= 2) {
#pragma unroll
            for (int i = 0; i < kPoints; ++i) {
                if (i & half) continue;
                const float a = x[i], b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
#pragma unroll
        for (int i = 0; i < kPoints; ++i) x[i] *= i % 3 == 0 ? -0.125f : 0.125f;
    }
#pragma unroll
    for (int i = 0; i < kPoints; ++i) out[thread + static_cast<unsigned>(i) * threads] = x[i];
}

#undef LAB_FITTING

}  // namespace lab::compute_metrics
