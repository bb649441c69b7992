// Exercise nsys-ex03, part c: write the pipeline. Needs a GPU and nvcc.
// SPDX-License-Identifier: Apache-2.0
//
// A batch of oscillators goes to the GPU, is computed, and comes back. `run` below does one after the other. The GPU
// has a copy engine for each direction beside its multiprocessors: cut the batch into chunks, so that one chunk comes
// in while another is computed and a third goes out.
//
// What the grader does, for several batches:
//     Plan* plan = prepare(job);      once; not timed
//     run(plan);                      several times; host_out must be complete when it returns
//     release(plan);
// The host's memory is pinned. `count` is any number ≥ 1: the last chunk may be shorter than the others.
//
// A worked example: count = 5, cut into chunks of 2: elements 0–1, 2–3 and 4.
//
// It is graded in this order: right results for batches you have not seen; then, for a large batch, at most 1.25 times
// the time of its slowest stage alone, measured beside it. One stage after another takes nearly three times as long.
//
// Grade it:      labcode exercises nsys-ex03c        (or: nox -s exercises -- nsys-ex03c)
// Get a hint:    labcode exercises nsys-ex03c --hint

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "../../../cuda/common/check.cuh"       // LAB_CUDA(call) stops with a message when a call fails
#include "../../../cuda/common/oscillator.cuh"  // lab::oscillator_step

struct Job {
    const float* host_in;  // count floats, pinned
    float* host_out;       // count floats, pinned
    float* device_in;      // room for count floats
    float* device_out;     // room for count floats
    size_t count;
    int steps;
};

constexpr unsigned kThreads = 256;

// out[i] = where an oscillator of frequency in[i], started at 1, is after `steps` steps. One thread an element.
__global__ void follow(const float* in, float* out, size_t count, int steps) {
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float s = in[i];
    float x = 1, v = 0;
    for (int k = 0; k < steps; ++k) lab::oscillator_step(x, v, s);
    out[i] = x;
}

inline void launch_follow(const float* in, float* out, size_t count, int steps, cudaStream_t stream) {
    const unsigned blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    follow<<<blocks, kThreads, 0, stream>>>(in, out, count, steps);
    LAB_LAUNCHED();
}

// What prepare hands on to run.
struct Plan {
    Job job;
    cudaStream_t stream;
};

inline Plan* prepare(const Job& job) {
    Plan* plan = new Plan{job, nullptr};
    LAB_CUDA(cudaStreamCreateWithFlags(&plan->stream, cudaStreamNonBlocking));
    return plan;
}

inline void run(Plan* plan) {
    const Job& job = plan->job;
    const size_t bytes = job.count * sizeof(float);
    LAB_CUDA(cudaMemcpyAsync(job.device_in, job.host_in, bytes, cudaMemcpyHostToDevice, plan->stream));
    launch_follow(job.device_in, job.device_out, job.count, job.steps, plan->stream);
    LAB_CUDA(cudaMemcpyAsync(job.host_out, job.device_out, bytes, cudaMemcpyDeviceToHost, plan->stream));
    LAB_CUDA(cudaStreamSynchronize(plan->stream));
}

inline void release(Plan* plan) {
    LAB_CUDA(cudaStreamDestroy(plan->stream));
    delete plan;
}
