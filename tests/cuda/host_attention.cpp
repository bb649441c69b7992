// The attention's device code on the host, beside the same in double precision. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
// With a number, the synchronization of this number (the test numbers them) is left out, and the first wrong result is the last.
// With one of readable, registers, maps: these steps only.

#include "host_instructions.hpp"

#include <memory>

static float values[1024];

static float __int_as_float(int bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
static int min(int a, int b) { return a < b ? a : b; }
static float __shfl_xor_sync(unsigned, float x, int lanes) {
    const unsigned mine = fibers::thread(), other = mine ^ static_cast<unsigned>(lanes);
    values[mine] = x;
    warp_meet();
    const float found = values[other];
    warp_meet();
    return found;
}
static bool __any_sync(unsigned, bool mine) {
    bool any = mine;
    for (int lanes = 1; lanes < 32; lanes *= 2) any |= __shfl_xor_sync(0, any, lanes) != 0;
    return any;
}

#include "layout_on_host.cuh"  // the headers without their includes, synchronizations numbered
#include "attention_on_host.cuh"
#include "tensor_on_host.cuh"

namespace {

namespace steps = lab::attention;

constexpr int kHeads = 2;
int wrong = 0;

using Bf16 = lab::gemm::Bf16;
float narrowed(float x, float) { return x; }
Bf16 narrowed(float x, Bf16) { return __float2bfloat16_rn(x); }
float widened(float x) { return x; }
float widened(Bf16 x) { return __bfloat162float(x); }

struct Grid {
    int queries;  // of a block
    unsigned threads;
};

// Fills arrays of exactly these sizes, runs the kernel and compares.
template <int kDim, typename T>
void check(const char* name, int length, bool causal, double allowed, Grid grid, const std::function<std::function<void()>(T*, T*, T*, T*)>& kernel) {
    if (wrong != 0 && left_out >= 0) return;
    const std::size_t count = static_cast<std::size_t>(kHeads) * length * kDim;
    const auto make = [&] { return static_cast<T*>(std::aligned_alloc(16, sizeof(T) * count)); };
    T *const q = make(), *const k = make(), *const v = make(), *const out = make();
    for (std::size_t i = 0; i < count; ++i) {
        const auto random = [](float over) { return narrowed(std::rand() % 2001 / over - 1000 / over, T{}); };
        q[i] = random(500), k[i] = random(500), v[i] = random(1000), out[i] = narrowed(NAN, T{});
    }
    const unsigned blocks = static_cast<unsigned>((length + grid.queries - 1) / grid.queries);
    const bool ended = run_grid({blocks, kHeads, 1}, grid.threads, grid.threads, 1, kernel(q, k, v, out), [] {
        lab::gemm::copies.clear(), lab::gemm::products.clear();
        std::memset(memories, 0xff, sizeof memories);
    });
    double differences = 0, squares = 0;
    std::vector<double> weights(static_cast<std::size_t>(length));
    for (int row = 0; row < kHeads * length; ++row) {
        const std::size_t head = static_cast<std::size_t>(row / length) * length * kDim, mine = static_cast<std::size_t>(row) * kDim;
        const int keys = causal ? row % length + 1 : length;
        double largest = -INFINITY, sum = 0;
        for (int j = 0; j < keys; ++j) {
            double score = 0;
            for (int d = 0; d < kDim; ++d) score += static_cast<double>(widened(q[mine + d])) * widened(k[head + static_cast<std::size_t>(j) * kDim + d]);
            largest = std::fmax(largest, weights[j] = score / std::sqrt(kDim));
        }
        for (int j = 0; j < keys; ++j) sum += weights[j] = std::exp(weights[j] - largest);
        for (int d = 0; d < kDim; ++d) {
            double total = 0;
            for (int j = 0; j < keys; ++j) total += weights[j] * widened(v[head + static_cast<std::size_t>(j) * kDim + d]);
            const double difference = total / sum - widened(out[mine + d]);
            differences += difference * difference, squares += total / sum * total / sum;
        }
    }
    const double error = std::sqrt(differences / squares);
    if (!ended || !(error <= allowed)) {
        std::printf("%s, %d of %d%s: %s, error %.1e\n", name, length, kDim, causal ? ", causal" : "", ended ? "wrong" : "hangs", error);
        ++wrong;
        if (!ended) std::exit(1);
    }
    std::free(q), std::free(k), std::free(v), std::free(out);
}

template <int kDim>
void readable(int length, bool causal) {
    const auto scores = std::make_shared<std::vector<float>>(static_cast<std::size_t>(kHeads) * length * length);
    const auto of = [&](const char* name, int queries, auto kernel) {
        check<kDim, float>(name, length, causal, 1e-5, {queries, 128}, [=](float* q, float* k, float* v, float* out) -> std::function<void()> {
            return [=] { kernel(q, k, v, out); };
        });
    };
    of("materialized", 1, [=](float* q, float* k, float* v, float* out) { steps::materialized<kDim>(q, k, v, out, scores->data(), length, causal); });
    of("online", steps::kOnlineThreads * steps::kPart / kDim, [=](float* q, float* k, float* v, float* out) { steps::online<kDim>(q, k, v, out, length, causal); });
    of("tiled", steps::kQueries, [=](float* q, float* k, float* v, float* out) { steps::tiled<kDim>(q, k, v, out, length, causal); });
}

// The gradients of sum(slope ∘ attention) by differences of the same in double precision.
template <int kDim>
void gradients(int length, bool causal) {
    if (wrong != 0 && left_out >= 0) return;
    const std::size_t count = static_cast<std::size_t>(kHeads) * length * kDim, rows = static_cast<std::size_t>(kHeads) * length;
    std::vector<float> arrays[4], found[3], log_sum(rows, NAN), means(rows, NAN);
    for (auto& array : arrays) {
        for (std::size_t i = 0; i < count; ++i) array.push_back(std::rand() % 2001 / 500.0f - 2);
    }
    for (auto& array : found) array.assign(count, NAN);
    auto& [q, k, v, slope] = arrays;
    const Grid grid{1, steps::kRowThreads};
    const auto launch = [&](const std::function<void()>& kernel) {
        return run_grid({static_cast<unsigned>(length), kHeads, 1}, grid.threads, grid.threads, 1, kernel, [] { std::memset(memories, 0xff, sizeof memories); });
    };
    const bool ended = launch([&] { steps::backward_queries<kDim>(q.data(), k.data(), v.data(), slope.data(), found[0].data(), log_sum.data(), means.data(), length, causal); }) &&
                       launch([&] { steps::backward_keys<kDim>(q.data(), k.data(), v.data(), slope.data(), log_sum.data(), means.data(), found[1].data(), found[2].data(), length, causal); });
    const auto loss = [&](std::size_t head) {
        double total = 0;
        for (int row = 0; row < length; ++row) {
            const std::size_t mine = head + static_cast<std::size_t>(row) * kDim;
            std::vector<double> weights;
            double sum = 0, part = 0;
            for (int j = 0; j < (causal ? row + 1 : length); ++j) {
                double score = 0, along = 0;
                for (int d = 0; d < kDim; ++d) {
                    score += static_cast<double>(q[mine + d]) * k[head + static_cast<std::size_t>(j) * kDim + d];
                    along += static_cast<double>(slope[mine + d]) * v[head + static_cast<std::size_t>(j) * kDim + d];
                }
                sum += std::exp(score / std::sqrt(kDim)), part += std::exp(score / std::sqrt(kDim)) * along;
            }
            total += part / sum;
        }
        return total;
    };
    double worst = ended ? 0 : INFINITY;
    for (int which = 0; which < 3 && ended; ++which) {
        for (std::size_t i = which; i < count; i += count / 7) {  // some elements of each
            const std::size_t head = i / (static_cast<std::size_t>(length) * kDim) * length * kDim;
            float& x = arrays[which][i];
            const float kept = x, step = 0.0078125f;
            x = kept + step;
            const double above = loss(head);
            x = kept - step;
            const double slope_here = (above - loss(head)) / (2 * step);
            x = kept;
            worst = std::fmax(worst, std::fabs(slope_here - found[which][i]) / (1 + std::fabs(slope_here)));
            if (std::isnan(found[which][i])) worst = INFINITY;
        }
    }
    if (!(worst <= 2e-3)) std::printf("gradients, %d of %d%s: wrong by %.1e\n", length, kDim, causal ? ", causal" : "", worst), ++wrong;
}

template <int kDim>
void tensor(int length, bool causal, bool maps) {
    const auto of = [&](const char* name, Grid grid, auto kernel) {
        check<kDim, Bf16>(name, length, causal, 4e-3, grid, [=](Bf16* q, Bf16* k, Bf16* v, Bf16* out) -> std::function<void()> {
            return [=] { kernel(q, k, v, out); };
        });
    };
    if (!maps) {
        const Grid grid{steps::kMmaQueries, steps::kMmaThreads};
        of("mma_sync", grid, [=](Bf16* q, Bf16* k, Bf16* v, Bf16* out) { steps::mma_sync<Bf16, kDim, 1>(q, k, v, out, length, causal); });
        of("double_buffer", grid, [=](Bf16* q, Bf16* k, Bf16* v, Bf16* out) { steps::mma_sync<Bf16, kDim, 2>(q, k, v, out, length, causal); });
        return;
    }
    const auto map = [=](Bf16* x, int box_rows) { return lab::gemm::TensorMap{x, length, kDim, kDim, box_rows}; };
    const auto mapped = [&](const char* name, auto shape, auto kernel) {
        using S = decltype(shape);
        of(name, {S::kQueries, S::kThreads}, [=](Bf16* q, Bf16* k, Bf16* v, Bf16* out) {
            kernel(map(q, S::kQueries), map(k, S::kKeys), map(v, S::kKeys), out, length, causal);
        });
    };
    using Two = steps::Shape<kDim, 2>;
    using Three = steps::Shape<kDim, 3>;
    mapped("specialized", Two{}, steps::specialized<Bf16, Two, false, false>);
    mapped("ping_pong", Two{}, steps::specialized<Bf16, Two, true, true>);
    if (left_out >= 0) return;
    if (causal) mapped("no_turns", Two{}, steps::specialized<Bf16, Two, true, false>);
    if (causal == (kDim == 64)) mapped("three_groups", Three{}, steps::specialized<Bf16, Three, kDim == 64, false>);
    else mapped("lazy", Three{}, steps::specialized<Bf16, Three, kDim == 64, false, 8>);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    const std::string part = count > 2 ? words[2] : "";
    for (const bool causal : {false, true}) {
        lazy = causal;
        if (part == "readable" || part.empty()) {
            for (const int length : {1, 150}) readable<64>(length, causal), readable<128>(length, causal);
            gradients<64>(causal ? 3 : 135, causal), gradients<128>(causal ? 130 : 5, causal);
        }
        if (part == "registers" || part.empty()) tensor<64>(150, causal, false), tensor<128>(causal ? 70 : 200, causal, false);
        if (part == "maps" || part.empty()) tensor<64>(causal ? 200 : 130, causal, true), tensor<128>(causal ? 150 : 260, causal, true);
    }
    return wrong != 0;
}
