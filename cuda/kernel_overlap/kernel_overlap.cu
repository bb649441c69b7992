// Many small independent kernels: on one stream, on several, as a CUDA graph. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// The work: many separate little simulations, each a slice of oscillators that one small kernel advances by some steps.
// A kernel of 8 blocks fills 8 of a GPU's many multiprocessors, so that one kernel at a time leaves nearly all of it empty.
//   stream       all kernels on one stream: each waits for the one before, though nothing requires it
//   streams      the same kernels dealt out to several streams: they run beside each other, as fast as the CPU launches
//   graph        the launches of `streams`, captured once and replayed: one call starts them all
//   tiny_stream  a chain of kernels with next to no work, each needing the one before: launches are all there is to see
//   tiny_graph   the same chain, captured once and replayed
// The state is advanced in place by every repetition, warm-up included, so that at the end each oscillator must be where
// so many steps lead: a kernel that was left out, ran twice, or ran before the one it depends on shows in the result.

#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "../common/args.hpp"
#include "../common/check.cuh"
#include "../common/device.cuh"
#include "../common/json.hpp"
#include "../common/nvtx.hpp"
#include "../common/oscillator.cuh"
#include "../common/timing.cuh"

// Advances one slice of oscillators, one a thread, by `steps` steps.
__global__ void advance(float2* __restrict__ slice, int steps, float s) {
    float2* const mine = slice + blockIdx.x * blockDim.x + threadIdx.x;
    float x = mine->x, v = mine->y;
#pragma unroll 8
    for (int i = 0; i < steps; ++i) lab::oscillator_step(x, v, s);
    *mine = make_float2(x, v);
}

namespace {

constexpr float kStepSize = 0.0625f;  // a power of two: exact in float and in double
constexpr double kTolerance = 1e-4;   // ‖out − ref‖ / ‖ref‖; rounding leaves 1e-5, one step too few would be 6e-2

struct Options {
    std::string variant = "stream", json;
    long long kernels = 0, iterations = -1, streams = 8, blocks = 8, threads = 256, repetitions = 10, warmup = 3, seed = 1;
    bool tiny() const { return variant.rfind("tiny", 0) == 0; }
    bool graph() const { return variant == "graph" || variant == "tiny_graph"; }
};

Options parse(int argc, char** argv) {
    Options o;
    lab::Args args("Times many small kernels: on one stream, on several, as a CUDA graph; and a chain of tiny ones.");
    args.choice("--variant", &o.variant, {"stream", "streams", "graph", "tiny_stream", "tiny_graph"}, "how the kernels are launched");
    args.integer("--kernels", &o.kernels, 0, 100000, "kernels a repetition; 0: 240, and 1000 for the tiny variants");
    args.integer("--iterations", &o.iterations, -1, 100000000, "steps a kernel does; -1: 2400, and 4 for the tiny variants");
    args.integer("--streams", &o.streams, 1, 128, "streams of `streams`, branches of `graph`");
    args.integer("--blocks", &o.blocks, 1, 65535, "blocks a kernel");
    args.integer("--threads", &o.threads, 32, 1024, "threads a block");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured repetitions");
    args.integer("--warmup", &o.warmup, 0, 1000, "repetitions before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random start");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    if (o.kernels == 0) o.kernels = o.tiny() ? 1000 : 240;
    if (o.iterations < 0) o.iterations = o.tiny() ? 4 : 2400;
    if (o.variant == "stream" || o.tiny()) o.streams = 1;
    return o;
}

// The streams of a run, with the events that let several of them start and end together.
struct Streams {
    std::vector<cudaStream_t> all;
    lab::Event forked{false};
    std::vector<std::unique_ptr<lab::Event>> joined;

    explicit Streams(long long count) : all(static_cast<std::size_t>(count)) {
        for (cudaStream_t& stream : all) {
            LAB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
            joined.push_back(std::make_unique<lab::Event>(false));
        }
    }
    ~Streams() {
        for (cudaStream_t stream : all) cudaStreamDestroy(stream);
    }
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;

    cudaStream_t first() const { return all[0]; }
    void fork() const {  // the others start after what the first holds so far
        if (all.size() > 1) forked.record(all[0]);
        for (std::size_t i = 1; i < all.size(); ++i) forked.hold(all[i]);
    }
    void join() const {  // the first goes on after all the others
        for (std::size_t i = 1; i < all.size(); ++i) joined[i]->record(all[i]);
        for (std::size_t i = 1; i < all.size(); ++i) joined[i]->hold(all[0]);
    }
};

// One repetition: the independent kernels dealt out to the streams, or the chain on the only one.
void launch_all(const Options& o, const Streams& streams, float2* state) {
    const long long slice = o.blocks * o.threads;
    streams.fork();
    for (long long k = 0; k < o.kernels; ++k) {
        const cudaStream_t stream =
            streams.all[static_cast<std::size_t>(k % o.streams)];
        advance<<<static_cast<unsigned>(o.blocks), static_cast<unsigned>(o.threads),
                  0, stream>>>(
            state + (o.tiny() ? 0 : k * slice),
            static_cast<int>(o.iterations), kStepSize);
        LAB_LAUNCHED();
    }
    streams.join();
}

// The launches of one repetition as a graph: stream capture turns each launch into a node and the order into edges.
cudaGraphExec_t capture(const Options& o, const Streams& streams, float2* state) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    LAB_CUDA(cudaStreamBeginCapture(streams.first(),
                                    cudaStreamCaptureModeThreadLocal));
    launch_all(o, streams, state);
    LAB_CUDA(cudaStreamEndCapture(streams.first(), &graph));
    LAB_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    LAB_CUDA(cudaGraphDestroy(graph));
    LAB_CUDA(cudaGraphUpload(exec, streams.first()));
    LAB_CUDA(cudaStreamSynchronize(streams.first()));
    return exec;
}

