// Copy in, compute, copy out: pageable, pinned, pipelined in chunks. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// The work: an array of oscillator frequencies lies on the host; the GPU follows each oscillator for some steps and the
// results go back to the host.
//   pageable   ordinary memory: the driver copies it piece by piece through a pinned buffer of its own
//   pinned     page-locked memory: the copy engine reads and writes it directly
//   pipelined  pinned, cut into chunks: while chunk c is computed, chunk c + 1 comes in and chunk c − 1 goes out
// A GPU has a copy engine for each direction beside its multiprocessors, so that three things can go on at once and the
// whole takes little more than its longest stage. What is left over: the first chunk's way in and the last one's way out
// (less with more chunks), starting each chunk's three operations (more with more chunks), and what the two directions
// take from each other on their way through the bus and the host's memory.
//
// Two ways to issue the chunks:
//   engines  one stream a stage, events from stage to stage. Each stage runs in order and never waits for anything but the
//            chunk it needs; a timeline shows one row a stage. But kernels of different chunks never run together, so that each
//            chunk ends with multiprocessors that have run out of blocks, and a gap until the next chunk's kernel starts.
//   rotate   chunk c on stream c mod S, its three operations one after another. Needs no events, but a chunk cannot come
//            in before the chunk S earlier on its stream has gone out: S must cover a chunk's whole way through (S ≥ 3
//            when the stages take equally long, one or two more for slack). The next chunk's kernel is on another stream and fills
//            the multiprocessors that this chunk's last blocks leave empty. The default, since it measured faster.
// The host issues a chunk's three operations before the next chunk's in both. Since GPUs have had several hardware queues
// (compute capability 3.5), that order no longer holds back the other streams.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
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

// out[i] = where an oscillator of frequency in[i], started at 1, is after `steps` steps; four of them a thread.
__global__ void follow(const float4* __restrict__ frequencies, float4* __restrict__ out, unsigned quads, int steps) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    const float4 s = frequencies[i];
    float4 x = make_float4(1, 1, 1, 1), v = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int k = 0; k < steps; ++k) {
        lab::oscillator_step(x.x, v.x, s.x);
        lab::oscillator_step(x.y, v.y, s.y);
        lab::oscillator_step(x.z, v.z, s.z);
        lab::oscillator_step(x.w, v.w, s.w);
    }
    out[i] = x;
}

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kQuad = 4;              // elements a thread; chunks are cut at multiples of it
constexpr float kLargestStep = 0.0625f;       // frequencies are uniform in ± this
constexpr double kTolerance = 1e-4;           // ‖out − ref‖ / ‖ref‖ of the samples
constexpr double kLargestDifference = 1e-3;   // of one sample
constexpr std::size_t kSamples = 20000;

struct Options {
    std::string variant = "pinned", schedule = "rotate", json;
    long long mebibytes = 256, chunks = 32, streams = 5, iterations = 0, repetitions = 3, warmup = 2, seed = 1;
    double balance = 1.15;
    bool pinned() const { return variant != "pageable"; }
};

Options parse(int argc, char** argv) {
    Options o;
    lab::Args args("Times host to GPU, kernel, GPU to host: from pageable memory, from pinned memory, pipelined in chunks.");
    args.choice("--variant", &o.variant, {"pageable", "pinned", "pipelined"}, "how the data travels");
    args.integer("--mebibytes", &o.mebibytes, 1, 16384, "size of the array, in MiB of fp32");
    args.integer("--chunks", &o.chunks, 1, 4096, "chunks of `pipelined`");
    args.choice("--schedule", &o.schedule, {"rotate", "engines"}, "`pipelined`: chunks around --streams streams, or a stream a stage");
    args.integer("--streams", &o.streams, 1, 64, "streams of `--schedule rotate`");
    args.integer("--iterations", &o.iterations, 0, 10000000, "steps a kernel does; 0: as many as --balance asks for");
    args.real("--balance", &o.balance, 0.01, 1000, "kernel time wanted, as a multiple of the pinned copy in");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured repetitions");
    args.integer("--warmup", &o.warmup, 1, 1000, "repetitions before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the random frequencies");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    return o;
}

// Host memory of `count` floats, pinned or not, freed with its owner.
using HostArray = std::unique_ptr<float[], void (*)(float*)>;
HostArray host_array(std::size_t count, bool pinned) {
    const std::size_t bytes = count * sizeof(float);
    if (!pinned) {
        float* memory = static_cast<float*>(std::malloc(bytes));
        if (memory == nullptr) lab::fail("no %zu MiB of host memory; choose a smaller --mebibytes", bytes >> 20);
        return {memory, [](float* p) { std::free(p); }};
    }
    float* memory = nullptr;
    if (cudaMallocHost(&memory, bytes) != cudaSuccess) {
        lab::fail("no %zu MiB of host memory to pin; choose a smaller --mebibytes", bytes >> 20);
    }
    return {memory, [](float* p) { cudaFreeHost(p); }};
}

