// Attention of the newest token over a cache in pages: from a block a query head to equal shares of all tokens. Flags in, a table and
// a record out.
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "../common/ladder.cuh"
#include "../sum/sum.cuh"
#include "paged_decode.cuh"

namespace {

namespace steps = lab::paged_decode;
using steps::Bf16;
using steps::kDim;

const std::vector<std::string> kSteps = {"heads", "groups", "pages", "tensor", "split", "one_launch", "balanced", "stealing"};
constexpr int kGuard = 256;        // elements behind the output that nobody may write
constexpr double kAllowed = 6e-3;  // of the norm, against double precision
constexpr double kBlocksToShare = 2;  // times what the GPU holds at once: as the catalogue has it

struct Options {
    std::string variant = "all", lengths = "even", json;
    long long batch = 16, tokens = 16384, heads = 32, kv_heads = 8, page = 16, repetitions = 10, seed = 1;
};

Options parse(int argc, char** argv) {
    Options o;
    std::vector<std::string> variants = {"all"};
    variants.insert(variants.end(), kSteps.begin(), kSteps.end());
    lab::Args args("Computes attention of the newest token over a cache of random normal keys and values, step by step.");
    args.choice("--variant", &o.variant, variants, "which step; all: all of them, in turns");
    args.integer("--batch", &o.batch, 1, 65535, "sequences");
    args.integer("--tokens", &o.tokens, 1, 1 << 20, "in the cache, of a sequence on average");
    args.choice("--lengths", &o.lengths, {"even", "uneven"}, "uneven: the n-th longest sequence has an n-th of the longest one's tokens");
    args.integer("--heads", &o.heads, 1, 1024, "of the queries");
    args.integer("--kv-heads", &o.kv_heads, 1, 1024, "of the cache; 1, 2, 4 or 8 heads of the queries share one");
    args.integer("--page", &o.page, 16, 4096, "tokens of a page: 16, 32, 64 and so on");
    args.integer("--repetitions", &o.repetitions, 1, 1000, "timings of each step");
    args.integer("--seed", &o.seed, 0, 1LL << 62, "of the arrays");
    args.text("--json", &o.json, "FILE", "write the record here");
    args.parse(argc, argv);
    const long long group = o.heads / o.kv_heads;
    if (o.heads % o.kv_heads != 0 || (group != 1 && group != 2 && group != 4 && group != 8)) {
        lab::fail("--heads %lld --kv-heads %lld: 1, 2, 4 or 8 heads of the queries share one of the cache", o.heads, o.kv_heads);
    }
    if ((o.page & (o.page - 1)) != 0) lab::fail("--page %lld: give a power of two", o.page);
    if (o.batch * o.kv_heads > 65535) lab::fail("--batch %lld --kv-heads %lld: together at most 65535", o.batch, o.kv_heads);
    return o;
}

// How many tokens each sequence has; in the order of the batch the long ones come anywhere.
std::vector<int> lengths_of(const Options& o) {
    const std::size_t batch = static_cast<std::size_t>(o.batch);
    std::vector<int> lengths(batch, static_cast<int>(o.tokens));
    if (o.lengths == "even") return lengths;
    double shares = 0;
    for (std::size_t i = 0; i < batch; ++i) shares += 1.0 / static_cast<double>(i + 1);
    const double longest = static_cast<double>(o.tokens * o.batch) / shares;
    for (std::size_t i = 0; i < batch; ++i) lengths[i] = std::max(1, static_cast<int>(longest / static_cast<double>(i + 1)));
    for (std::size_t i = batch - 1; i > 0; --i) std::swap(lengths[i], lengths[lab::mixed(static_cast<std::uint64_t>(o.seed), i) % (i + 1)]);
    return lengths;
}

__global__ void fill(Bf16* out, std::uint64_t n, std::uint64_t seed) {
    lab::for_all(n, [=](std::uint64_t i) { out[i] = static_cast<Bf16>(lab::normal(seed, i)); });
}

// The cache in one piece, [batch][heads][capacity][kDim], of the pages.
__global__ void gather(const Bf16* pool, const int* table, Bf16* out, std::uint64_t n, int heads, int capacity, int page, int row_pages) {
    lab::for_all(n, [=](std::uint64_t i) {
        const std::uint64_t token = i / kDim % static_cast<unsigned>(capacity), pair = i / kDim / static_cast<unsigned>(capacity);
        const int head = static_cast<int>(pair % static_cast<unsigned>(heads)), place = static_cast<int>(token) % page;
        const int number = table[pair / static_cast<unsigned>(heads) * static_cast<unsigned>(row_pages) + token / static_cast<unsigned>(page)];
        if (number >= 0) out[i] = pool[((static_cast<std::uint64_t>(number) * static_cast<unsigned>(heads) + static_cast<unsigned>(head)) * static_cast<unsigned>(page) + static_cast<unsigned>(place)) * kDim + i % kDim];
    });
}

// A block a chosen head of a sequence: its result in double precision. `weights`: a row of `capacity` a block.
constexpr int kReferenceThreads = 256;
__global__ void reference(const Bf16* q, steps::Pages cache, const int* chosen, int heads, int group, int capacity, double* weights, double* out) {
    __shared__ double partial[kReferenceThreads];
    const int one = chosen[blockIdx.x], sequence = one / heads, head = one % heads / group, thread = static_cast<int>(threadIdx.x), length = cache.lengths[sequence];
    double* const mine = weights + static_cast<std::uint64_t>(blockIdx.x) * static_cast<unsigned>(capacity);
    const auto over_all = [&](double x, auto combine) {
        partial[thread] = x;
        __syncthreads();
        for (int half = kReferenceThreads / 2; half > 0; half /= 2) {
            if (thread < half) partial[thread] = combine(partial[thread], partial[thread + half]);
            __syncthreads();
        }
        const double all = partial[0];
        __syncthreads();
        return all;
    };
    double largest = -INFINITY, sum = 0;
    for (int j = thread; j < length; j += kReferenceThreads) {
        const Bf16* const key = cache.keys + cache.at(cache.number(sequence, j), head, j);
        double score = 0;
        for (int d = 0; d < kDim; ++d) score += static_cast<double>(static_cast<float>(q[one * kDim + d])) * static_cast<double>(static_cast<float>(key[d]));
        mine[j] = score / sqrt(static_cast<double>(kDim));
        largest = fmax(largest, mine[j]);
    }
    largest = over_all(largest, [](double a, double b) { return fmax(a, b); });
    for (int j = thread; j < length; j += kReferenceThreads) sum += mine[j] = exp(mine[j] - largest);
    sum = over_all(sum, [](double a, double b) { return a + b; });
    const int column = thread % kDim;
    double total = 0;
    for (int j = thread / kDim; j < length; j += kReferenceThreads / kDim) {
        total += mine[j] * static_cast<double>(static_cast<float>(cache.values[cache.at(cache.number(sequence, j), head, j) + static_cast<unsigned>(column)]));
    }
    partial[thread] = total;
    __syncthreads();
    if (thread < kDim) out[blockIdx.x * kDim + threadIdx.x] = (partial[thread] + partial[thread + kDim]) / sum;
}

struct Found {
    double differences, squares;
    unsigned long long unwritten, outside;
};

__global__ void compare(const Bf16* out, std::uint64_t elements, const int* chosen, int count, const double* expected, Found* found) {
    lab::for_all(static_cast<std::uint64_t>(count) * kDim, [=](std::uint64_t i) {
        const double difference = static_cast<double>(static_cast<float>(out[static_cast<std::uint64_t>(chosen[i / kDim]) * kDim + i % kDim])) - expected[i];
        atomicAdd(&found->differences, difference * difference);
        atomicAdd(&found->squares, expected[i] * expected[i]);
    });
    lab::for_all(elements + kGuard, [=](std::uint64_t i) {
        const bool nan = isnan(static_cast<float>(out[i]));
        if (i < elements && nan) atomicAdd(&found->unwritten, 1);
        if (i >= elements && !nan) atomicAdd(&found->outside, 1);
    });
}

using Add = std::function<void(const char*, std::function<void()>)>;

struct Work {
    const Bf16 *q, *keys, *values;  // in one piece, or none
    steps::Pages cache;
    Bf16* out;
    float* sums;
    float2* rest;
    unsigned* counters;
    int batch, group, capacity, chunk, most, blocks;
};

template <int kGroup>
void on_the_cores(const Work& w, const Add& add) {
    const dim3 grid(static_cast<unsigned>(w.cache.heads), static_cast<unsigned>(w.batch)), all(grid.x * kGroup, grid.y);
    const steps::Pages& c = w.cache;
    add("heads", [=] { steps::heads<<<all, steps::kThreads>>>(w.q, w.keys, w.values, c.lengths, w.out, w.capacity, kGroup); });
    add("groups", [=] { steps::groups<kGroup><<<grid, steps::kThreads>>>(w.q, w.keys, w.values, c.lengths, w.out, w.capacity); });
    add("pages", [=] { steps::pages<kGroup><<<grid, steps::kThreads>>>(w.q, c.keys, c.values, c.table, c.lengths, w.out, c.shift, c.row_pages); });
}

void on_tensor_cores(const Work& w, const Add& add) {
    const dim3 grid(static_cast<unsigned>(w.cache.heads), static_cast<unsigned>(w.batch));
    const dim3 parts(static_cast<unsigned>(w.most), static_cast<unsigned>(w.cache.heads * w.batch));
    const steps::Pages& c = w.cache;
    add("tensor", [=] { steps::tensor<<<grid, steps::kThreads>>>(w.q, c.keys, c.values, c.table, c.lengths, w.out, w.group, c.shift, c.row_pages); });
    add("split", [=] {
        steps::split<<<parts, steps::kThreads>>>(w.q, c.keys, c.values, c.table, c.lengths, w.out, w.sums, w.rest, c.heads, w.group, c.shift, c.row_pages, w.chunk);
        LAB_LAUNCHED();
        steps::combine<<<grid, steps::kThreads>>>(c.lengths, w.out, w.sums, w.rest, w.group, w.chunk, w.most);
    });
    add("one_launch", [=] {
        steps::one_launch<<<parts, steps::kThreads>>>(w.q, c.keys, c.values, c.table, c.lengths, w.out, w.sums, w.rest, w.counters, c.heads, w.group, c.shift,
                                                      c.row_pages, w.chunk);
    });
    for (const bool stealing : {false, true}) {
        add(stealing ? "stealing" : "balanced", [=] {
            const auto kernel = stealing ? steps::stealing : steps::balanced;
            kernel<<<static_cast<unsigned>(w.blocks), steps::kThreads>>>(w.q, c.keys, c.values, c.table, c.lengths, w.out, w.sums, w.rest, w.counters, w.batch, c.heads,
                                                                         w.group, c.shift, c.row_pages);
        });
    }
}

int run(const Options& o) {
    const std::vector<int> lengths = lengths_of(o);
    const int batch = static_cast<int>(o.batch), heads = static_cast<int>(o.heads), kv_heads = static_cast<int>(o.kv_heads), page = static_cast<int>(o.page);
    const int capacity = *std::max_element(lengths.begin(), lengths.end()), row_pages = (capacity + page - 1) / page;
    const bool all_steps = o.variant == "all", one_piece = all_steps || o.variant == "heads" || o.variant == "groups";
    std::vector<int> table(static_cast<std::size_t>(batch) * static_cast<std::size_t>(row_pages), -1), order;
    std::size_t tokens = 0;
    for (const int length : lengths) {
        tokens += static_cast<std::size_t>(length);
        for (int first = 0; first < length; first += page) order.push_back(static_cast<int>(order.size()));
    }
    for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[lab::mixed(static_cast<std::uint64_t>(o.seed) + 1, i) % (i + 1)]);
    for (std::size_t s = 0, next = 0; s < lengths.size(); ++s) {
        for (int first = 0; first < lengths[s]; first += page) table[s * static_cast<std::size_t>(row_pages) + static_cast<std::size_t>(first / page)] = order[next++];
    }
    const std::size_t pool = order.size() * static_cast<std::size_t>(kv_heads * page * kDim), queries = static_cast<std::size_t>(batch * heads) * kDim;
    const std::size_t whole = one_piece ? static_cast<std::size_t>(batch * kv_heads) * static_cast<std::size_t>(capacity) * kDim : 0;
    const int count = std::min(batch * heads, 64);
    const cudaDeviceProp gpu = lab::open_device(fill, 4 * (pool + whole) + static_cast<std::size_t>(count) * static_cast<std::size_t>(capacity) * 8 + (std::size_t{1} << 30));
    const bool tensor_cores = gpu.major >= 8;
    if (!tensor_cores && std::find(kSteps.begin() + 3, kSteps.end(), o.variant) != kSteps.end()) {
        lab::fail("--variant %s: needs compute capability 8.0; take pages", o.variant.c_str());
    }
    if (!tensor_cores) std::printf("only heads, groups and pages: the other steps need compute capability 8.0\n");

