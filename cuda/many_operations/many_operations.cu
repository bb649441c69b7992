// Very many short operations of every kind that a profiler records: flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// For measuring profilers and what reads their recordings: an hour of training as a burst of some seconds. A few host
// threads issue kernels (a third of the operations, with 32 names), copies (five in twelve; both directions and within the
// GPU) and memsets (a quarter) in random order, each thread on streams of its own. Around each operation lies a push/pop
// range, with every second a start/end range begins that lasts for eight operations, and before each the operating system is
// asked for a few bytes. Arrays are a few KiB, so that the time goes to issuing.

#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "../common/args.hpp"
#include "../common/check.cuh"
#include "../common/device.cuh"
#include "../common/json.hpp"
#include "../common/nvtx.hpp"
#include "../common/timing.cuh"

namespace many {

constexpr unsigned kThreads = 256;
constexpr unsigned kElements = 1024;  // of each array

template <int kNumber>
struct Add {
    static constexpr int number = kNumber;
};

template <typename Functor, typename T>
__global__ void elementwise(T* x, unsigned count, Functor) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] += static_cast<T>(Functor::number);
}

}  // namespace many

namespace {

using many::kElements;

constexpr int kNumbers = 8, kTypes = 4, kKernels = kNumbers * kTypes;
constexpr std::size_t kEvery = 2, kOpen = 4;  // operations from a start/end range to the next; how many are open at a time
constexpr std::size_t kStep = 500;            // operations of a range «step»
constexpr unsigned kManyKernels = 4, kManyCopies = 5, kManySets = 3;  // of twelve operations
constexpr unsigned kPoison = 0xffffffffu;
constexpr long long kMostOps = 20000000;  // so that an fp32 counts what is added to it exactly

struct Options {
    std::string variant = "mixed", json;
    long long ops = 200000, threads = 2, streams = 2, repetitions = 1, warmup = 1, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    lab::Args args("Issues very many short kernels, copies and memsets, with ranges and calls of the operating system around them.");
    args.choice("--variant", &o.variant, {"mixed"}, "what is issued");
    args.integer("--ops", &o.ops, 1, kMostOps, "operations of a repetition");
    args.integer("--threads", &o.threads, 1, 64, "host threads that issue them");
    args.integer("--streams", &o.streams, 1, 64, "streams of each thread, in turns");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "measured repetitions");
    args.integer("--warmup", &o.warmup, 0, 1000, "repetitions of 100 operations before those");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "seed of the order of operations");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    if (o.ops > kMostOps / o.repetitions) lab::fail("--ops %lld --repetitions %lld: together at most %lld", o.ops, o.repetitions, kMostOps);
    return o;
}

// A small random generator (SplitMix64), so that the order is the same everywhere.
struct Random {
    std::uint64_t state;
    unsigned below(unsigned bound) {
        std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        return static_cast<unsigned>((z ^ z >> 31) >> 33) % bound;
    }
};

enum Kind { kKernel, kIn, kOut, kWithin, kSet, kKinds };

// What each operation of a thread adds up to.
struct Count {
    std::vector<long long> added = std::vector<long long>(kTypes);  // to each element of the arrays of a type, over all streams
    long long kinds[kKinds] = {};
};

// The arrays of a stream.
struct Lane {
    cudaStream_t stream = nullptr;
    float* floats = nullptr;
    double* doubles = nullptr;
    int* ints = nullptr;
    unsigned long long* longs = nullptr;
    unsigned *scratch = nullptr, *other = nullptr, *in = nullptr, *out = nullptr;  // the last two on the host
};

template <typename T>
T* zeros(cudaStream_t stream) {
    T* memory = nullptr;
    LAB_CUDA(cudaMalloc(&memory, kElements * sizeof(T)));
    LAB_CUDA(cudaMemsetAsync(memory, 0, kElements * sizeof(T), stream));
    return memory;
}

Lane make_lane() {
    Lane lane;
    LAB_CUDA(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking));
    lane.floats = zeros<float>(lane.stream);
    lane.doubles = zeros<double>(lane.stream);
    lane.ints = zeros<int>(lane.stream);
    lane.longs = zeros<unsigned long long>(lane.stream);
    lane.scratch = zeros<unsigned>(lane.stream);
    lane.other = zeros<unsigned>(lane.stream);
    LAB_CUDA(cudaMallocHost(&lane.in, kElements * sizeof(unsigned)));
    LAB_CUDA(cudaMallocHost(&lane.out, kElements * sizeof(unsigned)));
    for (unsigned i = 0; i < kElements; ++i) lane.in[i] = i * 2654435761u, lane.out[i] = kPoison;
    return lane;
}

