// The work of the timeline programs: an oscillator's state and a number of steps in, its later state out.
// SPDX-License-Identifier: Apache-2.0
//
// One step is two dependent fused multiply-adds (the symplectic Euler method for x'' = -x, step size s):
//     v ← v − s·x        x ← x + s·v
// It keeps the amplitude, so that any number of steps neither overflows nor dies away, and every step changes the
// result: a step too few is an error of the size of s. And it is linear: n steps are the n-th power of a 2×2 matrix,
// which the host computes in double precision by repeated squaring, independently of the loop on the GPU.
#pragma once

#include <cstdint>

namespace lab {

constexpr double kFlopsPerStep = 4;  // two multiply-adds

__host__ __device__ inline void oscillator_step(float& x, float& v, float s) {
    v = fmaf(-s, x, v);
    x = fmaf(s, v, x);
}

// (x, v) after n steps = matrix · (x, v) before.
struct Propagator {
    double xx = 1, xv = 0, vx = 0, vv = 1;
};

inline Propagator multiply(const Propagator& a, const Propagator& b) {
    return {a.xx * b.xx + a.xv * b.vx, a.xx * b.xv + a.xv * b.vv, a.vx * b.xx + a.vv * b.vx, a.vx * b.xv + a.vv * b.vv};
}

inline Propagator propagator(double s, std::uint64_t steps) {
    Propagator result, power{1 - s * s, s, -s, 1};
    for (; steps != 0; steps >>= 1) {
        if (steps & 1) result = multiply(power, result);
        power = multiply(power, power);
    }
    return result;
}

// Random floats, uniform in [−1, 1), reproducible from a seed (the splitmix64 generator).
class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t bits() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    float uniform() { return static_cast<float>(static_cast<std::int64_t>(bits()) >> 40) * (1.0f / 8388608.0f); }

private:
    std::uint64_t state_;
};

}  // namespace lab