    const int pairs = batch * kv_heads, units = (capacity + steps::kUnit - 1) / steps::kUnit, blocks = gpu.multiProcessorCount * steps::kBlocksPerSm;
    const int wanted = static_cast<int>(kBlocksToShare * blocks), chunk = (units + std::min(units, (wanted + pairs - 1) / pairs) - 1) / std::min(units, (wanted + pairs - 1) / pairs);
    const int most = (units + chunk - 1) / chunk;
    const std::size_t parts = std::max(static_cast<std::size_t>(most) * static_cast<std::size_t>(pairs), 2 * static_cast<std::size_t>((1 + steps::kPieces) * blocks));
    const lab::DeviceArray<Bf16> q(queries), both(2 * pool), keys(whole), values(whole), out(queries + kGuard);
    const lab::DeviceArray<float> sums(parts * steps::kMostGroup * kDim), sink(1);
    const lab::DeviceArray<float2> rest(parts * steps::kMostGroup);
    const lab::DeviceArray<unsigned> counters(static_cast<std::size_t>(pairs) + 2);
    counters.zero();
    const lab::DeviceArray<int> of_device(lengths.size()), pages(table.size());
    LAB_CUDA(cudaMemcpy(of_device.get(), lengths.data(), lengths.size() * sizeof(int), cudaMemcpyHostToDevice));
    LAB_CUDA(cudaMemcpy(pages.get(), table.data(), table.size() * sizeof(int), cudaMemcpyHostToDevice));
    std::uint64_t seed = static_cast<std::uint64_t>(o.seed);
    for (const auto* array : {&q, &both}) {
        fill<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(array->get(), array->count(), seed++);
        LAB_LAUNCHED();
    }
    int shift = 0;
    while (1 << shift < page) ++shift;
    const steps::Pages cache{both.get(), both.get() + pool, pages.get(), of_device.get(), kv_heads, shift, row_pages};
    for (const auto& [from, to] : {std::pair{cache.keys, keys.get()}, std::pair{cache.values, values.get()}}) {
        if (!one_piece) break;
        gather<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(from, cache.table, to, whole, kv_heads, capacity, page, row_pages);
        LAB_LAUNCHED();
    }
    const Work work{q.get(), keys.get(), values.get(), cache, out.get(), sums.get(), rest.get(), counters.get(), batch, heads / kv_heads, capacity, chunk, most, blocks};

