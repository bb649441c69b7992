// Grading a kernel: a learner's function beside the baseline; results on shapes and values nobody has seen, then both times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "args.hpp"
#include "measure.cuh"
#include "profiled.hpp"

namespace lab {

struct Shape {
    int rows, columns;
};

using At = std::function<double(std::size_t)>;  // an element of the input

// What an exercise is. expected: output i, and the size that its error is held against.
struct KernelTask {
    std::vector<Shape> shapes;
    Shape timed;
    std::size_t (*inputs)(Shape);
    std::size_t (*outputs)(Shape);
    void (*expected)(const At& in, Shape s, std::size_t i, double& value, double& scale);
    void (*learner)(const float* in, float* out, Shape s, cudaStream_t stream);
    void (*baseline)(const float* in, float* out, Shape s, cudaStream_t stream);
    double tolerance;
    std::string (*describe)(Shape s);
};

constexpr std::size_t kGuard = 64;                       // floats before and behind the output that must stay as they are
constexpr std::size_t kRepeated = std::size_t{1} << 20;  // random floats that a large input repeats
constexpr std::size_t kLooked = 1500;                    // outputs that are computed again on the host

inline float normal_value(Random& random) {
    const auto unit = [&] { return (static_cast<double>(random.bits() >> 11) + 0.5) * 0x1p-53; };
    const double radius = std::sqrt(-2 * std::log(unit()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * unit()));
}

// What is wrong with the outputs; empty when nothing is.
inline std::string complaint(const KernelTask& task, Shape s, const At& in, const std::vector<float>& out, std::size_t looked, Random& random) {
    const auto missing = std::find_if(out.begin(), out.end(), [](float x) { return std::isnan(x); });
    if (missing != out.end()) {
        return "output " + std::to_string(missing - out.begin()) + " of " + std::to_string(out.size()) +
               " was not written (or is NaN): is the grid large enough, and all put on the stream that was given?";
    }
    for (std::size_t k = 0; k < std::min(looked, out.size()); ++k) {
        std::size_t i = k;  // all of a short output; of a long one the ends and some in between
        if (out.size() > looked && k > 0) i = k == 1 ? out.size() - 1 : static_cast<std::size_t>(random.bits() % out.size());
        double value = 0, scale = 0;
        task.expected(in, s, i, value, scale);
        const double error = std::fabs(static_cast<double>(out[i]) - value);
        if (!(error <= task.tolerance * scale)) {
            char text[160];
            std::snprintf(text, sizeof text, "output %zu of %zu is %.7g instead of %.7g", i, out.size(), static_cast<double>(out[i]), value);
            return text;
        }
    }
    return "";
}

// One shape: run twice on new values, from a late and poisoned input, to a poisoned output with guards around it.
inline void check(const std::string& record, const KernelTask& task, Shape s, std::size_t offset, double factor, Random& random) {
    const std::size_t ins = task.inputs(s), outs = task.outputs(s), room = outs + offset + 2 * kGuard;
    const Array<float> host(ins, false), in(ins + offset, true), out(room, true);
    std::vector<float> all(room), values(outs), after(ins);
    cudaStream_t stream = nullptr;
    LAB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    float *const from = in.get() + offset, *const to = out.get() + kGuard + offset;
    const auto say = [&](int turn, const std::string& text) {
        std::string where = task.describe(s);
        if (offset > 0) where += ", arrays that start " + std::to_string(offset * sizeof(float)) + " bytes late";
        if (factor != 1) where += ", values around " + std::to_string(static_cast<long long>(factor));
        wrong(record, where + (turn ? ", second run: " : ": ") + text);
    };
    for (int turn = 0; turn < 2; ++turn) {
        for (std::size_t i = 0; i < ins; ++i) host[i] = static_cast<float>(factor) * normal_value(random);
        LAB_CUDA(cudaMemset(in.get(), 0xff, in.bytes()));
        LAB_CUDA(cudaMemset(out.get(), 0xff, out.bytes()));  // every float a NaN
        LAB_CUDA(cudaDeviceSynchronize());
        linger<<<1, 1, 0, stream>>>(kAWhile);
        LAB_LAUNCHED();
        LAB_CUDA(cudaMemcpyAsync(from, host.get(), ins * sizeof(float), cudaMemcpyHostToDevice, stream));
        task.learner(from, to, s, stream);
        LAB_LAUNCHED();
        LAB_CUDA(cudaStreamSynchronize(stream));
        LAB_CUDA(cudaMemcpy(all.data(), out.get(), out.bytes(), cudaMemcpyDeviceToHost));
        LAB_CUDA(cudaMemcpy(after.data(), from, ins * sizeof(float), cudaMemcpyDeviceToHost));
        const auto touched = [&](std::size_t i) {
            std::uint32_t bits;
            std::memcpy(&bits, &all[i], sizeof bits);
            return bits != 0xffffffffu;
        };
        for (std::size_t i = 0; i < room; ++i) {
            const bool before = i < kGuard + offset, behind = i >= kGuard + offset + outs;
            if ((before || behind) && touched(i)) say(turn, std::string("something was written ") + (before ? "before" : "behind") + " the output");
        }
        if (std::memcmp(after.data(), host.get(), ins * sizeof(float)) != 0) say(turn, "the input was changed");
        std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(kGuard + offset), outs, values.begin());
        const std::string text = complaint(task, s, [&](std::size_t i) { return static_cast<double>(host[i]); }, values, kLooked, random);
        if (!text.empty()) say(turn, text);
    }
    LAB_CUDA(cudaStreamDestroy(stream));
}

