// Kernels for the roofline: one family of any arithmetic intensity, and the roofs themselves. Device code only.
// SPDX-License-Identifier: Apache-2.0
//
//   intensity<Fp64|Fp32|Fp16>   32 bytes in, some multiply-adds, 32 bytes out, a thread and turn
//   intensity_tensor            the same traffic, matmuls of bf16 on the tensor cores (mma.sync)
//   copy, read, read_l2, read_l1, read_shared     roofs of the memories
//   fma<…>, mma_bf16, mma_fp64, wgmma_bf16        roofs of the arithmetic
// Half precision and matrix fragments are handled as 32-bit words, by PTX instructions, so that no header is needed.
#pragma once

namespace lab::roofline_kernels {

// ---- arithmetic -----------------------------------------------------------------------------------------------------------

// A type's values in 32 bytes, and its multiply-add. kFlops: floating-point operations of one instruction, a thread.
struct Fp64 {
    using Value = double;
    static constexpr int kValues = 4, kFlops = 2;
    static __device__ Value factor(float x) { return static_cast<double>(x); }
    static __device__ Value fma(Value x, Value a, Value b) { return ::fma(x, a, b); }
};

struct Fp32 {
    using Value = float;
    static constexpr int kValues = 8, kFlops = 2;
    static __device__ Value factor(float x) { return x; }
    static __device__ Value fma(Value x, Value a, Value b) { return ::fmaf(x, a, b); }
};

struct Fp16 {  // a word holds two
    using Value = unsigned;
    static constexpr int kValues = 8, kFlops = 4;
    static __device__ Value factor(float x) {
        unsigned both;
        asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b32 %0, {h, h}; }" : "=r"(both) : "f"(x));
        // Through a shuffle, so that the assembler does not see that both halves are equal: multiply-adds with a half used twice
        // have only one of the two pipes that do multiply-adds in half precision.
        return __shfl_sync(0xffffffffu, both, 0);
    }
    static __device__ Value fma(Value x, Value a, Value b) {
        asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(a), "r"(b));
        return x;
    }
};

// 32 bytes as two 16-byte vectors and as values.
template <typename T>
union Pack {
    uint4 vectors[2];
    typename T::Value values[T::kValues];
};

// x ← a·x + b, `rounds` times on each value.
template <typename T>
__device__ inline void advance(Pack<T>& pack, int rounds, typename T::Value a, typename T::Value b) {
#pragma unroll 16
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int v = 0; v < T::kValues; ++v) pack.values[v] = T::fma(pack.values[v], a, b);
    }
}

// Reads and writes 2·units·16 bytes; each thread takes 32 bytes a turn. Of its values, the first PARTIAL get one
// multiply-add (PARTIAL > 0), or all of them get `rounds` (PARTIAL = 0):
//     intensity = kFlops · (PARTIAL or rounds · kValues) / 64 FLOP/byte.
template <typename T, int PARTIAL>
__global__ void __launch_bounds__(256) intensity(const uint4* __restrict__ in,
                                                 uint4* __restrict__ out, int units,
                                                 int rounds, float factor,
                                                 float summand) {
    const typename T::Value a = T::factor(factor), b = T::factor(summand);
    const int threads = static_cast<int>(gridDim.x * blockDim.x);
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < units;
         i += threads) {
        Pack<T> pack;
        pack.vectors[0] = __ldcs(in + i);
        pack.vectors[1] = __ldcs(in + i + units);
        if constexpr (PARTIAL > 0) {
#pragma unroll
            for (int v = 0; v < PARTIAL; ++v)
                pack.values[v] = T::fma(pack.values[v], a, b);
        } else {
            advance<T>(pack, rounds, a, b);
        }
        __stcs(out + i, pack.vectors[0]);
        __stcs(out + i + units, pack.vectors[1]);
    }
}

// D ← A·B + D for a 16 × 16 tile A and a 16 × 8 tile B of bf16, D in fp32: 4,096 FLOP a warp.
// From compute capability 8.0 on.
__device__ inline void mma_m16n8k16([[maybe_unused]] float (&d)[4], [[maybe_unused]] const uint4& a, [[maybe_unused]] unsigned b0,
                                    [[maybe_unused]] unsigned b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
#endif
}

