// What costs energy, one thing at a time: memory traffic, multiply-adds, tensor cores. Device code only, but for `word`.
// SPDX-License-Identifier: Apache-2.0
//
//   fill                       operands: zeros, one constant, random
//   intensity                  16 bytes in, oscillator steps, 16 bytes out, a thread and turn; 0 steps: a copy
//   read, write                one direction only; read also from the L2, over and over
//   multiply_adds<T>           registers only
//   mma<Kind>, wgmma<Kind>     matmuls on tensor cores: mma.sync from compute capability 8.0, wgmma on 9.0
#pragma once

#include "../common/oscillator.cuh"

namespace lab::energy {

enum Operands { kZeros, kConstant, kRandom };

// Word i of an array, as the bits of a float: 0, 0.7 or uniform in [-1, 1).
__host__ __device__ inline unsigned word(Operands operands, unsigned long long i) {
    unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    const float uniform = static_cast<float>(static_cast<long long>(z ^ (z >> 31)) >> 40) * (1.0f / 8388608.0f);
    const float value = operands == kZeros ? 0.0f : operands == kConstant ? 0.7f : uniform;
    unsigned bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

__device__ inline uint4 vector(Operands operands, unsigned long long i) {
    return {word(operands, 4 * i), word(operands, 4 * i + 1), word(operands, 4 * i + 2), word(operands, 4 * i + 3)};
}

// Writes `vectors` vectors of 16 bytes: the words of `operands`. Also what a stream that only writes costs.
__global__ void __launch_bounds__(256) fill(uint4* __restrict__ out, long long vectors, Operands operands) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < vectors; i += gridDim.x * 256LL) out[i] = vector(operands, static_cast<unsigned long long>(i));
}

// One vector for all: no arithmetic to speak of beside the stores.
__global__ void __launch_bounds__(256) write(uint4* __restrict__ out, long long vectors, unsigned seed) {
    const uint4 mine = vector(kRandom, seed + threadIdx.x);
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < vectors; i += gridDim.x * 256LL) __stcs(out + i, mine);
}

// Each vector holds two oscillators (x, v, x, v), which advance by `steps`: 8 · steps FLOP for 32 bytes of traffic.
__global__ void __launch_bounds__(256) intensity(const uint4* __restrict__ in, uint4* __restrict__ out, long long vectors, int steps, float size) {
    constexpr int kVectors = 4;
    const long long turn = gridDim.x * 256LL;
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i + (kVectors - 1) * turn < vectors; i += kVectors * turn) {
        uint4 v[kVectors];
#pragma unroll
        for (int k = 0; k < kVectors; ++k) v[k] = __ldcs(in + i + k * turn);
        float x[2 * kVectors], y[2 * kVectors];
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
            x[2 * k] = __uint_as_float(v[k].x), y[2 * k] = __uint_as_float(v[k].y);
            x[2 * k + 1] = __uint_as_float(v[k].z), y[2 * k + 1] = __uint_as_float(v[k].w);
        }
#pragma unroll 4
        for (int s = 0; s < steps; ++s) {
#pragma unroll
            for (int k = 0; k < 2 * kVectors; ++k) oscillator_step(x[k], y[k], size);
        }
#pragma unroll
        for (int k = 0; k < kVectors; ++k) {
            __stcs(out + i + k * turn, make_uint4(__float_as_uint(x[2 * k]), __float_as_uint(y[2 * k]), __float_as_uint(x[2 * k + 1]), __float_as_uint(y[2 * k + 1])));
        }
    }
}

// Reads `vectors` vectors `passes` times, past the L1: from DRAM when they are many, from the L2 when they fit there. The sum of
// all words, modulo 2^32, over all threads' results.
__global__ void __launch_bounds__(512) read(const uint4* __restrict__ in, unsigned* __restrict__ out, long long vectors, int passes) {
    const long long thread = blockIdx.x * 512LL + threadIdx.x, turn = gridDim.x * 512LL;
    unsigned total = 0;
    for (int pass = 0; pass < passes; ++pass) {
#pragma unroll 4
        for (long long i = thread; i < vectors; i += turn) {
            uint4 v;
            asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(in + i));
            total += (v.x + v.y) + (v.z + v.w);
        }
    }
    out[thread] = total;
}

