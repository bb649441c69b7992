// Rows on a GPU: what the row kernels (softmax, RMSNorm) share. Device code only, for nvcc and NVRTC alike.
// Rows in registers, sums over warps and blocks, and for compute capability 9.0 the pieces of a cluster pipeline:
// barriers in shared memory, bulk copies that report to them, messages to the other blocks of a cluster.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>

// The blocks of a cluster, before a kernel's name; nothing on GPUs that have no clusters. And the blocks that an SM shall hold
// of such a kernel, in its launch bounds: GPUs that have none may hold fewer threads, and compile no more than an empty kernel.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LAB_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#define LAB_CLUSTER_BLOCKS(blocks) blocks
#else
#define LAB_CLUSTER(blocks)
#define LAB_CLUSTER_BLOCKS(blocks) 1
#endif

namespace lab {
namespace rows {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

template <typename T>
constexpr int kFull = 16 / static_cast<int>(sizeof(T));  // elements in the widest access a thread can make

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
    return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

// 16 bytes of elements.
template <typename T>
struct alignas(16) Pack {
    T at[kFull<T>];
};

// Whether rows can be moved 16 bytes at a time: every row of both arrays starts on 16 bytes.
template <typename T>
__device__ __forceinline__ bool starts_align(const void* in, const void* out, int columns) {
    return ((reinterpret_cast<unsigned long long>(in) | reinterpret_cast<unsigned long long>(out)) & 15) == 0 && columns % kFull<T> == 0;
}

// Part of a row in registers: kEach elements a thread, in fp32, as kSlots vectors of 16 bytes. Where rows start on 16 bytes,
// thread t's slot s is vector s · threads + t; where they do not, its element v is (s · kVector + v) · threads + t, so that a
// warp still reads neighbors together, one element a thread.
template <typename T, int kEach>
struct Held {
    static constexpr int kVector = kFull<T>, kSlots = kEach / kVector;
    static_assert(kSlots > 0 && kEach % kVector == 0, "whole vectors");
    float at[kSlots][kVector];

    __device__ __forceinline__ float get(int s, int v) const { return at[s][v]; }

    // Reads x[0 … length); what lies beyond is `nothing`. `once`: past the L1 cache, since nobody reads it again.
    template <bool once>
    __device__ __forceinline__ void read(const T* x, int length, bool aligned, int thread, int threads, float nothing) {
        if (aligned) {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
                const int i = (s * threads + thread) * kVector;
                if (i < length) {
                    union {
                        uint4 words;
                        Pack<T> pack;
                    } u;
                    if constexpr (once) {
                        asm("ld.global.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                            : "=r"(u.words.x), "=r"(u.words.y), "=r"(u.words.z), "=r"(u.words.w)
                            : "l"(x + i));
                    } else {
                        u.words = *reinterpret_cast<const uint4*>(x + i);
                    }
#pragma unroll
                    for (int v = 0; v < kVector; ++v) at[s][v] = widen(u.pack.at[v]);
                } else {
#pragma unroll
                    for (int v = 0; v < kVector; ++v) at[s][v] = nothing;
                }
            }
        } else {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    const int i = (s * kVector + v) * threads + thread;
                    at[s][v] = i < length ? widen(x[i]) : nothing;
                }
            }
        }
    }

    // Writes y[0 … length). `streaming`: marked as the first to leave the L2, since nobody reads it soon.
    template <bool streaming>
    __device__ __forceinline__ void write(T* y, int length, bool aligned, int thread, int threads) const {
        if (aligned) {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
                const int i = (s * threads + thread) * kVector;
                if (i < length) {
                    union {
                        uint4 words;
                        Pack<T> pack;
                    } u;
#pragma unroll
                    for (int v = 0; v < kVector; ++v) u.pack.at[v] = narrow<T>(at[s][v]);
                    if constexpr (streaming) {
                        __stcs(reinterpret_cast<uint4*>(y + i), u.words);
                    } else {
                        *reinterpret_cast<uint4*>(y + i) = u.words;
                    }
                }
            }
        } else {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    const int i = (s * kVector + v) * threads + thread;
                    if (i < length) y[i] = narrow<T>(at[s][v]);
                }
            }
        }
    }
};

// The same as it came, for bf16 half as many registers: an element is widened whenever it is used.
template <typename T, int kEach>
struct Packed {
    static constexpr int kVector = kFull<T>, kSlots = kEach / kVector;
    static_assert(kSlots > 0 && kEach % kVector == 0, "whole vectors");
    uint4 words[kSlots];

    __device__ __forceinline__ float get(int s, int v) const {
        const unsigned word[4] = {words[s].x, words[s].y, words[s].z, words[s].w};
        if constexpr (sizeof(T) == 4) return __uint_as_float(word[v]);
        else return __uint_as_float(v % 2 == 0 ? word[v / 2] << 16 : word[v / 2] & 0xffff0000u);  // bf16: the upper half of an fp32
    }