// The same traffic as intensity(): a warp takes two tiles A (32 bytes a lane) a turn and writes D = rounds · A·B of each (32
// bytes a lane). B, a tile of 16 × 8, is the same for all: lane l holds words l and l + 32 of `b`. With period > 1 only
// every period-th turn multiplies, the others copy: intensity = 4 · rounds / period FLOP/byte.
__global__ void __launch_bounds__(256) intensity_tensor(const uint4* __restrict__ in, const unsigned* __restrict__ b, uint4* __restrict__ out,
                                                        int units, int rounds, int period) {
    const int threads = static_cast<int>(gridDim.x * blockDim.x), lane = static_cast<int>(threadIdx.x % 32);
    const unsigned b0 = b[lane], b1 = b[lane + 32];
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < units; i += threads) {
        uint4 first = __ldcs(in + i), second = __ldcs(in + i + units);
        if ((i / 32 & (period - 1)) == 0) {  // the same for a whole warp: units and threads are multiples of 32, period a power of 2
            float d[2][4] = {};
#pragma unroll 4
            for (int k = 0; k < rounds; ++k) {
                mma_m16n8k16(d[0], first, b0, b1);
                mma_m16n8k16(d[1], second, b0, b1);
            }
            first = make_uint4(__float_as_uint(d[0][0]), __float_as_uint(d[0][1]), __float_as_uint(d[0][2]), __float_as_uint(d[0][3]));
            second = make_uint4(__float_as_uint(d[1][0]), __float_as_uint(d[1][1]), __float_as_uint(d[1][2]), __float_as_uint(d[1][3]));
        }
        __stcs(out + i, first);
        __stcs(out + i + units, second);
    }
}

// ---- roofs of the memories ------------------------------------------------------------------------------------------------

// units · 64 bytes from `in` to `out`; four 16-byte loads under way a thread.
__global__ void __launch_bounds__(1024) copy(const uint4* __restrict__ in, uint4* __restrict__ out, int units) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x * 4 + threadIdx.x), step = static_cast<int>(blockDim.x);
    if (i + 3 * step >= 4 * units) return;  // units is a multiple of the block: all or none
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = __ldcs(in + i + k * step);
#pragma unroll
    for (int k = 0; k < 4; ++k) __stcs(out + i + k * step, v[k]);
}

__device__ inline unsigned folded(const uint4& v) { return (v.x ^ v.y) ^ (v.z ^ v.w); }

// The exclusive or of a thread's words: what shows that all of them were read. Done by one thread or another, the
// exclusive or of all threads' results is that of all words.
template <bool L1>
__device__ inline uint4 fetch(const uint4* from) {
    uint4 v;
    if (L1) {
        asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    } else {
        asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    }
    return v;
}

// Reads `vectors` 16-byte vectors `passes` times, past the L1: from the L2 when they fit, from DRAM with one pass over many.
__global__ void __launch_bounds__(512) read(const uint4* __restrict__ in, unsigned* __restrict__ out, int vectors, int passes) {
    const int thread = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), threads = static_cast<int>(gridDim.x * blockDim.x);
    unsigned result = 0;
    for (int pass = 0; pass < passes; ++pass) {
        int i = thread;
        for (; i + 3 * threads < vectors; i += 4 * threads) {
            uint4 v[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) v[k] = fetch<false>(in + i + k * threads);
#pragma unroll
            for (int k = 0; k < 4; ++k) result ^= folded(v[k]) + static_cast<unsigned>(pass);
        }
        for (; i < vectors; i += threads) result ^= folded(fetch<false>(in + i)) + static_cast<unsigned>(pass);
    }
    out[thread] = result;
}

constexpr int kNear = 1024;  // 16-byte vectors, 16 KiB: what a block reads over and over from its L1 or its shared memory

// One block an SM; each pass of a block reads the 16 KiB once.
__global__ void __launch_bounds__(1024) read_l1(const uint4* __restrict__ in, unsigned* __restrict__ out, int passes) {
    const int thread = static_cast<int>(threadIdx.x);
    unsigned result = 0;
#pragma unroll 8
    for (int pass = 0; pass < passes; ++pass) {
        const uint4 v = fetch<true>(in + ((thread + 32 * pass) & (kNear - 1)));
        result ^= folded(v) + static_cast<unsigned>(pass);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = result;
}

__global__ void __launch_bounds__(1024) read_shared(const uint4* __restrict__ in, unsigned* __restrict__ out, int passes) {
    __shared__ uint4 near[kNear];
    const int thread = static_cast<int>(threadIdx.x);
    near[thread] = in[thread];
    __syncthreads();
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(near));
    unsigned result = 0;
#pragma unroll 8
    for (int pass = 0; pass < passes; ++pass) {
        uint4 v;
        const unsigned at = base + 16u * static_cast<unsigned>((thread + 32 * pass) & (kNear - 1));
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at));
        result ^= folded(v) + static_cast<unsigned>(pass);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = result;
}