// What a repetition works on: the host's and the GPU's arrays, `count` elements each.
struct Data {
    const float* in;
    float* out;
    float *device_in, *device_out;
    std::size_t count;
};

void copy_in(const Data& d, std::size_t begin, std::size_t end, cudaStream_t stream) {
    LAB_CUDA(cudaMemcpyAsync(d.device_in + begin, d.in + begin, (end - begin) * sizeof(float), cudaMemcpyHostToDevice, stream));
}

void compute(const Data& d, std::size_t begin, std::size_t end, int steps, cudaStream_t stream) {
    const unsigned quads = static_cast<unsigned>((end - begin) / kQuad);
    follow<<<(quads + kThreads - 1) / kThreads, kThreads, 0, stream>>>(
        reinterpret_cast<const float4*>(d.device_in + begin), reinterpret_cast<float4*>(d.device_out + begin), quads, steps);
    LAB_LAUNCHED();
}

void copy_out(const Data& d, std::size_t begin, std::size_t end, cudaStream_t stream) {
    LAB_CUDA(cudaMemcpyAsync(d.out + begin, d.device_out + begin, (end - begin) * sizeof(float), cudaMemcpyDeviceToHost, stream));
}

// The streams and events of a run. timing: before, after the copy in, after the kernel, after all.
struct Lanes {
    std::vector<cudaStream_t> streams;
    lab::Event timing[4];
    std::vector<std::unique_ptr<lab::Event>> arrived, computed;

    Lanes(std::size_t count, std::size_t chunks) : streams(count) {
        for (cudaStream_t& stream : streams) LAB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (std::size_t c = 0; c < chunks; ++c) {
            arrived.push_back(std::make_unique<lab::Event>(false));
            computed.push_back(std::make_unique<lab::Event>(false));
        }
    }
    ~Lanes() {
        for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
    }
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;
};

// Times of one repetition, in microseconds. The stages' own times only where they run one after another.
struct Times {
    double total, h2d, kernel, d2h;
};

// One stage after another on one stream.
Times run_serial(const Data& d, int steps, const Lanes& lanes) {
    const cudaStream_t stream = lanes.streams[0];
    const double begin = lab::host_us();
    lanes.timing[0].record(stream);
    {
        const lab::Range range("copy in");
        copy_in(d, 0, d.count, stream);
    }
    lanes.timing[1].record(stream);
    {
        const lab::Range range("kernel");
        compute(d, 0, d.count, steps, stream);
    }
    lanes.timing[2].record(stream);
    {
        const lab::Range range("copy out");
        copy_out(d, 0, d.count, stream);
    }
    lanes.timing[3].record(stream);
    {
        const lab::Range range("wait");
        LAB_CUDA(cudaStreamSynchronize(stream));
    }
    const double total = lab::host_us() - begin;
    return {total,
            lab::elapsed_us(lanes.timing[0], lanes.timing[1]),
            lab::elapsed_us(lanes.timing[1], lanes.timing[2]),
            lab::elapsed_us(lanes.timing[2], lanes.timing[3])};
}

// Chunks, so that the three stages of different chunks run at the same time. bounds: where each chunk begins, and the end.
double run_pipelined(const Data& d, int steps, const Lanes& lanes,
                     const std::vector<std::size_t>& bounds, bool engines) {
    const std::vector<cudaStream_t>& s = lanes.streams;
    const double start = lab::host_us();
    {
        const lab::Range range("launch");
        for (std::size_t c = 0; c + 1 < bounds.size(); ++c) {
            const std::size_t begin = bounds[c], end = bounds[c + 1];
            if (engines) {
                copy_in(d, begin, end, s[0]);
                lanes.arrived[c]->record(s[0]);
                lanes.arrived[c]->hold(s[1]);
                compute(d, begin, end, steps, s[1]);
                lanes.computed[c]->record(s[1]);
                lanes.computed[c]->hold(s[2]);
                copy_out(d, begin, end, s[2]);
            } else {
                const cudaStream_t stream = s[c % s.size()];
                copy_in(d, begin, end, stream);
                compute(d, begin, end, steps, stream);
                copy_out(d, begin, end, stream);
            }
        }
    }
    {
        const lab::Range range("wait");
        for (const cudaStream_t stream : s) LAB_CUDA(cudaStreamSynchronize(stream));
    }
    return lab::host_us() - start;
}