    // Forgets what the compiler knows of the values, so that it keeps them as they are and not widened.
    __device__ __forceinline__ void keep_packed() {
        if constexpr (sizeof(T) == 2) {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) asm volatile("" : "+r"(words[s].x), "+r"(words[s].y), "+r"(words[s].z), "+r"(words[s].w));
        }
    }

    // Reads x[0 … length); what lies beyond is 0.
    __device__ __forceinline__ void read(const T* x, int length, bool aligned, int thread, int threads) {
#pragma unroll
        for (int s = 0; s < kSlots; ++s) {
            union {
                uint4 words;
                Pack<T> pack;
            } u;
            u.words = make_uint4(0, 0, 0, 0);
            if (aligned) {
                const int i = (s * threads + thread) * kVector;
                if (i < length) u.words = *reinterpret_cast<const uint4*>(x + i);
            } else {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    const int i = (s * kVector + v) * threads + thread;
                    if (i < length) u.pack.at[v] = x[i];
                }
            }
            words[s] = u.words;
        }
    }

    // Writes value(s, v) to y[0 … length) for each element.
    template <typename Value>
    static __device__ __forceinline__ void write(T* y, int length, bool aligned, int thread, int threads, Value value) {
        if (aligned) {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
                const int i = (s * threads + thread) * kVector;
                if (i < length) {
                    union {
                        uint4 words;
                        Pack<T> pack;
                    } u;
#pragma unroll
                    for (int v = 0; v < kVector; ++v) u.pack.at[v] = narrow<T>(value(s, v));
                    *reinterpret_cast<uint4*>(y + i) = u.words;
                }
            }
        } else {
#pragma unroll
            for (int s = 0; s < kSlots; ++s) {
#pragma unroll
                for (int v = 0; v < kVector; ++v) {
                    const int i = (s * kVector + v) * threads + thread;
                    if (i < length) y[i] = narrow<T>(value(s, v));
                }
            }
        }
    }
};

__device__ __forceinline__ float warp_largest(float x) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    return x;
}

// The threads of a block, in one dimension.
__device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp() { return static_cast<int>(threadIdx.x / kWarp); }
__device__ __forceinline__ int warps() { return static_cast<int>((blockDim.x + kWarp - 1) / kWarp); }

// The sum over the block, known to all of its threads. `scratch` holds a number a warp; it is free again at the end.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
    x = warp_sum(x);
    if (lane() == 0) scratch[warp()] = x;
    __syncthreads();
    x = warp_sum(lane() < warps() ? scratch[lane()] : 0.0f);
    __syncthreads();
    return x;
}

// The part of a row that one block of a cluster of `parts` works on: whole vectors; the last parts may be short or empty.
struct Slice {
    int first, length;
};
template <typename T>
__host__ __device__ constexpr int slice_length(int columns, int parts) {
    return (columns + parts * kFull<T> - 1) / (parts * kFull<T>) * kFull<T>;
}
template <typename T>
__device__ __forceinline__ Slice slice_of(int columns, int parts, int part) {
    const int length = slice_length<T>(columns, parts), first = min(part * length, columns);
    return {first, min(length, columns - first)};
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ int cluster_rank() {
    int n;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(n));
    return n;
}
// A barrier of all threads of a cluster, in two halves: arrive, do something else, wait for the others.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Both at once, for clusters of kParts blocks; one block needs its own barrier only.
template <int kParts>
__device__ __forceinline__ void cluster_sync() {
    if constexpr (kParts == 1) {
        __syncthreads();
    } else {
        cluster_arrive();
        cluster_wait();
    }
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
// Where the same variable lies in the shared memory of another block of the cluster.
__device__ __forceinline__ unsigned address_in(int block, const void* pointer) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(pointer)), "r"(block));
    return address;
}
__device__ __forceinline__ float2 read_from(int block, const float2* pointer) {
    float2 pair;
    asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                 : "=f"(pair.x), "=f"(pair.y)
                 : "r"(address_in(block, pointer))
                 : "memory");
    return pair;
}

__device__ __forceinline__ float read_from(int block, const float* pointer) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address_in(block, pointer)) : "memory");
    return value;
}

// A barrier in shared memory that also counts bytes: a phase ends when the awaited arrivals and bytes have come.
using Barrier = unsigned long long;

__device__ __forceinline__ void set_up(Barrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// After set_up(), before anybody else uses the barriers: the other blocks, the copy engine.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Arrives, and says how many bytes this phase waits for.
__device__ __forceinline__ void expect(Barrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Waits for the end of the phase of this parity: 0 for the first phase, 1 for the second, 0 for the third …
__device__ __forceinline__ void wait(Barrier* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}
// The copy engine fetches `bytes` (a multiple of 16, both ends aligned to 16) and tells the barrier when they are there.
__device__ __forceinline__ void fetch(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
                 "l"(from), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}
// Writes into the shared memory of a block of the cluster and tells the barrier there of the bytes.
__device__ __forceinline__ void send(int block, float2 pair, float2* to, Barrier* barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(address_in(block, to)),
                 "f"(pair.x), "f"(pair.y), "r"(address_in(block, barrier))
                 : "memory");
}
__device__ __forceinline__ void send(int block, float value, float* to, Barrier* barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(address_in(block, to)), "f"(value),
                 "r"(address_in(block, barrier))
                 : "memory");
}

#endif

}  // namespace rows
}  // namespace lab
