// Exercise nsys-ex02, part c: make small independent kernels overlap. Needs a GPU and nvcc.
// SPDX-License-Identifier: Apache-2.0
//
// A job is many slices; each is advanced by a kernel of its own, which fills only a few of the GPU's multiprocessors.
// `run` below launches them one after another on one stream, so that most of the GPU stays empty. Nothing requires
// that order: the slices are independent. Change prepare, run and release, so that the kernels overlap.
//
// What the grader does, for several jobs:
//     Plan* plan = prepare(job);      once; not timed; may take its time
//     run(plan, main);                several times, with other work on the stream `main` before and after it
//     release(plan);
// `run` must fit in between: its kernels may start only after what was put on `main` before it, and what is put on
// `main` after it must find them done. The host need not wait. The pointers stay the same from run to run.
//
// A worked example: slices = 2, slice_size = 3: out[0..2] is slice 0 of in advanced by `steps`, out[3..5] is slice 1.
//
// It is graded in this order: right results for jobs you have not seen; then at most half of the time that one stream
// takes, for 240 slices of 2048 oscillators, measured beside it.
//
// Grade it:      labcode exercises nsys-ex02c        (or: nox -s exercises -- nsys-ex02c)
// Get a hint:    labcode exercises nsys-ex02c --hint

#include <cuda_runtime.h>

#include <vector>

#include "../../../cuda/common/check.cuh"       // LAB_CUDA(call) stops with a message when a call fails
#include "../../../cuda/common/oscillator.cuh"  // lab::oscillator_step

struct Job {
    const float2* in;  // on the device: slices × slice_size oscillators, each position and velocity
    float2* out;       // on the device: the same number
    int slices;
    int slice_size;
    int steps;
};

constexpr int kThreads = 256;
constexpr float kStepSize = 0.0625f;

// Advances one slice. One thread an oscillator.
__global__ void advance(const float2* in, float2* out, int count, int steps) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    float x = in[i].x, v = in[i].y;
    for (int k = 0; k < steps; ++k) lab::oscillator_step(x, v, kStepSize);
    out[i] = make_float2(x, v);
}

inline void launch_slice(const Job& job, int slice, cudaStream_t stream) {
    const int blocks = (job.slice_size + kThreads - 1) / kThreads;
    const size_t begin = static_cast<size_t>(slice) * static_cast<size_t>(job.slice_size);
    advance<<<blocks, kThreads, 0, stream>>>(job.in + begin, job.out + begin, job.slice_size, job.steps);
    LAB_LAUNCHED();
}

// What prepare hands on to run: streams, events, a graph; whatever you need.
struct Plan {
    Job job;
};

inline Plan* prepare(const Job& job) {
    return new Plan{job};
}

inline void run(Plan* plan, cudaStream_t main) {
    for (int slice = 0; slice < plan->job.slices; ++slice) launch_slice(plan->job, slice, main);
}

inline void release(Plan* plan) {
    delete plan;
}