void free_lane(const Lane& lane) {
    void* const arrays[] = {lane.floats, lane.doubles, lane.ints, lane.longs, lane.scratch, lane.other};
    for (void* array : arrays) LAB_CUDA(cudaFree(array));
    LAB_CUDA(cudaFreeHost(lane.in));
    LAB_CUDA(cudaFreeHost(lane.out));
    LAB_CUDA(cudaStreamDestroy(lane.stream));
}

template <int kNumber, typename T>
void add(T* x, cudaStream_t stream) {
    constexpr unsigned kBlocks = (kElements + many::kThreads - 1) / many::kThreads;
    many::elementwise<<<kBlocks, many::kThreads, 0, stream>>>(x, kElements, many::Add<kNumber>{});
    LAB_LAUNCHED();
}

template <typename T>
void add(unsigned number, T* x, cudaStream_t stream) {
    switch (number) {
        case 1: return add<1>(x, stream);
        case 2: return add<2>(x, stream);
        case 3: return add<3>(x, stream);
        case 4: return add<4>(x, stream);
        case 5: return add<5>(x, stream);
        case 6: return add<6>(x, stream);
        case 7: return add<7>(x, stream);
        default: return add<8>(x, stream);
    }
}

void launch(unsigned which, const Lane& lane) {
    const unsigned number = which % kNumbers + 1;
    switch (which / kNumbers) {
        case 0: return add(number, lane.floats, lane.stream);
        case 1: return add(number, lane.doubles, lane.stream);
        case 2: return add(number, lane.ints, lane.stream);
        default: return add(number, lane.longs, lane.stream);
    }
}

const char* const kNames[kKinds] = {"kernel", "upload", "download", "move", "reset"};

// The names of ranges, made beforehand.
std::vector<std::string> range_names(const char* what) {
    std::vector<std::string> names;
    for (int kind = 0; kind < kKinds; ++kind) {
        for (int i = 0; i < kKernels; ++i) names.push_back(std::string(what) + kNames[kind] + " " + std::to_string(i));
    }
    return names;
}

// One thread's share of the operations, in random order.
Count issue(std::size_t ops, const std::vector<Lane>& lanes, std::uint64_t seed, int zero) {
    const std::vector<std::string> names = range_names(""), lasting = range_names("until later: ");
    std::vector<nvtxRangeId_t> open;
    Count done;
    Random random{seed};
    char bytes[64];
    for (std::size_t i = 0; i < ops; ++i) {
        if (i % kStep == 0) nvtxRangePushA(("step " + std::to_string(i / kStep % 100)).c_str());
        const Lane& lane = lanes[i / 16 % lanes.size()];
        const unsigned any = random.below(kManyKernels + kManyCopies + kManySets);
        const unsigned which = random.below(kKernels);
        const unsigned size = (1 + random.below(kElements)) * static_cast<unsigned>(sizeof(unsigned));
        const Kind copy = static_cast<Kind>(kIn + which % 3);
        const Kind kind = any < kManyKernels ? kKernel : any < kManyKernels + kManyCopies ? copy : kSet;
        const std::size_t name = static_cast<std::size_t>(kind) * kKernels + which;
        if (read(zero, bytes, sizeof bytes) != static_cast<ssize_t>(sizeof bytes)) lab::fail("/dev/zero: cannot be read");
        if (i % kEvery == 0) {
            const std::size_t place = i / kEvery % kOpen;
            if (open.size() == kOpen) nvtxRangeEnd(open[place]);
            else open.push_back(0);
            open[place] = nvtxRangeStartA(lasting[name].c_str());
        }
        nvtxRangePushA(names[name].c_str());
        if (kind == kKernel) {
            launch(which, lane);
            done.added[which / kNumbers] += which % kNumbers + 1;
        } else if (kind == kIn) {
            LAB_CUDA(cudaMemcpyAsync(lane.other, lane.in, size, cudaMemcpyHostToDevice, lane.stream));
        } else if (kind == kOut) {
            LAB_CUDA(cudaMemcpyAsync(lane.out, lane.other, size, cudaMemcpyDeviceToHost, lane.stream));
        } else if (kind == kWithin) {
            LAB_CUDA(cudaMemcpyAsync(lane.scratch, lane.other, size, cudaMemcpyDeviceToDevice, lane.stream));
        } else {
            LAB_CUDA(cudaMemsetAsync(lane.scratch, static_cast<int>(which), size, lane.stream));
        }
        nvtxRangePop();
        if (i % kStep == kStep - 1 || i + 1 == ops) nvtxRangePop();
        ++done.kinds[kind];
    }
    for (const nvtxRangeId_t id : open) nvtxRangeEnd(id);
    for (const Lane& lane : lanes) LAB_CUDA(cudaStreamSynchronize(lane.stream));
    return done;
}

