// Does the tool for races see what an mbarrier orders? One thread asks the copy engine for tiles, a warp reads them and gives the slot back;
// what differs is how. Variants: 0 lane 0 arrives for its warp after __syncwarp(); 1 every lane arrives for itself; 2 as 0, but a
// barrier of the warp's threads lies between the reads and the arrival; 3 as 1, but given back before it is read: a race.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

constexpr int kTile = 256, kTiles = 16, kSlots = 2;

__device__ unsigned address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ void set_up(unsigned long long* b, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(b)), "r"(count) : "memory"); }
__device__ void arrive(unsigned long long* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(b)) : "memory"); }
__device__ void expect(unsigned long long* b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(b)), "r"(bytes) : "memory");
}
__device__ void wait(unsigned long long* b, int parity) {
    asm volatile(
        "{.reg .pred done;\nagain: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;}" ::"r"(address(b)), "r"(parity)
        : "memory");
}
__device__ void fetch(float* to, const float* from, unsigned long long* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(address(to)), "l"(from), "r"(kTile * 4),
                 "r"(address(b))
                 : "memory");
}

template <int kVariant>
__global__ void slots(const float* in, float* out) {
    __shared__ alignas(128) float tile[kSlots][kTile];
    __shared__ unsigned long long full[kSlots], empty[kSlots];
    if (threadIdx.x == 0) {
        for (int s = 0; s < kSlots; ++s) set_up(&full[s], 1), set_up(&empty[s], kVariant % 2 == 1 ? 32 : 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 32) {
        for (int t = 0; t < kTiles; ++t) {
            wait(&empty[t % kSlots], t / kSlots % 2 ^ 1);
            expect(&full[t % kSlots], kTile * 4);
            fetch(tile[t % kSlots], in + t * kTile, &full[t % kSlots]);
        }
    }
    if (threadIdx.x < 32 || kVariant == 2) {
        float sum = 0;
        for (int t = 0; t < kTiles; ++t) {
            const int s = t % kSlots;
            if (threadIdx.x < 32) {
                wait(&full[s], t / kSlots % 2);
                if constexpr (kVariant == 3) arrive(&empty[s]);
                for (int i = threadIdx.x; i < kTile; i += 32) sum += tile[s][i];
            }
            if constexpr (kVariant == 2) {
                if (threadIdx.x < 32) asm volatile("bar.sync 1, 32;" ::: "memory");
                else break;
            }
            if constexpr (kVariant == 1) {
                arrive(&empty[s]);
            } else if constexpr (kVariant != 3) {
                __syncwarp();
                if (threadIdx.x == 0) arrive(&empty[s]);
            }
        }
        if (threadIdx.x < 32) out[threadIdx.x] = sum;
    }
}

int main(int count, char** words) {
    const int variant = count > 1 ? std::atoi(words[1]) : 0;
    float *in, *out, host[kTile * kTiles], got[32];
    double want = 0, sum = 0;
    for (int i = 0; i < kTile * kTiles; ++i) want += host[i] = static_cast<float>(i * 37 % 101);
    cudaMalloc(&in, sizeof(host)), cudaMalloc(&out, sizeof(got));
    cudaMemcpy(in, host, sizeof(host), cudaMemcpyHostToDevice);
    if (variant == 0) slots<0><<<1, 64>>>(in, out);
    if (variant == 1) slots<1><<<1, 64>>>(in, out);
    if (variant == 2) slots<2><<<1, 64>>>(in, out);
    if (variant == 3) slots<3><<<1, 64>>>(in, out);
    cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost);
    for (float x : got) sum += x;
    const cudaError_t error = cudaGetLastError();
    std::printf("variant %d: %s, sum %.0f of %.0f\n", variant, cudaGetErrorString(error), sum, want);
    return error != cudaSuccess || (variant != 3 && sum != want);
}
