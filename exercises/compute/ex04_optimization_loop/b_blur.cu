// Exercise compute-ex04, part b: a blur through the optimization loop. Needs a GPU and nvcc.
// SPDX-License-Identifier: Apache-2.0
//
// Each pixel becomes the mean of the 15 × 15 pixels around it, weighted by exp(-(dx² + dy²) / 18); beyond the border the nearest
// pixel of the image counts. The kernel below is the formula as it stands. Go round the loop: profile, say what limits it and
// what a change should bring, change one thing, profile again. Keep a note of each round; some will bring nothing.
//
// What the grader does: calls blur(in, out, height, width, stream) with pointers on the GPU. `out` holds garbage before.
// Everything must run on `stream`; the host need not wait. Any height and width from 1 up; the arrays may start at any float.
//
// A worked example: an image of one pixel stays as it is; so does any image of one color.
//
// It is graded in this order: right pixels of images you have not seen (1e-5 of the mean size around); then at most a fiftieth of the
// time of the kernel below, for 4,096 × 4,096 pixels, measured beside it; then, where counters are permitted, at most 250
// instructions a pixel.
//
// Grade it:      labcode exercises compute-ex04b        (or: nox -s exercises -- compute-ex04b)
// Get a hint:    labcode exercises compute-ex04b --hint

#include <cuda_runtime.h>

#include "../../../cuda/common/check.cuh"  // LAB_LAUNCHED() stops with a message when a launch fails

constexpr int kRadius = 7;

__device__ inline int nearest(int i, int count) { return min(max(i, 0), count - 1); }

__global__ void __launch_bounds__(256) blur_pixels(const float* __restrict__ in, float* __restrict__ out, int height, int width) {
    const int row = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x), column = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    if (row >= height || column >= width) return;
    float sum = 0, weights = 0;
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
            const float weight = expf(static_cast<float>(-(dy * dy + dx * dx)) / 18.0f);
            sum += weight * in[static_cast<long long>(nearest(row + dy, height)) * width + nearest(column + dx, width)];
            weights += weight;
        }
    }
    out[static_cast<long long>(row) * width + column] = sum / weights;
}

inline void blur(const float* in, float* out, int height, int width, cudaStream_t stream) {
    const dim3 blocks(static_cast<unsigned>((width + 7) / 8), static_cast<unsigned>((height + 31) / 32));
    blur_pixels<<<blocks, dim3(32, 8), 0, stream>>>(in, out, height, width);
    LAB_LAUNCHED();
}