// ---- roofs of the arithmetic ----------------------------------------------------------------------------------------------

// SM clock cycles and nanoseconds that a block saw, for the clock frequency it really had. times[2 · block], [2 · block + 1].
struct Stopwatch {
    long long cycles, nanoseconds;
    __device__ Stopwatch() {
        asm volatile("mov.u64 %0, %%clock64; mov.u64 %1, %%globaltimer;" : "=l"(cycles), "=l"(nanoseconds)::"memory");
    }
    __device__ void store(long long* times) const {
        const Stopwatch now;
        if (threadIdx.x == 0) {
            times[2 * blockIdx.x] = now.cycles - cycles;
            times[2 * blockIdx.x + 1] = now.nanoseconds - nanoseconds;
        }
    }
};

constexpr int kFmaChains = 8;

// kFmaChains chains of `rounds` multiply-adds a thread; the sum of their ends to `out`, one value a thread.
template <typename T>
__global__ void __launch_bounds__(256) fma_rate(const typename T::Value* __restrict__ in, typename T::Value* __restrict__ out, long long* times,
                                                int rounds, float factor, float summand) {
    const Stopwatch watch;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
    const typename T::Value a = T::factor(factor), b = T::factor(summand), one = T::factor(1);
    typename T::Value x[kFmaChains];
    x[0] = in[thread];
#pragma unroll
    for (int c = 1; c < kFmaChains; ++c) x[c] = T::fma(x[c - 1], one, b);
#pragma unroll 32
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int c = 0; c < kFmaChains; ++c) x[c] = T::fma(x[c], a, b);
    }
#pragma unroll
    for (int c = 1; c < kFmaChains; ++c) x[0] = T::fma(x[c], one, x[0]);
    out[thread] = x[0];
    watch.store(times);
}

constexpr int kMmaTiles = 8;  // accumulator tiles a warp: enough of them that none waits for the one before

// `rounds` products of one 16 × 16 tile A a warp with kMmaTiles tiles B (one after another in `b`, 64 words each), added up.
// A: a warp's 32 vectors of `a`. out: kMmaTiles · 4 floats a lane.
__global__ void __launch_bounds__(256) mma_bf16(const uint4* __restrict__ a, const unsigned* __restrict__ b, float* __restrict__ out,
                                                long long* times, int rounds) {
    const Stopwatch watch;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    const uint4 tile = a[thread];
    unsigned b0[kMmaTiles], b1[kMmaTiles];
    float d[kMmaTiles][4] = {};
#pragma unroll
    for (int t = 0; t < kMmaTiles; ++t) b0[t] = b[64 * t + lane], b1[t] = b[64 * t + 32 + lane];
#pragma unroll 2
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int t = 0; t < kMmaTiles; ++t) mma_m16n8k16(d[t], tile, b0[t], b1[t]);
    }
#pragma unroll
    for (int i = 0; i < 4 * kMmaTiles; ++i) out[thread + static_cast<unsigned>(i) * threads] = d[i / 4][i % 4];
    watch.store(times);
}

// The same in fp64: tiles of 16 × 16 and 16 × 8, 4,096 FLOP. A: 8 doubles a lane, B: 4. Needs compute capability 9.0.
constexpr int kDmmaTiles = 4;
__global__ void __launch_bounds__(256) mma_fp64(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ out,
                                                long long* times, int rounds) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const Stopwatch watch;
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x, lane = threadIdx.x % 32;
    double tile[8], other[kDmmaTiles][4], d[kDmmaTiles][4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) tile[i] = a[thread + static_cast<unsigned>(i) * threads];
#pragma unroll
    for (int i = 0; i < 4 * kDmmaTiles; ++i) other[i / 4][i % 4] = b[32u * static_cast<unsigned>(i) + lane];