double fastest_of(int times, const std::function<double()>& run) {
    double best = run();
    for (int i = 1; i < times; ++i) best = std::min(best, run());
    return best;
}

// Steps for which the kernel takes `target_us`: two lengths give a straight line, a third run corrects it.
int calibrate(const Data& d, const Lanes& lanes, double target_us) {
    const auto kernel_us = [&](int steps) {
        return fastest_of(3, [&] {
            lanes.timing[0].record(lanes.streams[0]);
            compute(d, 0, d.count, steps, lanes.streams[0]);
            lanes.timing[1].record(lanes.streams[0]);
            LAB_CUDA(cudaStreamSynchronize(lanes.streams[0]));
            return lab::elapsed_us(lanes.timing[0], lanes.timing[1]);
        });
    };
    constexpr int kShort = 256, kLong = 1024, kGranule = 8;
    for (const double until = lab::host_us() + 1e5; lab::host_us() < until;) kernel_us(kLong);  // let the clocks come up
    const double slope = (kernel_us(kLong) - kernel_us(kShort)) / (kLong - kShort);
    double steps = kLong + (target_us - kernel_us(kLong)) / slope;
    const auto rounded = [&] { return kGranule * std::max(1, static_cast<int>(std::lround(std::min(steps, 1e7) / kGranule))); };
    steps += (target_us - kernel_us(rounded())) / slope;
    return rounded();
}

struct Verdict {
    bool passed;
    std::string detail;
};

