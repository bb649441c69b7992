// Kernels for the golden reports of Nsight Compute: one for each thing a report can show. Prints "ok".
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

__global__ void copy_scalar(const float* from, float* to, size_t count) {
    size_t stride = size_t(gridDim.x) * blockDim.x;
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) to[i] = from[i];
}

__global__ void copy_vector(const float4* from, float4* to, size_t count) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}

__global__ void strided(const float* from, float* to, uint32_t count, uint32_t stride) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[(i * stride) % count];
}

__global__ void transpose_naive(const float* from, float* to, int rows, int columns) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < columns && y < rows) to[size_t(x) * rows + y] = from[size_t(y) * columns + x];
}

__global__ void conflicts(const float* from, float* to, int rounds) {
    __shared__ float tile[8192];
    int t = threadIdx.x;
    for (int i = t; i < 8192; i += blockDim.x) tile[i] = from[i];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < rounds; i++) sum += tile[(t * 32 + i) & 8191];
    to[blockIdx.x * blockDim.x + t] = sum;
}

__global__ void fma_chain(float* to, int rounds) {
    float x = threadIdx.x * 0.001f;
    for (int i = 0; i < rounds; i++) x = fmaf(x, 0.999f, 0.5f);
    to[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void __launch_bounds__(256) fma_independent(float* to, int rounds) {
    float x[8];
    for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
    for (int i = 0; i < rounds; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) x[k] = fmaf(x[k], 0.999f, 0.5f);
    float sum = 0;
    for (int k = 0; k < 8; k++) sum += x[k];
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void doubles(double* to, int rounds) {
    double x = threadIdx.x, y = x + 1, z = x + 2, w = x + 3;
    for (int i = 0; i < rounds; i++) {
        x = fma(x, .9, .5); y = fma(y, .9, .5); z = fma(z, .9, .5); w = fma(w, .9, .5);
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z + w;
}

__global__ void halves(__half2* to, int rounds) {
    __half2 x = __float2half2_rn(threadIdx.x * 0.001f), a = __float2half2_rn(0.999f), b = __float2half2_rn(0.5f);
    for (int i = 0; i < rounds; i++) x = __hfma2(x, a, b);
    to[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void tensor(float* to, int rounds) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[4];
    wmma::fill_fragment(a, __float2half(0.01f));
    wmma::fill_fragment(b, __float2half(0.02f));
    for (auto& part : c) wmma::fill_fragment(part, 0.0f);
    for (int i = 0; i < rounds; i++)
        for (auto& part : c) wmma::mma_sync(part, a, b, part);
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    for (auto& part : c) wmma::store_matrix_sync(to + warp * 256, part, 16, wmma::mem_row_major);
}

__global__ void diverge(float* to, int rounds) {
    float x = threadIdx.x;
    if (threadIdx.x & 1) {
        for (int i = 0; i < rounds; i++) x = x * 0.5f + 1;
    } else {
        for (int i = 0; i < rounds; i++) x = sqrtf(x + 1);
    }
    to[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void __launch_bounds__(1024, 2) spills(const float* from, float* to, int rounds) {
    float x[48];
#pragma unroll
    for (int k = 0; k < 48; k++) x[k] = from[threadIdx.x + k * 1024];
    for (int i = 0; i < rounds; i++)
#pragma unroll
        for (int k = 0; k < 48; k++) x[k] = fmaf(x[(k + 7) % 48], 0.5f, x[k]);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 48; k++) sum += x[k] * k;
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void atomics(int* counters, size_t count) {
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
        atomicAdd(counters + i % 4, int(i & 3) + 1);
}

__global__ void shared_limited(const float* from, float* to, int rounds) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = from[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < rounds; i++) sum = fmaf(sum, 0.5f, tile[(threadIdx.x + i) % blockDim.x]);
    to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int main() {
    constexpr size_t count = 1 << 24;
    float *a, *b;
    cudaMalloc(&a, count * 4);
    cudaMalloc(&b, count * 4);
    cudaMemset(a, 1, count * 4);
    copy_scalar<<<132 * 8, 256>>>(a, b, count);
    copy_vector<<<count / 4 / 256, 256>>>(reinterpret_cast<float4*>(a), reinterpret_cast<float4*>(b), count / 4);
    strided<<<count / 256, 256>>>(a, b, count, 33);
    transpose_naive<<<dim3(128, 512), dim3(32, 8)>>>(a, b, 4096, 4096);
    conflicts<<<264, 1024>>>(a, b, 128);
    fma_chain<<<132, 256>>>(b, 4096);
    fma_independent<<<132 * 8, 256>>>(b, 1024);
    doubles<<<132 * 8, 256>>>(reinterpret_cast<double*>(b), 512);
    halves<<<132 * 8, 256>>>(reinterpret_cast<__half2*>(b), 1024);
    tensor<<<132 * 4, 128>>>(b, 256);
    diverge<<<132 * 8, 256>>>(b, 256);
    spills<<<132, 1024>>>(a, b, 32);
    atomics<<<132, 256>>>(reinterpret_cast<int*>(b), 1 << 18);
    cudaFuncSetAttribute(shared_limited, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10);
    shared_limited<<<300, 128, 100 << 10>>>(a, b, 512);
    cudaError_t error = cudaDeviceSynchronize();
    std::printf("%s\n", error == cudaSuccess ? "ok" : cudaGetErrorString(error));
    return error != cudaSuccess;
}
