// Copy, triad and gather: arrays in GPU memory in, arrays in GPU memory out; the ladder from strided to bulk copies.
// SPDX-License-Identifier: Apache-2.0
//
// Device code only, for nvcc and NVRTC. Every kernel takes any number of elements and any start: what does not lie on
// 16-byte boundaries is moved element by element.
#pragma once

namespace lab::memory_bandwidth {

using Size = unsigned long long;

constexpr int kWord = 16;  // bytes: the widest access of a thread

// What the programs and the catalogue launch: the fastest found on an H200 (132 multiprocessors).
constexpr int kRun = 32;                                                   // strided: elements a thread
constexpr int kThreads = 256;                                              // a block, where nothing else is said
constexpr int kLoads = 2, kLoadThreads = 128;                              // in_flight: words a thread, threads a block
constexpr int kPieceBytes = 4096, kPieceThreads = 32, kPieceBlocks = 12;   // bulk: bytes and threads a block; blocks an SM
constexpr int kRingBytes = 4096, kRingStages = 3, kRingBlocks = 4;         // bulk_ring: of a stage; stages; blocks an SM

__device__ __forceinline__ Size address(const void* p) { return reinterpret_cast<Size>(p); }

__device__ __forceinline__ Size thread_index() { return static_cast<Size>(blockIdx.x) * blockDim.x + threadIdx.x; }

// An array cut for 16-byte accesses: `head` elements up to the first boundary of `out`, `words` whole words from there.
// Without a common boundary of all arrays there are no words, and everything is a rest.
struct Cut {
    Size head, words;
};

template <typename T>
__device__ __forceinline__ Cut cut(Size difference, const T* out, Size n) {
    constexpr Size kPer = kWord / sizeof(T);
    if (difference % kWord != 0) return {0, 0};
    const Size head = (kWord - address(out) % kWord) % kWord / sizeof(T);
    return head < n ? Cut{head, (n - head) / kPer} : Cut{0, 0};
}

// The elements that are in no word, shared out over all threads.
template <typename T, typename Move>
__device__ __forceinline__ void rest(const Cut& c, Size n, Move move) {
    constexpr Size kPer = kWord / sizeof(T);
    const Size inside = c.words * kPer, step = static_cast<Size>(gridDim.x) * blockDim.x;
    for (Size k = thread_index(); k < n - inside; k += step) move(k < c.head ? k : k + inside);
}

// ---- copy: out[i] = in[i] ---------------------------------------------------------------------------------------------

// Each thread copies Run elements that lie side by side: the lanes of a warp are Run
// elements apart.
template <typename T, int Run>
__global__ void strided(const T* __restrict__ in, T* __restrict__ out, Size n) {
    const Size first = thread_index() * Run;
#pragma unroll 1
    for (int k = 0; k < Run; ++k) {
        if (first + k < n) out[first + k] = in[first + k];
    }
}

// Lanes side by side: a warp reads and writes whole lines. One element a thread.
template <typename T>
__global__ void coalesced(const T* __restrict__ in, T* __restrict__ out, Size n) {
    const Size i = thread_index();
    if (i < n) out[i] = in[i];
}

// 16 bytes per thread: a quarter of the instructions and requests for the same bytes of a
// 4-byte type.
template <typename T>
__global__ void vectorized(const T* __restrict__ in, T* __restrict__ out, Size n) {
    const Cut c = cut(address(in) - address(out), out, n);
    const uint4* from = reinterpret_cast<const uint4*>(in + c.head);
    uint4* to = reinterpret_cast<uint4*>(out + c.head);
    const Size i = thread_index();
    if (i < c.words) to[i] = from[i];
    rest<T>(c, n, [=](Size k) { out[k] = in[k]; });
}

// Loads words of 16 bytes per thread, all of them in flight before the first is stored.
// Streaming: both arrays are marked as used once, first in line to leave the cache.
template <typename T, int Loads, bool Streaming>
__global__ void in_flight(const T* __restrict__ in, T* __restrict__ out, Size n) {
    const Cut c = cut(address(in) - address(out), out, n);
    const uint4* from = reinterpret_cast<const uint4*>(in + c.head);
    uint4* to = reinterpret_cast<uint4*>(out + c.head);
    const Size first = static_cast<Size>(blockIdx.x) * blockDim.x * Loads + threadIdx.x;
    uint4 words[Loads];
    if (first + static_cast<Size>(Loads - 1) * blockDim.x < c.words) {
#pragma unroll
        for (int k = 0; k < Loads; ++k) {
            const uint4* place = from + first + k * blockDim.x;
            words[k] = Streaming ? __ldcs(place) : *place;
        }
#pragma unroll
        for (int k = 0; k < Loads; ++k) {
            uint4* place = to + first + k * blockDim.x;
            if (Streaming) __stcs(place, words[k]);
            else *place = words[k];
        }
    } else {
        for (Size i = first;
             i < c.words && i < first + static_cast<Size>(Loads) * blockDim.x;
             i += blockDim.x)
            to[i] = from[i];
    }
    rest<T>(c, n, [=](Size k) { out[k] = in[k]; });
}

// ---- bulk copies (TMA): one thread asks, the copy engine of the multiprocessor moves; compute capability 9.0 -----------

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LAB_BULK 1
#else
#define LAB_BULK 0
#endif

#if LAB_BULK
__device__ __forceinline__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void barrier_init(Size* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// What was written to shared memory before is seen by the copy engine after.
__device__ __forceinline__ void copy_engine_sees() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// One arrival that also says how many bytes the barrier is to wait for.
__device__ __forceinline__ void barrier_expect(Size* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

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
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Wait until all but the last N bulk stores have read their shared memory.
template <int N>
__device__ __forceinline__ void bulk_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
#endif

// One piece per block, through shared memory: thread 0 asks for it, waits, and asks for
// it to be stored; no element passes through a register. Dynamic shared memory:
// PieceBytes, or more to have fewer blocks, and bytes, under way on a multiprocessor.
template <typename T, int PieceBytes>
__global__ void bulk(const T* __restrict__ in, T* __restrict__ out, Size n) {
#if LAB_BULK
    static_assert(PieceBytes % kWord == 0, "whole words");
    extern __shared__ __align__(128) unsigned char pieces[];
    __shared__ Size full;
    const Cut c = cut(address(in) - address(out), out, n);
    rest<T>(c, n, [=](Size k) { out[k] = in[k]; });
    const Size bytes = c.words * kWord,
               place = static_cast<Size>(blockIdx.x) * PieceBytes;
    if (threadIdx.x != 0 || place >= bytes) return;
    const unsigned length = static_cast<unsigned>(
        bytes - place < PieceBytes ? bytes - place : PieceBytes);
    barrier_init(&full, 1);
    copy_engine_sees();
    barrier_expect(&full, length);
    bulk_load(pieces, reinterpret_cast<const char*>(in + c.head) + place, length,
              &full);
    barrier_wait(&full, 0);
    bulk_store(reinterpret_cast<char*>(out + c.head) + place, pieces, length);
    // Before the block ends and its shared memory goes to another.
    bulk_stores_read<0>();
#else
    if (n != 0) __trap();
#endif
}

// A ring of Stages pieces of PieceBytes: blocks that stay, each with loads under way
// while it stores. Pieces are dealt to the blocks in turn. Dynamic shared memory:
// Stages × PieceBytes.
template <typename T, int PieceBytes, int Stages>
__global__ void bulk_ring(const T* __restrict__ in, T* __restrict__ out, Size n) {
#if LAB_BULK
    static_assert(PieceBytes % kWord == 0 && Stages >= 2, "a ring of whole words");
    extern __shared__ __align__(128) unsigned char pieces[];
    __shared__ Size full[Stages];
    const Cut c = cut(address(in) - address(out), out, n);
    rest<T>(c, n, [=](Size k) { out[k] = in[k]; });
    if (threadIdx.x != 0) return;
    const char* from = reinterpret_cast<const char*>(in + c.head);
    char* to = reinterpret_cast<char*>(out + c.head);
    const Size bytes = c.words * kWord, all = (bytes + PieceBytes - 1) / PieceBytes;
    const Size mine = blockIdx.x < all ? (all - blockIdx.x - 1) / gridDim.x + 1 : 0;
    const auto place = [&](Size k) { return (blockIdx.x + k * gridDim.x) * PieceBytes; };
    const auto length = [&](Size k) { return static_cast<unsigned>(bytes - place(k) < PieceBytes ? bytes - place(k) : PieceBytes); };
    const auto load = [&](Size k, int stage) {
        barrier_expect(&full[stage], length(k));
        bulk_load(pieces + stage * PieceBytes, from + place(k), length(k), &full[stage]);
    };
    for (int s = 0; s < Stages; ++s) barrier_init(&full[s], 1);
    copy_engine_sees();
    for (int s = 0; s < Stages && s < mine; ++s) load(s, s);
    int stage = 0, before = Stages - 1;
    unsigned parity = 0;
    for (Size k = 0; k < mine; ++k) {
        barrier_wait(&full[stage], parity);
        bulk_store(to + place(k), pieces + stage * PieceBytes, length(k));
        if (k > 0 && k - 1 + Stages < mine) {  // the piece before this one: once it is read, its stage takes the next load
            bulk_stores_read<1>();
            load(k - 1 + Stages, before);
        }
        before = stage;
        if (++stage == Stages) stage = 0, parity ^= 1;
    }
    bulk_stores_read<0>();
#else
    if (n != 0) __trap();
#endif
}

// ---- triad: out[i] = b[i] + s · c[i] -------------------------------------------------------------------------------------

__global__ void triad_coalesced(const float* __restrict__ b, const float* __restrict__ c, float* __restrict__ out, Size n, float s) {
    const Size i = thread_index();
    if (i < n) out[i] = fmaf(s, c[i], b[i]);
}

__device__ __forceinline__ float4 fused(float s, const float4& c, const float4& b) {
    return make_float4(fmaf(s, c.x, b.x), fmaf(s, c.y, b.y), fmaf(s, c.z, b.z), fmaf(s, c.w, b.w));
}

// Loads words of each input under way before the first result.
template <int Loads>
__global__ void triad_in_flight(const float* __restrict__ b, const float* __restrict__ c, float* __restrict__ out, Size n, float s) {
    const Cut parts = cut((address(b) - address(out)) | (address(c) - address(out)), out, n);
    const float4* from_b = reinterpret_cast<const float4*>(b + parts.head);
    const float4* from_c = reinterpret_cast<const float4*>(c + parts.head);
    float4* to = reinterpret_cast<float4*>(out + parts.head);
    const Size first = static_cast<Size>(blockIdx.x) * blockDim.x * Loads + threadIdx.x;
    if (first + static_cast<Size>(Loads - 1) * blockDim.x < parts.words) {
        float4 left[Loads], right[Loads];
#pragma unroll
        for (int k = 0; k < Loads; ++k) {
            left[k] = __ldcs(from_b + first + k * blockDim.x);
            right[k] = __ldcs(from_c + first + k * blockDim.x);
        }
#pragma unroll
        for (int k = 0; k < Loads; ++k) __stcs(to + first + k * blockDim.x, fused(s, right[k], left[k]));
    } else {
        for (Size i = first; i < parts.words && i < first + static_cast<Size>(Loads) * blockDim.x; i += blockDim.x) {
            to[i] = fused(s, from_c[i], from_b[i]);
        }
    }
    rest<float>(parts, n, [=](Size k) { out[k] = fmaf(s, c[k], b[k]); });
}

// ---- gather: out[i] = in[index[i]] --------------------------------------------------------------------------------------

// A random read of 4 bytes moves a sector of 32.
template <typename T>
__global__ void gather(const T* __restrict__ in, const int* __restrict__ index, T* __restrict__ out, Size n) {
    const Size i = thread_index();
    if (i < n) out[i] = in[index[i]];
}

// Loads indices a thread, then Loads reads under way at once.
template <typename T, int Loads>
__global__ void gather_in_flight(const T* __restrict__ in, const int* __restrict__ index, T* __restrict__ out, Size n) {
    const Size first = static_cast<Size>(blockIdx.x) * blockDim.x * Loads + threadIdx.x;
    int places[Loads];
    T values[Loads];
#pragma unroll
    for (int k = 0; k < Loads; ++k) {
        const Size i = first + k * blockDim.x;
        places[k] = i < n ? __ldcs(index + i) : 0;
    }
#pragma unroll
    for (int k = 0; k < Loads; ++k) values[k] = in[places[k]];
#pragma unroll
    for (int k = 0; k < Loads; ++k) {
        const Size i = first + k * blockDim.x;
        if (i < n) __stcs(out + i, values[k]);
    }
}

}  // namespace lab::memory_bandwidth