// What the GPU here can do on paper: bytes of its memory and operations in FP32 in a microsecond, from its own attributes.
inline void add_roofs(JsonObject& result) {
    int device = 0;
    LAB_CUDA(cudaGetDevice(&device));
    const auto asked = [&](cudaDeviceAttr what) {
        int value = 0;
        return cudaDeviceGetAttribute(&value, what, device) == cudaSuccess ? static_cast<double>(value) : 0.0;
    };
    const double lanes = asked(cudaDevAttrComputeCapabilityMajor) * 10 + asked(cudaDevAttrComputeCapabilityMinor) == 80 ? 64 : 128;
    const double khz = 1e-3;  // in one microsecond
    result.add("memory_bytes_us", 2 * khz * asked(cudaDevAttrMemoryClockRate) * asked(cudaDevAttrGlobalMemoryBusWidth) / 8);
    result.add("fp32_operations_us", 2 * lanes * khz * asked(cudaDevAttrClockRate) * asked(cudaDevAttrMultiProcessorCount));
}

// The whole program: RECORD.json SEED, and «counters» for a single marked run of the timed shape.
inline int grade_kernel(const KernelTask& task, int argc, char** argv) {
    program_name = "measurement";
    if (argc != 3 && argc != 4) fail("usage: RECORD.json SEED [counters]");
    const std::string record = argv[1];
    Random random(std::strtoull(argv[2], nullptr, 10));
    const bool counters = argc == 4;
    if (!counters) {
        for (const Shape& s : task.shapes) check(record, task, s, 0, 1, random);
        const Shape one = task.shapes[task.shapes.size() / 2], last = task.shapes.back();
        check(record, task, one, 1, 1, random);
        check(record, task, last, 3, 1, random);
        check(record, task, last, 0, 4, random);
    }
    const Shape s = task.timed;
    const std::size_t ins = task.inputs(s), outs = task.outputs(s);
    std::vector<float> block(kRepeated);
    for (float& x : block) x = normal_value(random);
    const Array<float> in(ins, true), out(outs, true);
    for (std::size_t done = 0; done < ins; done += std::min(kRepeated, ins - done)) {
        LAB_CUDA(cudaMemcpy(in.get() + done, block.data(), std::min(kRepeated, ins - done) * sizeof(float), cudaMemcpyHostToDevice));
    }
    cudaStream_t stream = nullptr;
    LAB_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const auto run = [&] {
        task.learner(in.get(), out.get(), s, stream);
        LAB_LAUNCHED();
    };
    JsonObject result;
    result.add("elements", static_cast<double>(ins)).add("outputs", static_cast<double>(outs));
    if (counters) {
        run();
        LAB_CUDA(cudaDeviceSynchronize());
        const Profiled once;
        run();
    } else {
        const Event begin, end;
        const auto timed = [&](const std::function<void()>& work) {
            begin.record(stream);
            work();
            end.record(stream);
            LAB_CUDA(cudaEventSynchronize(end));
            LAB_CUDA(cudaDeviceSynchronize());
            return elapsed_us(begin, end);
        };
        double baseline = 0, learner = 0;
        alternate([&] { return timed([&] { task.baseline(in.get(), out.get(), s, stream); LAB_LAUNCHED(); }); }, [&] { return timed(run); }, 15,
                  baseline, learner);
        result.add("baseline_us", baseline).add("learner_us", learner);
        add_roofs(result);
    }
    LAB_CUDA(cudaMemset(out.get(), 0xff, out.bytes()));
    LAB_CUDA(cudaDeviceSynchronize());
    if (!counters) {
        run();
        LAB_CUDA(cudaDeviceSynchronize());
        std::vector<float> values(outs);
        LAB_CUDA(cudaMemcpy(values.data(), out.get(), out.bytes(), cudaMemcpyDeviceToHost));
        const std::string text = complaint(task, s, [&](std::size_t i) { return static_cast<double>(block[i % kRepeated]); }, values, 100, random);
        if (!text.empty()) wrong(record, task.describe(s) + ": " + text);
    }
    LAB_CUDA(cudaStreamDestroy(stream));
    write(record, result);
    return 0;
}

}  // namespace lab