#pragma unroll 1
    for (int k = 0; k < rounds; ++k) {
#pragma unroll
        for (int t = 0; t < kDmmaTiles; ++t) {
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, "
                "{%0,%1,%2,%3};"
                : "+d"(d[t][0]), "+d"(d[t][1]), "+d"(d[t][2]), "+d"(d[t][3])
                : "d"(tile[0]), "d"(tile[1]), "d"(tile[2]), "d"(tile[3]), "d"(tile[4]), "d"(tile[5]), "d"(tile[6]), "d"(tile[7]),
                  "d"(other[t][0]), "d"(other[t][1]), "d"(other[t][2]), "d"(other[t][3]));
        }
    }
#pragma unroll
    for (int i = 0; i < 4 * kDmmaTiles; ++i) out[thread + static_cast<unsigned>(i) * threads] = d[i / 4][i % 4];
    watch.store(times);
#endif
}

// wgmma: a warpgroup multiplies a tile A of 64 × 16 with a tile B of 16 × 256, both bf16 in shared memory, and adds to its
// 64 × 256 accumulators in registers: 524,288 FLOP an instruction. Needs sm_90a.
// In shared memory a tile is a set of 8 × 8 core matrices, 128 contiguous bytes each (PTX ISA, asynchronous warpgroup-level
// matrix instructions, no swizzle): those that follow along k are 128 bytes apart, those along m or n 256 bytes.
constexpr int kWgM = 64, kWgN = 256, kWgK = 16, kWgGroups = 2;  // warpgroups a block, each with its own A
constexpr int kWgSharedWords = (kWgGroups * kWgM + kWgN) * kWgK / 2;

__device__ inline unsigned long long core_matrices(const void* tile) {
    const unsigned long long address = static_cast<unsigned long long>(__cvta_generic_to_shared(tile));
    constexpr unsigned long long kAlongK = 128, kAlongRows = 256;
    return ((address & 0x3ffff) >> 4) | ((kAlongK >> 4) << 16) | ((kAlongRows >> 4) << 32);
}

// a: kWgGroups · 64 rows of 16, b: 256 rows (columns of B) of 16, as bf16 pairs. out: 64 × 256 floats a warpgroup, row by row.
// Each warpgroup adds up `rounds` · A·B.
__global__ void __launch_bounds__(128 * kWgGroups, 1) wgmma_bf16(const unsigned* __restrict__ a, const unsigned* __restrict__ b,
                                                                 float* __restrict__ out, long long* times, int rounds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    __shared__ __align__(128) unsigned tiles[kWgSharedWords];
    const Stopwatch watch;
    const int group = static_cast<int>(threadIdx.x / 128), thread = static_cast<int>(threadIdx.x % 128);
    // Word w of row r (two values of k) goes to core matrix (r / 8, w / 4), row r % 8 in it, word w % 4.
    const auto place = [](int row, int pair) { return (row / 8) * 64 + (pair / 4) * 32 + (row % 8) * 4 + pair % 4; };
    for (int i = static_cast<int>(threadIdx.x); i < kWgGroups * kWgM * 8; i += static_cast<int>(blockDim.x)) tiles[place(i / 8, i % 8)] = a[i];
    for (int i = static_cast<int>(threadIdx.x); i < kWgN * 8; i += static_cast<int>(blockDim.x)) {
        tiles[kWgGroups * kWgM * 8 + place(i / 8, i % 8)] = b[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const unsigned long long left = core_matrices(tiles + group * kWgM * 8), right = core_matrices(tiles + kWgGroups * kWgM * 8);
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0;
#pragma unroll 1
    for (int k = 0; k < rounds; k += 4) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int u = 0; u < 4; ++u) {
#define LAB_F(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define LAB_F4(i) LAB_F(i), LAB_F(i + 8), LAB_F(i + 16), LAB_F(i + 24)
            asm volatile(
                "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,"
                "%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,"
                "%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,"
                "%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, 1, 1, 1, 0, 0;"
                : LAB_F4(0), LAB_F4(32), LAB_F4(64), LAB_F4(96)
                : "l"(left), "l"(right));
#undef LAB_F4
#undef LAB_F
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float* mine = out + (blockIdx.x * kWgGroups + static_cast<unsigned>(group)) * static_cast<unsigned>(kWgM * kWgN);
#pragma unroll
    for (int i = 0; i < 128; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        mine[row * kWgN + column] = d[i];
    }
    watch.store(times);
#endif
}

}  // namespace lab::roofline_kernels