// Largest error of the slices: each against the propagator's power for the number of steps it must have made.
double worst_error(const Options& o, const std::vector<float2>& before, const std::vector<float2>& after) {
    const long long launches_a_slice = (o.repetitions + o.warmup) * (o.tiny() ? o.kernels : 1);
    const lab::Propagator p =
        lab::propagator(static_cast<double>(kStepSize), static_cast<std::uint64_t>(launches_a_slice * o.iterations));
    const std::size_t slice = static_cast<std::size_t>(o.blocks * o.threads);
    double worst = 0;
    for (std::size_t start = 0; start < before.size(); start += slice) {
        double error = 0, size = 0;
        for (std::size_t i = start; i < start + slice; ++i) {
            const double x = p.xx * static_cast<double>(before[i].x) + p.xv * static_cast<double>(before[i].y);
            const double v = p.vx * static_cast<double>(before[i].x) + p.vv * static_cast<double>(before[i].y);
            error += std::pow(static_cast<double>(after[i].x) - x, 2) + std::pow(static_cast<double>(after[i].y) - v, 2);
            size += x * x + v * v;
        }
        const double relative = std::sqrt(error / size);
        if (std::isnan(relative)) return relative;
        worst = std::fmax(worst, relative);
    }
    return worst;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "kernel_overlap";
    const Options o = parse(argc, argv);
    const std::size_t oscillators = static_cast<std::size_t>((o.tiny() ? 1 : o.kernels) * o.blocks * o.threads);
    const std::size_t bytes = oscillators * sizeof(float2);
    const cudaDeviceProp gpu = lab::open_device(advance, bytes);

    std::vector<float2> before(oscillators), after(oscillators, make_float2(NAN, NAN));
    lab::Random random(static_cast<std::uint64_t>(o.seed));
    for (float2& oscillator : before) oscillator = make_float2(random.uniform(), random.uniform());
    float2* state = nullptr;
    LAB_CUDA(cudaMalloc(&state, bytes));
    LAB_CUDA(cudaMemcpy(state, before.data(), bytes, cudaMemcpyHostToDevice));
    LAB_CUDA(cudaDeviceSynchronize());  // from pageable memory it may return before the last bytes are there, and these streams wait for no other

    const Streams streams(o.streams);
    const double build_start = lab::host_us();
    const cudaGraphExec_t exec = o.graph() ? capture(o, streams, state) : nullptr;
    const double build_us = lab::host_us() - build_start;

    const lab::Event start, stop;
    std::vector<double> host_us, event_us, launch_us;
    const auto repeat = [&](bool measured) {
        const double begin = lab::host_us();
        start.record(streams.first());
        {
            const lab::Range range("launch");
            if (exec != nullptr) LAB_CUDA(cudaGraphLaunch(exec, streams.first()));
            else launch_all(o, streams, state);
        }
        stop.record(streams.first());
        const double launched = lab::host_us();
        {
            const lab::Range range("wait");
            LAB_CUDA(cudaStreamSynchronize(streams.first()));
        }
        const double end = lab::host_us();
        if (!measured) return;
        const double kernels = static_cast<double>(o.kernels);
        host_us.push_back((end - begin) / kernels);
        launch_us.push_back((launched - begin) / kernels);
        event_us.push_back(lab::elapsed_us(start, stop) / kernels);
    };
    for (long long r = 0; r < o.warmup; ++r) repeat(false);
    LAB_CUDA(cudaDeviceSynchronize());
    {
        const lab::Range measured(lab::kMeasured);
        for (long long r = 0; r < o.repetitions; ++r) {
            const lab::Range range("repetition " + std::to_string(r));
            repeat(true);
        }
        LAB_CUDA(cudaDeviceSynchronize());
    }

    LAB_CUDA(cudaMemcpy(after.data(), state, bytes, cudaMemcpyDeviceToHost));
    const double error = worst_error(o, before, after);
    if (exec != nullptr) LAB_CUDA(cudaGraphExecDestroy(exec));
    LAB_CUDA(cudaFree(state));

    lab::Record record{"kernel_overlap", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("kernels", o.kernels).add("iterations", o.iterations).add("streams", o.streams);
    record.parameters.add("blocks", o.blocks).add("threads", o.threads).add("repetitions", o.repetitions);
    record.parameters.add("warmup", o.warmup).add("seed", o.seed);
    lab::add_spread(record.results, "host_per_kernel", "us", host_us);
    lab::add_spread(record.results, "event_per_kernel", "us", event_us);
    lab::add_spread(record.results, "launch_per_kernel", "us", launch_us);
    record.results.add("flop_per_kernel", lab::kFlopsPerStep * static_cast<double>(o.iterations * o.blocks * o.threads));
    if (o.graph()) record.results.add("graph_build_us", build_us);
    char detail[120];
    std::snprintf(detail, sizeof detail, "largest relative error of a slice %.2e, allowed %.0e", error, kTolerance);
    record.check("state_matches_host", error <= kTolerance, detail);

    std::printf("%s: %s, %lld kernels on %lld stream%s, %lld repetitions\n", gpu.name, o.variant.c_str(), o.kernels, o.streams,
                o.streams == 1 ? "" : "s", o.repetitions);
    std::printf("  us a kernel    median      q1      q3\n");
    const auto row = [](const char* name, const std::vector<double>& us) {
        std::printf("  %-12s %8.3f %7.3f %7.3f\n", name, lab::median(us), lab::quantile(us, 0.25), lab::quantile(us, 0.75));
    };
    row("host clock", host_us);
    row("CUDA events", event_us);
    row("launching", launch_us);
    std::printf("  check: %s\n", detail);
    return record.finish(o.json);
}