// ---- multiply-adds ----------------------------------------------------------------------------------------------------------

__device__ inline void advance(float& x, float& v, float s) { oscillator_step(x, v, s); }
__device__ inline void advance(double& x, double& v, double s) {
    v = fma(-s, x, v);
    x = fma(s, v, x);
}

constexpr int kChains = 8;

// kChains oscillators a thread, `steps` each; (x, v) of the first, and the sum of all others' x and v, to `out`.
template <typename T>
__global__ void __launch_bounds__(256) multiply_adds(const float* __restrict__ in, T* __restrict__ out, int steps, float size) {
    const unsigned thread = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256;
    T x[kChains], v[kChains];
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
        x[c] = static_cast<T>(in[thread + (2 * c) * threads]);
        v[c] = static_cast<T>(in[thread + (2 * c + 1) * threads]);
    }
#pragma unroll 8
    for (int s = 0; s < steps; ++s) {
#pragma unroll
        for (int c = 0; c < kChains; ++c) advance(x[c], v[c], static_cast<T>(size));
    }
#pragma unroll
    for (int c = 0; c < kChains; ++c) {
        out[thread + (2 * c) * threads] = x[c];
        out[thread + (2 * c + 1) * threads] = v[c];
    }
}

// ---- tensor cores -----------------------------------------------------------------------------------------------------------
// Rows of 32 bytes, whatever the type: 8 numbers of tf32, 16 of bf16 or fp16, 32 of fp8 (e4m3) or int8. A row of A times a row of
// B (a column of the matrix) is one result. Every kGroup products are added up, then the accumulators start anew: as in a product
// of matrices whose inner side is kGroup rows long.

enum Kind { kBf16, kFp16, kTf32, kFp8, kInt8 };

constexpr int kRowWords = 8, kGroup = 4;

template <Kind kind>
struct Sum {
    using Type = float;
};
template <>
struct Sum<kInt8> {
    using Type = int;
};

constexpr int kTiles = 8, kMmaRows = 16, kMmaColumns = 8;

// Each warp: a tile A of 16 rows, kTiles tiles B of 8 rows. a: 16 rows a warp; b: kTiles · 8 rows, for all warps. out: 4 numbers
// a lane and tile. Compute capability 8.0, for fp8 8.9.
template <Kind kind>
__global__ void __launch_bounds__(256) mma(const unsigned* __restrict__ a, const unsigned* __restrict__ b, typename Sum<kind>::Type* __restrict__ out,
                                           int rounds) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned thread = blockIdx.x * 256 + threadIdx.x, threads = gridDim.x * 256, lane = threadIdx.x % 32;
    const unsigned row = lane / 4, column = lane % 4;
    const unsigned a0 = a[row * 8 + column], a1 = a[(row + 8) * 8 + column], a2 = a[row * 8 + column + 4], a3 = a[(row + 8) * 8 + column + 4];
    unsigned b0[kTiles], b1[kTiles];
    typename Sum<kind>::Type d[kTiles][4] = {};
#pragma unroll
    for (int t = 0; t < kTiles; ++t) b0[t] = b[(t * 8 + row) * 8 + column], b1[t] = b[(t * 8 + row) * 8 + column + 4];
#pragma unroll 1
    for (int k = 0; k < rounds; k += kGroup) {
#pragma unroll
        for (int i = 0; i < 4 * kTiles; ++i) d[i / 4][i % 4] = 0;
#pragma unroll
        for (int u = 0; u < kGroup; ++u) {
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
#define LAB_MMA(what, c)                                                                                                              \
    asm volatile("mma.sync.aligned." what " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                    \
                 : c(d[t][0]), c(d[t][1]), c(d[t][2]), c(d[t][3])                                                                     \
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0[t]), "r"(b1[t]))
                if constexpr (kind == kBf16) LAB_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
                if constexpr (kind == kFp16) LAB_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
                if constexpr (kind == kTf32) LAB_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
                if constexpr (kind == kInt8) LAB_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
#if __CUDA_ARCH__ >= 890
                if constexpr (kind == kFp8) LAB_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "+f");
#endif
#undef LAB_MMA
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) out[thread + static_cast<unsigned>(i) * threads] = d[i / 4][i % 4];
#endif
}

