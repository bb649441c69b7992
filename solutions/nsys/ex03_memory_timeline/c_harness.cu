// Measures nsys-ex03c: the learner's file (-DLEARNERS_FILE) in, a record of correctness and times out.
// SPDX-License-Identifier: Apache-2.0
//
//     c_harness RECORD.json SEED
//
// Before each run `host_out` and `device_out` hold NaN and `device_in` a huge number, so that what was not copied, not
// computed, or computed too early shows.

#include LEARNERS_FILE

#include "measure.cuh"

namespace {

constexpr float kLargestStep = 0.0625f;
constexpr float kPoison = 1e30f;
constexpr double kTolerance = 2e-3;
constexpr std::size_t kSamples = 20000;
constexpr double kBalance = 1.15;  // kernel time wanted, as a multiple of the copy in

struct Buffers {
    lab::Array<float> in, out, device_in, device_out;
    explicit Buffers(std::size_t count, lab::Random& random)
        : in(count, false), out(count, false), device_in(count, true), device_out(count, true) {
        for (std::size_t i = 0; i < count; ++i) in[i] = kLargestStep * random.uniform();
    }
    Job job(int steps) const { return {in.get(), out.get(), device_in.get(), device_out.get(), in.size(), steps}; }
};

// The baseline's kernel: the starter's, in a copy that the learner's file cannot change.
__global__ void follow_all(const float* in, float* out, std::size_t count, int steps) {
    const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const float s = in[i];
    float x = 1, v = 0;
    for (int k = 0; k < steps; ++k) lab::oscillator_step(x, v, s);
    out[i] = x;
}

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>((count + 255) / 256); }

__global__ void fill(float* array, std::size_t count, float value) {
    const std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) array[i] = value;
}

void poison(const Buffers& b) {
    const unsigned blocks = blocks_for(b.in.size());
    std::fill(b.out.get(), b.out.get() + b.out.size(), NAN);
    fill<<<blocks, 256>>>(b.device_in.get(), b.in.size(), kPoison);
    fill<<<blocks, 256>>>(b.device_out.get(), b.in.size(), NAN);
    LAB_LAUNCHED();
    LAB_CUDA(cudaDeviceSynchronize());
}

// What is wrong with the results; empty when nothing is. All elements are looked at, some are recomputed.
std::string complaint(const Buffers& b, int steps, lab::Random& random) {
    const std::size_t count = b.in.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (std::isnan(b.out[i])) {
            return "element " + std::to_string(i) + " was not written when run() returned: is every chunk copied back, the last "
                   "one too, and waited for?";
        }
    }
    for (std::size_t sample = 0; sample < std::min(count, kSamples); ++sample) {
        const std::size_t i = count <= kSamples ? sample : static_cast<std::size_t>(random.bits() % count);
        const double expected = lab::propagator(static_cast<double>(b.in[i]), static_cast<std::uint64_t>(steps)).xx;
        if (!(std::fabs(static_cast<double>(b.out[i]) - expected) <= kTolerance)) {
            return "element " + std::to_string(i) + " is wrong: a chunk was computed before it had arrived, or from the wrong place";
        }
    }
    return "";
}

void check(const std::string& record, std::size_t count, int steps, lab::Random& random) {
    const Buffers buffers(count, random);
    Plan* plan = prepare(buffers.job(steps));
    for (int turn = 0; turn < 2; ++turn) {
        for (std::size_t i = 0; i < count; ++i) buffers.in[i] = kLargestStep * random.uniform();
        poison(buffers);
        run(plan);
        const std::string text = complaint(buffers, steps, random);
        const std::string which = turn ? ", second run: " : ": ";
        if (!text.empty()) lab::wrong(record, std::to_string(count) + " elements, " + std::to_string(steps) + " steps" + which + text);
        LAB_CUDA(cudaDeviceSynchronize());
    }
    release(plan);
}

double fastest(const std::function<double()>& run_once) {
    double best = run_once();
    for (int i = 0; i < 4; ++i) best = std::min(best, run_once());
    return best;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "measurement";
    if (argc != 3) lab::fail("usage: pipeline RECORD.json SEED");
    const std::string record = argv[1];
    lab::Random random(std::strtoull(argv[2], nullptr, 10));
    const auto some = [&](unsigned most) { return 1 + static_cast<std::size_t>(random.bits() % most); };
    check(record, 1, 10, random);
    check(record, some(40), 20, random);
    check(record, 1000, 50, random);
    check(record, 4096 + some(4000), 300, random);
    check(record, (std::size_t{1} << 20) + some(100000), 100, random);
    check(record, (std::size_t{1} << 24) + 1, 200, random);

    const Buffers buffers(std::size_t{1} << 26, random);
    const Job job = buffers.job(1);
    cudaStream_t stream = nullptr;
    LAB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto timed = [&](const std::function<void()>& work) {
        const double begin = lab::host_us();
        work();
        LAB_CUDA(cudaStreamSynchronize(stream));
        return lab::host_us() - begin;
    };
    const std::size_t bytes = job.count * sizeof(float);
    const auto copy_in = [&] { LAB_CUDA(cudaMemcpyAsync(job.device_in, job.host_in, bytes, cudaMemcpyHostToDevice, stream)); };
    const auto copy_out = [&] { LAB_CUDA(cudaMemcpyAsync(job.host_out, job.device_out, bytes, cudaMemcpyDeviceToHost, stream)); };
    const auto compute = [&](int steps) {
        follow_all<<<blocks_for(job.count), 256, 0, stream>>>(job.device_in, job.device_out, job.count, steps);
        LAB_LAUNCHED();
    };
    const double h2d = fastest([&] { return timed(copy_in); });
    const double target = kBalance * h2d;
    int steps = 1000;
    for (int turn = 0; turn < 3; ++turn) {
        const double took = fastest([&] { return timed([&] { compute(steps); }); });
        steps = std::max(1, static_cast<int>(steps * target / took));
    }
    const double kernel = fastest([&] { return timed([&] { compute(steps); }); });
    const double d2h = fastest([&] { return timed(copy_out); });

    Plan* plan = prepare(buffers.job(steps));
    double baseline = 0, learner = 0;
    const auto serial = [&] {
        copy_in();
        compute(steps);
        copy_out();
    };
    lab::alternate([&] { return timed(serial); }, [&] { return timed([&] { run(plan); }); }, 10, baseline, learner);
    poison(buffers);
    run(plan);
    const std::string text = complaint(buffers, steps, random);
    if (!text.empty()) lab::wrong(record, std::to_string(job.count) + " elements: " + text);
    release(plan);
    lab::JsonObject out;
    out.add("h2d_us", h2d).add("kernel_us", kernel).add("d2h_us", d2h).add("baseline_us", baseline).add("learner_us", learner);
    lab::write(record, out.add("steps", steps));
    return 0;
}
