// Measures nsys-ex02c: the learner's file (-DLEARNERS_FILE) in, a record of correctness and times out.
// SPDX-License-Identifier: Apache-2.0
//
//     c_harness RECORD.json SEED
//
// Each job runs twice on a stream with other work around it. Before, `in` holds a huge number and `out` NaN; the true
// input arrives on the stream after some delay. So a kernel that did not wait for the stream computes from the huge number,
// and one that the stream did not wait for leaves NaN in the copy of the results.

#include LEARNERS_FILE

#include "measure.cuh"

namespace {

constexpr float kPoison = 1e30f, kStep = 0.0625f;
constexpr double kTolerance = 1e-3;

struct Shape {
    int slices, slice_size, steps;
};

// The baseline: the starter's kernel and loop, in a copy that the learner's file cannot change.
__global__ void advance_slice(const float2* in, float2* out, int count, int steps) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= count) return;
    float x = in[i].x, v = in[i].y;
    for (int k = 0; k < steps; ++k) lab::oscillator_step(x, v, kStep);
    out[i] = make_float2(x, v);
}

void one_stream(const Job& job, cudaStream_t stream) {
    for (int slice = 0; slice < job.slices; ++slice) {
        const std::size_t begin = static_cast<std::size_t>(slice) * static_cast<std::size_t>(job.slice_size);
        advance_slice<<<(job.slice_size + 255) / 256, 256, 0, stream>>>(job.in + begin, job.out + begin, job.slice_size, job.steps);
        LAB_LAUNCHED();
    }
}

std::string describe(const Shape& s) {
    char text[100];
    std::snprintf(text, sizeof text, "%d slices of %d oscillators, %d steps", s.slices, s.slice_size, s.steps);
    return text;
}

// What is wrong with the results of a run; empty when nothing is.
std::string complaint(const Shape& s, const lab::Array<float2>& in, const lab::Array<float2>& out) {
    const lab::Propagator p = lab::propagator(static_cast<double>(kStep), static_cast<std::uint64_t>(s.steps));
    for (std::size_t i = 0; i < in.size(); ++i) {
        const float2 got = out[i];
        const std::string where = "slice " + std::to_string(i / static_cast<std::size_t>(s.slice_size)) + ": ";
        if (std::isnan(got.x) || std::isnan(got.y)) {
            return where + "results are missing when `main` goes on: `main` must wait for every stream (join)";
        }
        if (std::fabs(got.x) > 1e10f || std::fabs(got.y) > 1e10f) {
            return where + "a kernel read its input before it was there: the streams must wait for `main` (fork)";
        }
        const double x = p.xx * static_cast<double>(in[i].x) + p.xv * static_cast<double>(in[i].y);
        const double v = p.vx * static_cast<double>(in[i].x) + p.vv * static_cast<double>(in[i].y);
        if (std::fabs(static_cast<double>(got.x) - x) > kTolerance || std::fabs(static_cast<double>(got.y) - v) > kTolerance) {
            return where + "wrong values: is every slice advanced once, from `in` to `out`, by `steps`?";
        }
    }
    return "";
}

void check(const std::string& record, const Shape& s, lab::Random& random) {
    const std::size_t count = static_cast<std::size_t>(s.slices) * static_cast<std::size_t>(s.slice_size);
    const lab::Array<float2> in(count, false), out(count, false), poison(count, false), device_in(count, true), device_out(count, true);
    cudaStream_t main = nullptr;
    LAB_CUDA(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
    Plan* plan = prepare(Job{device_in.get(), device_out.get(), s.slices, s.slice_size, s.steps});
    for (std::size_t i = 0; i < count; ++i) poison[i] = make_float2(kPoison, kPoison);
    for (int turn = 0; turn < 2; ++turn) {
        for (std::size_t i = 0; i < count; ++i) in[i] = make_float2(random.uniform(), random.uniform());
        LAB_CUDA(cudaMemcpy(device_in.get(), poison.get(), count * sizeof(float2), cudaMemcpyHostToDevice));
        LAB_CUDA(cudaMemset(device_out.get(), 0xff, count * sizeof(float2)));  // every float a NaN
        LAB_CUDA(cudaDeviceSynchronize());
        lab::linger<<<1, 1, 0, main>>>(lab::kAWhile);
        LAB_LAUNCHED();
        LAB_CUDA(cudaMemcpyAsync(device_in.get(), in.get(), count * sizeof(float2), cudaMemcpyHostToDevice, main));
        run(plan, main);
        LAB_CUDA(cudaMemcpyAsync(out.get(), device_out.get(), count * sizeof(float2), cudaMemcpyDeviceToHost, main));
        LAB_CUDA(cudaStreamSynchronize(main));
        const std::string text = complaint(s, in, out);
        if (!text.empty()) lab::wrong(record, describe(s) + (turn ? ", second run: " : ": ") + text);
        LAB_CUDA(cudaDeviceSynchronize());
    }
    release(plan);
    LAB_CUDA(cudaStreamDestroy(main));
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "measurement";
    if (argc != 3) lab::fail("usage: overlap RECORD.json SEED");
    const std::string record = argv[1];
    lab::Random random(std::strtoull(argv[2], nullptr, 10));
    const auto some = [&](int most) { return 1 + static_cast<int>(random.bits() % static_cast<unsigned>(most)); };
    check(record, {1, 64, 10}, random);
    check(record, {7, 1000, some(300)}, random);
    check(record, {some(60), 2048, 2000}, random);
    check(record, {some(300), some(3000), some(200)}, random);
    check(record, {some(20), 1, some(50)}, random);

    const Shape s{240, 2048, 2400};
    const std::size_t count = static_cast<std::size_t>(s.slices) * static_cast<std::size_t>(s.slice_size);
    const lab::Array<float2> in(count, false), device_in(count, true), device_out(count, true);
    for (std::size_t i = 0; i < count; ++i) in[i] = make_float2(random.uniform(), random.uniform());
    LAB_CUDA(cudaMemcpy(device_in.get(), in.get(), in.bytes(), cudaMemcpyHostToDevice));
    const Job job{device_in.get(), device_out.get(), s.slices, s.slice_size, s.steps};
    cudaStream_t main = nullptr;
    LAB_CUDA(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
    Plan* plan = prepare(job);
    const auto timed = [&](const std::function<void()>& work) {
        const double begin = lab::host_us();
        work();
        LAB_CUDA(cudaStreamSynchronize(main));
        LAB_CUDA(cudaDeviceSynchronize());
        return lab::host_us() - begin;
    };
    double baseline = 0, learner = 0;
    lab::alternate([&] { return timed([&] { one_stream(job, main); }); }, [&] { return timed([&] { run(plan, main); }); }, 20,
                   baseline, learner);
    release(plan);
    lab::JsonObject out;
    out.add("baseline_us", baseline).add("learner_us", learner).add("kernels", s.slices);
    lab::write(record, out);
    return 0;
}
