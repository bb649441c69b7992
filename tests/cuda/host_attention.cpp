// The attention's device code on the host, beside the same in double precision. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
// With a number, the barrier of this number (the test numbers them) is left out, and the first wrong result is the last.

#include "host_fibers.hpp"

alignas(16) static float4 block_memory[227 << 6];
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

#include "attention_on_host.cuh"  // the header, its barriers numbered, its shared memory of any size the block's

namespace {

namespace steps = lab::attention;

constexpr int kHeads = 2;
int wrong = 0;

template <int kDim>
void check(int step, int length, bool causal) {
    if (wrong != 0 && left_out >= 0) return;
    const std::size_t count = static_cast<std::size_t>(kHeads) * length * kDim;
    const auto make = [](std::size_t n) { return static_cast<float*>(std::aligned_alloc(16, 4 * n)); };
    float *const q = make(count), *const k = make(count), *const v = make(count), *const out = make(count);
    float* const scores = make((static_cast<std::size_t>(kHeads) * length * length + 3) / 4 * 4);
    for (std::size_t i = 0; i < count; ++i) {
        q[i] = std::rand() % 2001 / 500.0f - 2, k[i] = std::rand() % 2001 / 500.0f - 2, v[i] = std::rand() % 2001 / 1000.0f - 1, out[i] = NAN;
    }
    const int per_block[] = {1, steps::kOnlineThreads * steps::kPart / kDim, steps::kQueries};
    const unsigned blocks = static_cast<unsigned>((length + per_block[step] - 1) / per_block[step]);
    const bool ended = run_grid({blocks, kHeads, 1}, 128, 128, 1, [=] {
        if (step == 0) steps::materialized<kDim>(q, k, v, out, scores, length, causal);
        else if (step == 1) steps::online<kDim>(q, k, v, out, length, causal);
        else steps::tiled<kDim>(q, k, v, out, length, causal);
    }, [] { std::memset(block_memory, 0xff, sizeof block_memory); });
    double differences = 0, squares = 0;
    std::vector<double> weights(static_cast<std::size_t>(length));
    for (int row = 0; row < kHeads * length; ++row) {
        const std::size_t head = static_cast<std::size_t>(row / length) * length * kDim, mine = static_cast<std::size_t>(row) * kDim;
        const int keys = causal ? row % length + 1 : length;
        double largest = -INFINITY, sum = 0;
        for (int j = 0; j < keys; ++j) {
            double score = 0;
            for (int d = 0; d < kDim; ++d) score += static_cast<double>(q[mine + d]) * k[head + static_cast<std::size_t>(j) * kDim + d];
            largest = std::fmax(largest, weights[j] = score / std::sqrt(kDim));
        }
        for (int j = 0; j < keys; ++j) sum += weights[j] = std::exp(weights[j] - largest);
        for (int d = 0; d < kDim; ++d) {
            double total = 0;
            for (int j = 0; j < keys; ++j) total += weights[j] * v[head + static_cast<std::size_t>(j) * kDim + d];
            const double difference = total / sum - out[mine + d];
            differences += difference * difference, squares += total / sum * total / sum;
        }
    }
    const double error = std::sqrt(differences / squares);
    if (!ended || !(error <= 1e-5)) {
        std::printf("step %d, %d of %d%s: %s, error %.1e\n", step + 1, length, kDim, causal ? ", causal" : "", ended ? "wrong" : "hangs", error);
        ++wrong;
        if (!ended) std::exit(1);
    }
    std::free(q), std::free(k), std::free(v), std::free(out), std::free(scores);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    for (int step = 0; step < 3; ++step) {
        for (const bool causal : {false, true}) {
            for (const int length : {1, 150}) check<64>(step, length, causal), check<128>(step, length, causal);
        }
    }
    return wrong != 0;
}