// The sum over streams of what each element of an array has become; NaN when the elements of one differ.
template <typename T>
double sum_of(const std::vector<std::vector<Lane>>& threads, T* Lane::* array) {
    double sum = 0;
    std::vector<T> host(kElements);
    for (const std::vector<Lane>& lanes : threads) {
        for (const Lane& lane : lanes) {
            LAB_CUDA(cudaMemcpy(host.data(), lane.*array, kElements * sizeof(T), cudaMemcpyDeviceToHost));
            for (const T& x : host) {
                if (x != host[0]) return NAN;
            }
            sum += static_cast<double>(host[0]);
        }
    }
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "many_operations";
    const Options o = parse(argc, argv);
    const cudaDeviceProp gpu = lab::open_device(many::elementwise<many::Add<1>, float>, 64 << 20);
    const int zero = open("/dev/zero", O_RDONLY);
    if (zero < 0) lab::fail("/dev/zero: cannot be opened");
    std::vector<std::vector<Lane>> threads(static_cast<std::size_t>(o.threads));
    for (std::vector<Lane>& lanes : threads) {
        for (long long s = 0; s < o.streams; ++s) lanes.push_back(make_lane());
    }
    Count all;
    std::uint64_t seed = static_cast<std::uint64_t>(o.seed) << 16;
    // Each thread's share of so many operations; the microseconds it took.
    const auto repeat = [&](std::size_t ops) {
        std::vector<Count> counts(threads.size());
        std::vector<std::thread> running;
        const double begin = lab::host_us();
        for (std::size_t t = 0; t < threads.size(); ++t) {
            const std::size_t share = ops * (t + 1) / threads.size() - ops * t / threads.size();
            running.emplace_back([&, t, share, own = seed++] { counts[t] = issue(share, threads[t], own, zero); });
        }
        for (std::thread& thread : running) thread.join();
        const double us = lab::host_us() - begin;
        for (const Count& count : counts) {
            for (std::size_t type = 0; type < kTypes; ++type) all.added[type] += count.added[type];
            for (int kind = 0; kind < kKinds; ++kind) all.kinds[kind] += count.kinds[kind];
        }
        return us;
    };
    for (long long r = 0; r < o.warmup; ++r) repeat(100);
    for (long long& kind : all.kinds) kind = 0;
    std::vector<double> times;
    {
        const lab::Range measured(lab::kMeasured);
        for (long long r = 0; r < o.repetitions; ++r) times.push_back(repeat(static_cast<std::size_t>(o.ops)));
    }
    const double sums[kTypes] = {sum_of(threads, &Lane::floats), sum_of(threads, &Lane::doubles), sum_of(threads, &Lane::ints),
                                 sum_of(threads, &Lane::longs)};
    bool right = true;
    for (std::size_t type = 0; type < kTypes; ++type) right = right && sums[type] == static_cast<double>(all.added[type]);
    bool arrived = true;  // what came back is what went in, or nothing had gone in, or nothing came back
    for (const std::vector<Lane>& lanes : threads) {
        for (const Lane& lane : lanes) {
            for (unsigned i = 0; i < kElements; ++i) {
                arrived = arrived && (lane.out[i] == lane.in[i] || lane.out[i] == kPoison || lane.out[i] == 0);
            }
            free_lane(lane);
        }
    }
    close(zero);

    lab::Record record{"many_operations", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("ops", o.ops).add("threads", o.threads).add("streams", o.streams);
    record.parameters.add("repetitions", o.repetitions).add("warmup", o.warmup).add("seed", o.seed);
    lab::add_spread(record.results, "total", "us", times);
    record.results.add("kernels", all.kinds[kKernel]).add("copies", all.kinds[kIn] + all.kinds[kOut] + all.kinds[kWithin]);
    record.results.add("memsets", all.kinds[kSet]);
    char detail[160];
    std::snprintf(detail, sizeof detail, "added to each element: float %.0f, double %.0f, int %.0f, unsigned long long %.0f", sums[0],
                  sums[1], sums[2], sums[3]);
    record.check("every_kernel_ran_once", right, detail);
    record.check("copies_arrived", arrived, arrived ? "what came back was what went in" : "something else came back than went in");
    const double us = lab::median(times);
    std::printf("%s: %lld operations from %lld threads on %lld streams in %.3f s: %.2f us each\n", gpu.name, o.ops, o.threads,
                o.threads * o.streams, us / 1e6, us / static_cast<double>(o.ops));
    return record.finish(o.json);
}
