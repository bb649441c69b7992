// A bilateral filter, round after round of profile → hypothesis → change. Device code only.
// SPDX-License-Identifier: Apache-2.0
//
// An edge-preserving blur: each pixel becomes the mean of the 81 pixels around it, weighted by how near they are and by how
// alike (Tomasi and Manduchi, Bilateral filtering for gray and color images, ICCV 1998):
//     w(p, q) = exp(−|p − q|² / 2·2²) · exp(−(I(q) − I(p))² / 2·σ²)        out(p) = Σ w·I(q) / Σ w
// Beyond the border lies the nearest pixel of the image. All rounds compute the same; round 6 rounds its weights to half
// precision. Why each round was tried, and what it was predicted to bring, is in the program's table of rounds.
#pragma once

namespace lab::optimization_loop {

constexpr int kRadius = 4, kTaps = 2 * kRadius + 1;

// exp(−d²/8) for d = −4 … 4: the weight of distance along one axis, for a standard deviation of 2 pixels.
__constant__ float kNear[kTaps] = {0.13533528f, 0.32465247f, 0.60653066f, 0.88249690f, 1.0f, 0.88249690f, 0.60653066f, 0.32465247f, 0.13533528f};

__device__ inline int clamped(int i, int count) { return min(max(i, 0), count - 1); }

// ---- rounds 0 to 2: a thread a pixel, written down as the formula stands ----------------------------------------------------

// The range's weight, in double because of one literal; and in float.
__device__ inline float likeness_double(float difference, float sigma) {
    return static_cast<float>(exp(-0.5 * difference * difference / (sigma * sigma)));
}
__device__ inline float likeness_float(float difference, float sigma) {
    return expf(-0.5f * difference * difference / (sigma * sigma));
}

template <bool DOUBLE>
__device__ inline void filter_pixel(const float* __restrict__ in,
                                    float* __restrict__ out, int height, int width,
                                    float sigma, int row, int column) {
    if (row >= height || column >= width) return;
    const float center = in[static_cast<long long>(row) * width + column];
    float sum = 0, weights = 0;
#pragma unroll 1
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
#pragma unroll 3
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
            const float value = in[static_cast<long long>(clamped(row + dy, height)) *
                                       width + clamped(column + dx, width)];
            const float alike = DOUBLE ? likeness_double(value - center, sigma)
                                       : likeness_float(value - center, sigma);
            const float weight = kNear[dy + kRadius] * kNear[dx + kRadius] * alike;
            sum += weight * value;
            weights += weight;
        }
    }
    out[static_cast<long long>(row) * width + column] = sum / weights;
}

// Round 0. The threads of a warp go down a column: 32 rows, 32 lines a load.
__global__ void __launch_bounds__(256) round0(const float* __restrict__ in,
                                              float* __restrict__ out, int height,
                                              int width, float sigma) {
    const int row = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x),
              column = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
    filter_pixel<true>(in, out, height, width, sigma, row, column);
}

// Round 1. The threads of a warp go along a row.
__global__ void __launch_bounds__(256) round1(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y), column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    filter_pixel<true>(in, out, height, width, sigma, row, column);
}

// Round 2. −0.5f instead of −0.5: nothing is double any more.
__global__ void __launch_bounds__(256) round2(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y), column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    filter_pixel<false>(in, out, height, width, sigma, row, column);
}

// ---- round 3: one exponent, one instruction for its power ------------------------------------------------------------------

__device__ inline float exp2_fast(float x) {  // MUFU.EX2
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// log₂ of the distance's weight, a constant once the loops are unrolled: −(dx² + dy²) · log₂e / 8.
__device__ constexpr float log2_near(int dy, int dx) { return static_cast<float>(dy * dy + dx * dx) * -0.18033688f; }

// −log₂e / 2σ²: what the squared difference is multiplied with in an exponent to base 2.
__device__ inline float log2_scale(float sigma) { return -0.72134752f / (sigma * sigma); }

// The two weights are one power of two: 2^(near + scale · difference²).
struct Mean {
    float sum = 0, weights = 0;
    __device__ void add(float value, float weight) {
        sum = fmaf(weight, value, sum);
        weights += weight;
    }
    __device__ float result() const { return __fdividef(sum, weights); }
};

__device__ inline float weight_of(float difference, float scale, float near) {
    return exp2_fast(fmaf(scale * difference, difference, near));
}

__global__ void __launch_bounds__(256) round3(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y), column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= height || column >= width) return;
    const float center = in[static_cast<long long>(row) * width + column], scale = log2_scale(sigma);
    Mean mean;