constexpr int kWgRows = 64, kWgColumns = 256, kWgGroups = 2;  // of a warpgroup's tile; warpgroups a block, each with its own A

// A tile in shared memory as the tensor cores want it (PTX ISA, asynchronous warpgroup-level matrix instructions, no swizzle):
// core matrices of 8 rows of 16 bytes; those that follow along k are 128 bytes apart, those along rows 256.
__device__ inline unsigned long long described(const void* tile) {
    const unsigned long long address = static_cast<unsigned long long>(__cvta_generic_to_shared(tile));
    return ((address & 0x3ffff) >> 4) | ((128ULL >> 4) << 16) | ((256ULL >> 4) << 32);
}

// Each warpgroup: its 64 rows of A times the 256 rows of B. a: kWgGroups · 64 rows, b: 256 rows, for all blocks. out: 64 × 256
// numbers a warpgroup, row by row. Needs sm_90a.
template <Kind kind>
__global__ void __launch_bounds__(128 * kWgGroups, 1) wgmma(const unsigned* __restrict__ a, const unsigned* __restrict__ b,
                                                            typename Sum<kind>::Type* __restrict__ out, int rounds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(128) unsigned tiles[(kWgGroups * kWgRows + kWgColumns) * kRowWords];
    const int group = static_cast<int>(threadIdx.x / 128), thread = static_cast<int>(threadIdx.x % 128);
    const auto place = [](int row, int word) { return (row / 8) * 64 + (word / 4) * 32 + (row % 8) * 4 + word % 4; };
    constexpr int kLeft = kWgGroups * kWgRows * kRowWords;
    for (int i = static_cast<int>(threadIdx.x); i < kLeft; i += 128 * kWgGroups) tiles[place(i / 8, i % 8)] = a[i];
    for (int i = static_cast<int>(threadIdx.x); i < kWgColumns * kRowWords; i += 128 * kWgGroups) tiles[kLeft + place(i / 8, i % 8)] = b[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long left = described(tiles + group * kWgRows * kRowWords), right = described(tiles + kLeft);
    typename Sum<kind>::Type d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0;
#pragma unroll 1
    for (int k = 0; k < rounds; k += kGroup) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int u = 0; u < kGroup; ++u) {
            const int keep = u > 0;
#define LAB_D(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3]), c(d[i + 4]), c(d[i + 5]), c(d[i + 6]), c(d[i + 7])
#define LAB_D4(c, i) LAB_D(c, i), LAB_D(c, i + 8), LAB_D(c, i + 16), LAB_D(c, i + 24)
#define LAB_WGMMA(what, c, rest)                                                                                                      \
    asm volatile(                                                                                                                     \
        "{ .reg .pred keep; setp.ne.b32 keep, %130, 0; wgmma.mma_async.sync.aligned." what                                            \
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"    \
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"    \
        "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,"    \
        "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,"       \
        "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, keep" rest "; }"                                        \
        : LAB_D4(c, 0), LAB_D4(c, 32), LAB_D4(c, 64), LAB_D4(c, 96)                                                                   \
        : "l"(left), "l"(right), "r"(keep))
            if constexpr (kind == kBf16) LAB_WGMMA("m64n256k16.f32.bf16.bf16", "+f", ", 1, 1, 0, 0");
            if constexpr (kind == kFp16) LAB_WGMMA("m64n256k16.f32.f16.f16", "+f", ", 1, 1, 0, 0");
            if constexpr (kind == kTf32) LAB_WGMMA("m64n256k8.f32.tf32.tf32", "+f", ", 1, 1");
            if constexpr (kind == kFp8) LAB_WGMMA("m64n256k32.f32.e4m3.e4m3", "+f", ", 1, 1");
            if constexpr (kind == kInt8) LAB_WGMMA("m64n256k32.s32.s8.s8", "+r", "");
#undef LAB_WGMMA
#undef LAB_D4
#undef LAB_D
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    auto* mine = out + (blockIdx.x * kWgGroups + static_cast<unsigned>(group)) * static_cast<unsigned>(kWgRows * kWgColumns);
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        mine[row * kWgColumns + column] = d[i];
    }
#endif
}

}  // namespace lab::energy