// Every element was written; samples and both sides of every chunk boundary agree with the host's own reckoning.
Verdict verify(const Data& d, int steps, const std::vector<std::size_t>& bounds, std::uint64_t seed) {
    const std::size_t unwritten = static_cast<std::size_t>(std::count_if(d.out, d.out + d.count, [](float x) { return std::isnan(x); }));
    std::vector<std::size_t> places;
    for (const std::size_t bound : bounds) {
        if (bound > 0) places.push_back(bound - 1);
        if (bound < d.count) places.push_back(bound);
    }
    lab::Random random(seed ^ 0x5eedULL);
    while (places.size() < kSamples) places.push_back(static_cast<std::size_t>(random.bits() % d.count));
    double error = 0, size = 0, worst = 0;
    for (const std::size_t i : places) {
        const double expected = lab::propagator(static_cast<double>(d.in[i]), static_cast<std::uint64_t>(steps)).xx;
        const double difference = std::fabs(static_cast<double>(d.out[i]) - expected);
        error += difference * difference;
        size += expected * expected;
        worst = std::fmax(worst, difference);
    }
    const double relative = std::sqrt(error / size);
    char detail[200];
    std::snprintf(detail, sizeof detail, "%zu elements unwritten; %zu samples: relative error %.2e (allowed %.0e), largest %.2e (allowed %.0e)",
                  unwritten, places.size(), relative, kTolerance, worst, kLargestDifference);
    return {unwritten == 0 && relative <= kTolerance && worst <= kLargestDifference, detail};
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "memory_timeline";
    Options o = parse(argc, argv);
    const std::size_t count = (static_cast<std::size_t>(o.mebibytes) << 20) / sizeof(float), bytes = count * sizeof(float);
    const bool pipelined = o.variant == "pipelined", engines = o.schedule == "engines";
    const std::size_t chunks = pipelined ? static_cast<std::size_t>(o.chunks) : 1;
    const std::size_t stream_count = !pipelined ? 1 : engines ? 3 : static_cast<std::size_t>(o.streams);
    const cudaDeviceProp gpu = lab::open_device(follow, 2 * bytes);

    float *device_in = nullptr, *device_out = nullptr;
    LAB_CUDA(cudaMalloc(&device_in, bytes));
    LAB_CUDA(cudaMalloc(&device_out, bytes));
    const HostArray in = host_array(count, o.pinned()), out = host_array(count, o.pinned());
    lab::Random random(static_cast<std::uint64_t>(o.seed));
    std::generate(in.get(), in.get() + count, [&] { return kLargestStep * random.uniform(); });
    std::fill(out.get(), out.get() + count, NAN);
    const Data data{in.get(), out.get(), device_in, device_out, count};
    std::vector<std::size_t> bounds;
    for (std::size_t c = 0; c <= chunks; ++c) bounds.push_back(count / kQuad * c / chunks * kQuad);

    // Each stage alone, from pinned memory and in one piece; it sets the kernel's length and is what the total is held against.
    const Lanes lanes(stream_count, chunks);
    int steps = static_cast<int>(o.iterations);
    Times alone{};
    {
        const HostArray own_in = o.pinned() ? HostArray{nullptr, [](float*) {}} : host_array(count, true);
        const HostArray own_out = o.pinned() ? HostArray{nullptr, [](float*) {}} : host_array(count, true);
        Data staged = data;
        if (own_in) {
            std::copy(in.get(), in.get() + count, own_in.get());
            std::fill(own_out.get(), own_out.get() + count, NAN);
            staged.in = own_in.get();
            staged.out = own_out.get();
        }
        run_serial(staged, 1, lanes);
        if (steps == 0) {
            steps = calibrate(staged, lanes, o.balance * fastest_of(5, [&] { return run_serial(staged, 1, lanes).h2d; }));
        }
        std::vector<double> h2d, kernel, d2h;
        for (int i = 0; i < 5; ++i) {
            const Times times = run_serial(staged, steps, lanes);
            h2d.push_back(times.h2d);
            kernel.push_back(times.kernel);
            d2h.push_back(times.d2h);
        }
        alone = {0, lab::median(h2d), lab::median(kernel), lab::median(d2h)};
    }

    std::vector<double> total, h2d, kernel, d2h;
    const auto repeat = [&](bool measured) {
        Times times{};
        if (pipelined) times.total = run_pipelined(data, steps, lanes, bounds, engines);
        else times = run_serial(data, steps, lanes);
        if (!measured) return;
        total.push_back(times.total);
        h2d.push_back(times.h2d);
        kernel.push_back(times.kernel);
        d2h.push_back(times.d2h);
    };
    for (long long r = 0; r < o.warmup; ++r) repeat(false);
    std::fill(out.get(), out.get() + count, NAN);                        // poison what the measured repetitions must write
    LAB_CUDA(cudaMemset(device_out, 0xff, bytes));
    LAB_CUDA(cudaDeviceSynchronize());
    {
        const lab::Range measured(lab::kMeasured);
        for (long long r = 0; r < o.repetitions; ++r) {
            const lab::Range range("repetition " + std::to_string(r));
            repeat(true);
        }
        LAB_CUDA(cudaDeviceSynchronize());
    }
    const Verdict verdict = verify(data, steps, bounds, static_cast<std::uint64_t>(o.seed));
    LAB_CUDA(cudaFree(device_in));
    LAB_CUDA(cudaFree(device_out));

    const double longest = std::max({alone.h2d, alone.kernel, alone.d2h}), ratio = lab::median(total) / longest;
    lab::Record record{"memory_timeline", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("mebibytes", o.mebibytes).add("iterations", steps).add("balance", o.balance);
    record.parameters.add("calibrated", o.iterations == 0).add("chunks", chunks).add("schedule", pipelined ? o.schedule : "serial");
    record.parameters.add("streams", stream_count).add("repetitions", o.repetitions).add("warmup", o.warmup).add("seed", o.seed);
    lab::add_spread(record.results, "total", "us", total);
    if (!pipelined) {
        lab::add_spread(record.results, "h2d", "us", h2d);
        lab::add_spread(record.results, "kernel", "us", kernel);
        lab::add_spread(record.results, "d2h", "us", d2h);
    }
    record.results.add("alone_h2d_us", alone.h2d).add("alone_kernel_us", alone.kernel).add("alone_d2h_us", alone.d2h);
    record.results.add("longest_stage_us", longest).add("total_over_longest_stage_ratio", ratio);
    record.results.add("bytes_each_way", bytes).add("flop", lab::kFlopsPerStep * static_cast<double>(steps) * static_cast<double>(count));
    record.check("output_matches_host", verdict.passed, verdict.detail);

    std::printf("%s: %s, %lld MiB each way, %d steps an element, %zu chunk%s on %zu stream%s\n", gpu.name, o.variant.c_str(), o.mebibytes,
                steps, chunks, chunks == 1 ? "" : "s", stream_count, stream_count == 1 ? "" : "s");
    const auto gbps = [&](double us) { return static_cast<double>(bytes) / us / 1e3; };
    std::printf("  stage        alone ms   GB/s    here ms   GB/s\n");
    const auto row = [&](const char* name, double once, const std::vector<double>& here, bool copy) {
        std::printf("  %-10s %10.3f", name, once / 1e3);
        copy ? std::printf(" %6.1f", gbps(once)) : std::printf("       ");
        if (!pipelined) std::printf(" %10.3f", lab::median(here) / 1e3);
        if (!pipelined && copy) std::printf(" %6.1f", gbps(lab::median(here)));
        std::printf("\n");
    };
    row("copy in", alone.h2d, h2d, true);
    row("kernel", alone.kernel, kernel, false);
    row("copy out", alone.d2h, d2h, true);
    std::printf("  total %.3f ms = %.3f x the longest stage alone\n  check: %s\n", lab::median(total) / 1e3, ratio, verdict.detail.c_str());
    return record.finish(o.json);
}