#pragma unroll
    for (int dy = -kRadius; dy <= kRadius; ++dy) {
#pragma unroll
        for (int dx = -kRadius; dx <= kRadius; ++dx) {
            const float value = in[static_cast<long long>(clamped(row + dy, height)) * width + clamped(column + dx, width)];
            mean.add(value, weight_of(value - center, scale, log2_near(dy, dx)));
        }
    }
    out[static_cast<long long>(row) * width + column] = mean.result();
}

// ---- rounds 4 to 6: a tile with its border in shared memory -----------------------------------------------------------------

// The block's tile of `rows` × `columns` pixels with kRadius more on each side; the border of the image is settled here, once
// a pixel, instead of at each tap. Rows of the tile are `pitch` words apart.
__device__ inline void load_tile(float* tile, int pitch, int rows, int columns, const float* __restrict__ in, int height, int width, int top, int left) {
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x), threads = static_cast<int>(blockDim.x * blockDim.y);
    const int wide = columns + 2 * kRadius, all = (rows + 2 * kRadius) * wide;
    for (int i = thread; i < all; i += threads) {
        const int row = i / wide, column = i % wide;
        tile[row * pitch + column] = in[static_cast<long long>(clamped(top + row - kRadius, height)) * width + clamped(left + column - kRadius, width)];
    }
    __syncthreads();
}

constexpr int kColumns = 32, kRows = 8, kPitch = kColumns + 2 * kRadius;  // a block: 32 × 8 threads

__global__ void __launch_bounds__(256) round4(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    __shared__ float tile[(kRows + 2 * kRadius) * kPitch];
    const int top = static_cast<int>(blockIdx.y) * kRows, left = static_cast<int>(blockIdx.x) * kColumns;
    load_tile(tile, kPitch, kRows, kColumns, in, height, width, top, left);
    const int y = static_cast<int>(threadIdx.y), x = static_cast<int>(threadIdx.x);
    const float center = tile[(y + kRadius) * kPitch + x + kRadius], scale = log2_scale(sigma);
    Mean mean;
#pragma unroll
    for (int dy = 0; dy < kTaps; ++dy) {
#pragma unroll
        for (int dx = 0; dx < kTaps; ++dx) {
            const float value = tile[(y + dy) * kPitch + x + dx];
            mean.add(value, weight_of(value - center, scale, log2_near(dy - kRadius, dx - kRadius)));
        }
    }
    if (top + y < height && left + x < width) out[static_cast<long long>(top + y) * width + left + x] = mean.result();
}

// Round 5. A thread makes kEach pixels of a column: a value read from shared memory serves all of those it is a neighbor of.
constexpr int kEach = 4;

template <typename Weigh>
__device__ inline void filter_column(const float* __restrict__ in, float* __restrict__ out, int height, int width, Weigh weigh) {
    __shared__ float tile[(kEach * kRows + 2 * kRadius) * kPitch];
    const int top = static_cast<int>(blockIdx.y) * kEach * kRows, left = static_cast<int>(blockIdx.x) * kColumns;
    load_tile(tile, kPitch, kEach * kRows, kColumns, in, height, width, top, left);
    const int y = static_cast<int>(threadIdx.y) * kEach, x = static_cast<int>(threadIdx.x);
    float center[kEach];
    Mean mean[kEach];
#pragma unroll
    for (int p = 0; p < kEach; ++p) center[p] = tile[(y + p + kRadius) * kPitch + x + kRadius];
#pragma unroll
    for (int dx = 0; dx < kTaps; ++dx) {
#pragma unroll
        for (int dy = 0; dy < kEach - 1 + kTaps; ++dy) {
            weigh(tile[(y + dy) * kPitch + x + dx], center, mean, dy, dx - kRadius);
        }
    }
#pragma unroll
    for (int p = 0; p < kEach; ++p) {
        if (top + y + p < height && left + x < width) out[static_cast<long long>(top + y + p) * width + left + x] = mean[p].result();
    }
}

