// Sum: an array of floats in GPU memory in, their sum out; from one atomic addition an element to one pass over words.
// SPDX-License-Identifier: Apache-2.0
//
// Device code only, for nvcc and NVRTC. The first three add into `out`, which must be zero before the launch; the order of
// their additions, and with it the last bits, changes from run to run. The others write it, with the same bits every time.
#pragma once

namespace lab::sum {

using Size = unsigned long long;

constexpr int kThreads = 256;  // of the first three steps

// What the programs and the catalogue launch: the fastest found on an H200 (132 multiprocessors).
constexpr int kWideThreads = 1024, kLoads = 4, kBlocksPerSm = 64;                           // vectorized
constexpr int kBulkThreads = 512, kBulkLoads = 8, kBulkStages = 3, kBulkBlocksPerSm = 1;  // bulk

constexpr unsigned kAll = 0xffffffffu;

__device__ __forceinline__ Size thread_index() { return static_cast<Size>(blockIdx.x) * blockDim.x + threadIdx.x; }

// Every element is one atomic addition to one address.
__global__ void atomics(const float* __restrict__ in, float* __restrict__ out, Size n) {
    const Size i = thread_index();
    if (i < n) atomicAdd(out, in[i]);
}

// A tree in shared memory: half of the threads add, then a quarter …; one atomic addition a block.
__global__ void __launch_bounds__(kThreads) tree(const float* __restrict__ in, float* __restrict__ out, Size n) {
    __shared__ float part[kThreads];
    const Size i = thread_index();
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(kAll, value, offset);
    return value;
}

// The block's sum, in thread 0. Registers to registers within a warp, shared memory only from warp to warp.
template <int Threads>
__device__ __forceinline__ float block_sum(float value) {
    constexpr int kWarps = Threads / 32;
    __shared__ float part[kWarps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = warp_sum(value);
    if (lane == 0) part[warp] = value;
    __syncthreads();
    if (warp == 0) value = warp_sum(lane < kWarps ? part[lane] : 0);
    return value;
}

__global__ void __launch_bounds__(kThreads) shuffle(const float* __restrict__ in, float* __restrict__ out, Size n) {
    const Size i = thread_index();
    const float total = block_sum<kThreads>(i < n ? in[i] : 0);
    if (threadIdx.x == 0) atomicAdd(out, total);
}

// ---- one pass with a deterministic finish -------------------------------------------------------------------------------

// What the blocks of a launch share: zero before the first one, and left zero. Behind it, a place for each block's sum.
struct Scratch {
    unsigned done, unused[3];
    float parts[1];
};

// The last block to arrive adds all blocks' sums, always in the order of the blocks.
template <int Threads>
__device__ __forceinline__ void finish(float mine, float* __restrict__ out,
                                       Scratch* scratch) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        scratch->parts[blockIdx.x] = mine;
        __threadfence();  // the sum is there before the count says so
        last = atomicAdd(&scratch->done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    float total = 0;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += Threads)
        total += __ldcg(scratch->parts + b);
    total = block_sum<Threads>(total);
    if (threadIdx.x == 0) {
        *out = total;
        scratch->done = 0;
    }
}

__device__ __forceinline__ float add(const float4& v) {
    return (v.x + v.y) + (v.z + v.w);
}

// Up to three elements before the first 16-byte boundary and up to three behind the last: the first threads of block 0.
struct Cut {
    Size head, words;
};
__device__ __forceinline__ Cut cut(const float* in, Size n) {
    const Size head = (16 - reinterpret_cast<Size>(in) % 16) % 16 / sizeof(float);
    return head < n ? Cut{head, (n - head) / 4} : Cut{n, 0};
}
__device__ __forceinline__ float ends(const float* in, const Cut& c, Size n) {
    const Size k = thread_index(), outside = n - 4 * c.words;
    return k < outside ? in[k < c.head ? k : k + 4 * c.words] : 0;
}

// Each block takes every gridDim-th tile of Threads × Loads words; all loads of a tile
// are under way before the first addition, and a thread reduces once, at its end.
template <int Threads, int Loads>
__global__ void __launch_bounds__(Threads)
    vectorized(const float* __restrict__ in, float* __restrict__ out, Scratch* scratch,
               Size n) {
    const Cut c = cut(in, n);
    const float4* words = reinterpret_cast<const float4*>(in + c.head);
    constexpr Size kTileWords = Threads * Loads;
    float sums[Loads] = {};
    Size tile = static_cast<Size>(blockIdx.x) * kTileWords;
    for (; tile + kTileWords <= c.words; tile += gridDim.x * kTileWords) {
        float4 values[Loads];
#pragma unroll
        for (int k = 0; k < Loads; ++k)
            values[k] = __ldcs(words + tile + k * Threads + threadIdx.x);
#pragma unroll
        for (int k = 0; k < Loads; ++k) sums[k] += add(values[k]);
    }
    for (Size i = tile + threadIdx.x; i < c.words && i < tile + kTileWords;
         i += Threads)
        sums[0] += add(words[i]);
    float mine = ends(in, c, n);
#pragma unroll
    for (int k = 0; k < Loads; ++k) mine += sums[k];
    finish<Threads>(block_sum<Threads>(mine), out, scratch);
}

// ---- bulk copies (TMA) into a ring in shared memory; compute capability 9.0 ----------------------------------------------

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LAB_SUM_BULK 1
#else
#define LAB_SUM_BULK 0
#endif

#if LAB_SUM_BULK
__device__ __forceinline__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrier_wait(Size* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra.uni through;\n"
        "bra.uni again;\n"
        "through:\n"
        "}\n" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes, Size* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
#endif

// Thread 0 keeps Stages tiles of Threads × Loads words under way; all threads add up a tile that has come. Dynamic shared
// memory: Stages × Threads × Loads × 16 bytes.
template <int Threads, int Loads, int Stages>
__global__ void __launch_bounds__(Threads) bulk(const float* __restrict__ in, float* __restrict__ out, Scratch* scratch, Size n) {
#if LAB_SUM_BULK
    extern __shared__ __align__(128) float4 ring[];
    __shared__ Size full[Stages];
    const Cut c = cut(in, n);
    const float4* words = reinterpret_cast<const float4*>(in + c.head);
    constexpr Size kTileWords = Threads * Loads;
    const Size tiles = c.words / kTileWords;
    const Size mine = blockIdx.x < tiles ? (tiles - blockIdx.x - 1) / gridDim.x + 1 : 0;
    const auto load = [&](Size k, int stage) {
        bulk_load(ring + stage * kTileWords, words + (blockIdx.x + k * gridDim.x) * kTileWords, kTileWords * 16, &full[stage]);
    };
    if (threadIdx.x == 0) {
        for (int s = 0; s < Stages; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int s = 0; s < Stages && s < mine; ++s) load(s, s);
    }
    __syncthreads();
    float sums[Loads] = {};
    int stage = 0;
    unsigned parity = 0;
    for (Size k = 0; k < mine; ++k) {
        barrier_wait(&full[stage], parity);
#pragma unroll
        for (int j = 0; j < Loads; ++j) sums[j] += add(ring[stage * kTileWords + j * Threads + threadIdx.x]);
        __syncthreads();  // all have read it
        if (threadIdx.x == 0 && k + Stages < mine) load(k + Stages, stage);
        if (++stage == Stages) stage = 0, parity ^= 1;
    }
    float rest = ends(in, c, n);
    for (Size i = tiles * kTileWords + thread_index(); i < c.words; i += static_cast<Size>(gridDim.x) * Threads) rest += add(words[i]);
#pragma unroll
    for (int j = 0; j < Loads; ++j) rest += sums[j];
    finish<Threads>(block_sum<Threads>(rest), out, scratch);
#else
    if (n != 0) __trap();
#endif
}

}  // namespace lab::sum