    std::vector<int> chosen;  // heads to be compared, spread over all
    for (int i = 0; i < count; ++i) {
        const std::uint64_t from = static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(batch * heads) / static_cast<unsigned>(count);
        const std::uint64_t to = static_cast<std::uint64_t>(i + 1) * static_cast<std::uint64_t>(batch * heads) / static_cast<unsigned>(count);
        chosen.push_back(static_cast<int>(from + lab::mixed(seed, static_cast<std::uint64_t>(i)) % (to - from)));
    }
    const lab::DeviceArray<int> rows(chosen.size());
    LAB_CUDA(cudaMemcpy(rows.get(), chosen.data(), chosen.size() * sizeof(int), cudaMemcpyHostToDevice));
    const lab::DeviceArray<double> weights(chosen.size() * static_cast<std::size_t>(capacity)), expected(chosen.size() * kDim);
    reference<<<static_cast<unsigned>(count), kReferenceThreads>>>(work.q, cache, rows.get(), heads, work.group, capacity, weights.get(), expected.get());
    LAB_LAUNCHED();

    // Each element of the cache once, queries and result besides.
    const double bytes = static_cast<double>(tokens) * kv_heads * kDim * 2 * 2 + 2.0 * static_cast<double>(queries) * 2;
    std::vector<lab::Rung> all;
    const auto add = [&](const char* name, std::function<void()> call) {
        if (all_steps || o.variant == name) all.push_back({name, lab::Rung::kStep, bytes, std::move(call)});
    };
    const lab::DeviceArray<unsigned char> scratch(sizeof(lab::sum::Scratch) + 4 * static_cast<std::size_t>(gpu.multiProcessorCount * lab::sum::kBlocksPerSm));
    scratch.zero();
    const auto* const words = reinterpret_cast<const float*>(both.get());
    const lab::sum::Size floats = pool;
    const unsigned readers = static_cast<unsigned>(std::min<std::size_t>(static_cast<std::size_t>(gpu.multiProcessorCount) * lab::sum::kBlocksPerSm,
                                                                        floats / (4 * lab::sum::kWideThreads * lab::sum::kLoads) + 1));
    all.push_back({"read", lab::Rung::kCeiling, 4.0 * static_cast<double>(floats), [=, &sink, &scratch] {
                       lab::sum::vectorized<lab::sum::kWideThreads, lab::sum::kLoads>
                           <<<readers, lab::sum::kWideThreads>>>(words, sink.get(), reinterpret_cast<lab::sum::Scratch*>(scratch.get()), floats);
                   }});
    if (work.group == 1) on_the_cores<1>(work, add);
    else if (work.group == 2) on_the_cores<2>(work, add);
    else if (work.group == 4) on_the_cores<4>(work, add);
    else on_the_cores<8>(work, add);
    if (tensor_cores) on_tensor_cores(work, add);