__global__ void __launch_bounds__(256) round5(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    const float scale = log2_scale(sigma);
    filter_column(in, out, height, width, [=](float value, const float(&center)[kEach], Mean(&mean)[kEach], int dy, int dx) {
#pragma unroll
        for (int p = 0; p < kEach; ++p) {
            const int away = dy - p - kRadius;  // rows from pixel p to the value
            if (away >= -kRadius && away <= kRadius) mean[p].add(value, weight_of(value - center[p], scale, log2_near(away, dx)));
        }
    });
}

// Round 6. Two powers of two by one instruction of PTX, in half precision: ex2.approx.f16x2.
__device__ inline void exp2_pair(float& first, float& second) {
    asm("{ .reg .b32 h; .reg .b16 l, u; cvt.rn.f16.f32 l, %0; cvt.rn.f16.f32 u, %1; mov.b32 h, {l, u}; ex2.approx.f16x2 h, h;"
        " mov.b32 {l, u}, h; cvt.f32.f16 %0, l; cvt.f32.f16 %1, u; }"
        : "+f"(first), "+f"(second));
}

__global__ void __launch_bounds__(256) round6(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma) {
    const float scale = log2_scale(sigma);
    filter_column(in, out, height, width, [=](float value, const float(&center)[kEach], Mean(&mean)[kEach], int dy, int dx) {
#pragma unroll
        for (int p = 0; p < kEach; p += 2) {
            const int away = dy - p - kRadius;  // of pixel p; pixel p + 1 is one row nearer to the top of the window
            const bool one = away >= -kRadius && away <= kRadius, two = away - 1 >= -kRadius && away - 1 <= kRadius;
            const float d = value - center[p], e = value - center[p + 1];
            if (one && two) {
                float first = fmaf(scale * d, d, log2_near(away, dx)), second = fmaf(scale * e, e, log2_near(away - 1, dx));
                exp2_pair(first, second);
                mean[p].add(value, first);
                mean[p + 1].add(value, second);
            } else if (one) {
                mean[p].add(value, weight_of(d, scale, log2_near(away, dx)));
            } else if (two) {
                mean[p + 1].add(value, weight_of(e, scale, log2_near(away - 1, dx)));
            }
        }
    });
}

// ---- rounds 7 to 9: each weight once ----------------------------------------------------------------------------------------

// w(p, q) = w(q, p). A warp takes a strip of 64 columns, two neighboring ones a lane, and walks down its rows. At each row y it
// computes the weights from its pixels to those half of their neighbors that come later in reading order (40 of 80): the pixel
// adds them to its own mean, and the lane that owns the neighbor gets the weight by a shuffle and adds it to the neighbor's.
// Means of rows y … y + 4 are under way at a time. The outer kRadius columns of a strip miss weights that no lane of the warp
// computes: strips overlap by 2·kRadius and give 56 columns each; a strip starts kRadius rows above its first output row.
// Round 8 cuts shorter strips: more blocks than the GPU holds at a time, so that early ones are followed by others.
constexpr int kStrip = 64, kStripOut = kStrip - 2 * kRadius, kStripWarps = 4;
constexpr int kStripPitch = kStrip + 2 * kRadius;       // words of a row in shared memory: 72
constexpr int kRing = 8;                                // rows a warp keeps there; five are in use
constexpr int kSpan = 2 + 2 * kRadius;                  // columns a lane's two pixels reach: 10

// Round 9 (SCALED) multiplies the image by the square root of the exponent's factor on the way into shared memory: an exponent
// is then near − difference², one instruction instead of two, and the means are divided by that root at the end.
template <bool SCALED>
__device__ inline void filter_strip(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma, int rows) {
    __shared__ __align__(8) float rings[kStripWarps][kRing][kStripPitch];
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    const int strip = static_cast<int>(blockIdx.x) * kStripWarps + warp, first = strip * kStripOut - kRadius;  // the strip's first column
    const int top = static_cast<int>(blockIdx.y) * rows, end = min(top + rows, height);
    if (strip * kStripOut >= width) return;  // the whole warp; nothing below waits for other warps
    float(*ring)[kStripPitch] = rings[warp];
    const float scale = log2_scale(sigma), root = SCALED ? sqrtf(-scale) : 1.0f;

    const int left = clamped(first - kRadius + lane, width), middle = clamped(first - kRadius + lane + 32, width);
    const int right = clamped(first - kRadius + lane + 64, width);
    const auto load_row = [&](int row) {
        const float* line = in + static_cast<long long>(clamped(row, height)) * width;
        float* target = ring[row & (kRing - 1)];
        target[lane] = line[left] * root;
        target[lane + 32] = line[middle] * root;
        if (lane < kStripPitch - 64) target[lane + 64] = line[right] * root;
    };
    const auto read_row = [&](int row, float(&values)[kSpan]) {  // columns 2·lane − 4 … 2·lane + 5 of the strip
        const float2* from = reinterpret_cast<const float2*>(&ring[row & (kRing - 1)][2 * lane]);
#pragma unroll
        for (int i = 0; i < kSpan / 2; ++i) {
            const float2 two = from[i];
            values[2 * i] = two.x;
            values[2 * i + 1] = two.y;
        }
    };
    for (int row = top - kRadius; row < top; ++row) load_row(row);

    Mean mean[kRadius + 1][2];  // of rows y … y + 4, two columns each
#pragma unroll 1
    for (int y = top - kRadius; y < end; ++y) {
        load_row(y + kRadius);
        __syncwarp();
        float here[kSpan];
        read_row(y, here);
#pragma unroll
        for (int dy = 0; dy <= kRadius; ++dy) {
            float there[kSpan];
            if (dy == 0) {
#pragma unroll
                for (int i = 0; i < kSpan; ++i) there[i] = here[i];
            } else {
                read_row(y + dy, there);
            }
            // [each-weight-once]
#pragma unroll
            for (int dx = dy == 0 ? 1 : -kRadius; dx <= kRadius; ++dx) {
                float weight[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const float value = there[j + kRadius + dx],
                                difference = value - here[j + kRadius];
                    weight[j] = SCALED ? exp2_fast(fmaf(-difference, difference,
                                                        log2_near(dy, dx)))
                                       : weight_of(difference, scale,
                                                   log2_near(dy, dx));
                    mean[0][j].add(value, weight[j]);
                }
#pragma unroll
                // My pixel j of row y + dy is the neighbor; its partner is dx columns
                // to the left in row y.
                for (int j = 0; j < 2; ++j) {
                    const int column = j - dx + 2 * kRadius,
                              offset = column / 2 - kRadius, source = column % 2;
                    const float given = __shfl_sync(0xffffffffu, weight[source],
                                                    (lane + offset) & 31);
                    mean[dy][j].add(here[j + kRadius - dx], given);
                }
            }
            // [/each-weight-once]
        }
        if (y >= top) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int column = 2 * lane + j, place = first + column;
                Mean whole = mean[0][j];
                whole.add(here[j + kRadius], 1.0f);  // the pixel itself
                if (column >= kRadius && column < kStrip - kRadius && place < width) {
                    out[static_cast<long long>(y) * width + place] = __fdividef(whole.sum, whole.weights * root);
                }
            }
        }
#pragma unroll
        for (int dy = 0; dy < kRadius; ++dy) {
            mean[dy][0] = mean[dy + 1][0];
            mean[dy][1] = mean[dy + 1][1];
        }
        mean[kRadius][0] = mean[kRadius][1] = Mean{};
    }
}

// rows: that a strip gives; blockIdx.y counts strips downward.
__global__ void __launch_bounds__(32 * kStripWarps) round7(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma, int rows) {
    filter_strip<false>(in, out, height, width, sigma, rows);
}

__global__ void __launch_bounds__(32 * kStripWarps) round9(const float* __restrict__ in, float* __restrict__ out, int height, int width, float sigma, int rows) {
    filter_strip<true>(in, out, height, width, sigma, rows);
}

}  // namespace lab::optimization_loop