    lab::Record record{"paged_decode", o.variant, {}, {}, {}, lab::describe(gpu)};
    record.parameters.add("batch", o.batch).add("tokens", o.tokens).add("lengths", o.lengths).add("heads", o.heads).add("kv_heads", o.kv_heads);
    record.parameters.add("page", o.page).add("repetitions", o.repetitions).add("seed", o.seed);
    record.results.add("bytes", bytes).add("parts", most).add("blocks", blocks);
    const lab::DeviceArray<Found> found(1);
    lab::check_rungs(all, [&] { out.poison(); }, [&](const lab::Rung& rung) -> lab::Verdict {
        found.zero();
        compare<<<lab::kSpreadBlocks, lab::kSpreadThreads>>>(work.out, queries, rows.get(), count, expected.get(), found.get());
        LAB_LAUNCHED();
        Found f;
        LAB_CUDA(cudaMemcpy(&f, found.get(), sizeof f, cudaMemcpyDeviceToHost));
        const double error = std::sqrt(f.differences / f.squares);
        char detail[160];
        std::snprintf(detail, sizeof detail, "error %.2e of the norm (allowed %.0e), %llu elements not written, %llu outside", error, kAllowed, f.unwritten, f.outside);
        record.results.add(rung.name + "_error", error);
        return {error <= kAllowed && f.unwritten == 0 && f.outside == 0, detail};
    }, record);
    const lab::ColdCache cold(gpu);
    {
        const lab::Range measured(lab::kMeasured);
        lab::take_turns(all, o.repetitions, [&] { cold(); });
        LAB_CUDA(cudaDeviceSynchronize());
    }
    char what[160];
    std::snprintf(what, sizeof what, "%d sequences of %lld tokens (%s), %d heads over %d, pages of %d", batch, o.tokens, o.lengths.c_str(), heads, kv_heads, page);
    lab::print_head(gpu, what, bytes);
    const double roof = lab::gb_per_s(all.front());
    std::printf("  %-12s %11s %11s %11s %10s %8s\n", "", "median us", "quartile", "quartile", "GB/s", "/ read");
    for (const lab::Rung& rung : all) {
        const double rate = lab::gb_per_s(rung);
        std::printf("  %-12s %11.1f %11.1f %11.1f %10.1f %8.3f\n", rung.name.c_str(), lab::median(rung.us), lab::quantile(rung.us, 0.25), lab::quantile(rung.us, 0.75), rate, rate / roof);
        lab::add_spread(record.results, rung.name, "us", rung.us);
        record.results.add(rung.name + "_gb_per_s", rate).add(rung.name + "_over_read_ratio", rate / roof);
    }
    return record.finish(o.json);
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "paged_decode";
    return run(parse(argc, argv));
}
