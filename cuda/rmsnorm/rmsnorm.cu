// RMSNorm over rows: each step of the ladder checked and timed beside the device copy. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// The steps are in rmsnorm.cuh. `chosen` takes the fastest of them for the length of the rows, `chosen_any_gpu` the fastest of
// those that need no clusters. A norm of n elements must read and write each once, so the device copy is its ceiling.

#include <cuda_runtime.h>

#include <cmath>
#include <string>
#include <vector>

#include "../common/rows_program.cuh"
#include "rmsnorm.cuh"

namespace {

using namespace lab::rows;
namespace steps = lab::rmsnorm;
using lab::rows::Options;

constexpr long long kMostBlocks = 0x7fffffff;
constexpr float kEpsilon = 1e-6f;
// Where `chosen` goes on to the next step.
constexpr std::size_t kWarpRowsUpToBytes = 1024;
constexpr long long kVectorizedUpTo = 16384;  // rows that the copy engine cannot fetch
constexpr long long kFetchedAbove = 2048;     // those that it can

// Each of these fills a plan that is still open when its kernel holds rows this long.
template <typename T, int kEach, int kThreads, int kAtMost>
void take_vectorized(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kThreads) return;
    plan.kernel = name_of<T>("vectorized", {kEach, kThreads});
    plan.launch = [](const Matrix<T>& m) {
        const auto kernel = steps::vectorized<T, kEach, kThreads>;
        kernel<<<static_cast<unsigned>(m.rows), kThreads, unused_shared<T>(kernel, kAtMost)>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    };
}

template <typename T, int kEach, int kThreads, int kAtMost>
void take_warp_rows(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kWarp) return;
    plan.kernel = name_of<T>("warp_rows", {kEach, kThreads});
    plan.launch = [](const Matrix<T>& m) {
        constexpr long long kRows = kThreads / kWarp;
        const auto kernel = steps::warp_rows<T, kEach, kThreads>;
        const auto blocks = static_cast<unsigned>((m.rows + kRows - 1) / kRows);
        kernel<<<blocks, kThreads, unused_shared<T>(kernel, kAtMost)>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    };
}

template <typename T, int kEach, int kThreads, int kParts>
void take_cluster(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kThreads * kParts || o.rows > kMostBlocks / kParts) return;
    plan.kernel = name_of<T>("cluster", {kEach, kThreads, kParts});
    plan.compute_capability = 90;
    plan.launch = [](const Matrix<T>& m) {
        steps::cluster<T, kEach, kThreads, kParts><<<static_cast<unsigned>(m.rows * kParts), kThreads>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    };
}

template <typename T, int kEach, int kThreads, int kParts, int kStages, int kBlocks, int kRows>
void take_bulk(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kThreads * kParts) return;
    plan.kernel = name_of<T>("bulk", {kEach, kThreads, kParts, kStages, kBlocks});
    plan.compute_capability = 90;
    plan.shared_bytes = kStages * static_cast<std::size_t>(slice_length<T>(static_cast<int>(o.columns), kParts)) * sizeof(T);
    plan.launch = [bytes = plan.shared_bytes](const Matrix<T>& m) {
        const auto kernel = steps::bulk<T, kEach, kThreads, kParts, kStages, kBlocks>;
        allow_shared(kernel, bytes);
        kernel<<<staying_blocks(m.rows, kParts, kBlocks, kRows), kThreads, bytes>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    };
}

template <typename T>
Plan<T> two_passes(const Options& o, const std::string& variant) {
    const int threads = threads_for(o.columns);
    return {variant, name_of<T>("two_passes", {}), "", 0, 75, [threads](const Matrix<T>& m) {
        steps::two_passes<T><<<static_cast<unsigned>(m.rows), threads>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    }};
}

template <typename T>
Plan<T> on_chip(const Options& o) {
    const int threads = threads_for(o.columns);
    const std::size_t bytes = static_cast<std::size_t>(o.columns) * sizeof(float);
    return {"on_chip", name_of<T>("on_chip", {}), "", bytes, 75, [=](const Matrix<T>& m) {
        allow_shared(steps::on_chip<T>, bytes);
        steps::on_chip<T><<<static_cast<unsigned>(m.rows), threads, bytes>>>(m.in, m.weight, m.out, m.rows, m.columns, kEpsilon);
    }};
}

template <typename T>
void all_warp_rows(Plan<T>& plan, const Options& o) {
    take_warp_rows<T, 8, 64, 0>(plan, o);
    take_warp_rows<T, 16, 64, 0>(plan, o);
    take_warp_rows<T, 32, 64, 0>(plan, o);
}

template <typename T>
void all_vectorized(Plan<T>& plan, const Options& o) {
    take_vectorized<T, 8, 64, 0>(plan, o);
    if constexpr (sizeof(T) == 4) {
        take_vectorized<T, 8, 128, 0>(plan, o);
        take_vectorized<T, 8, 256, 0>(plan, o);
    } else {
        take_vectorized<T, 16, 64, 0>(plan, o);
        take_vectorized<T, 16, 128, 0>(plan, o);
    }
    take_vectorized<T, 16, 256, 0>(plan, o);
    if constexpr (sizeof(T) == 4) take_vectorized<T, 8, 1024, 0>(plan, o);
    else take_vectorized<T, 32, 256, 0>(plan, o);
    take_vectorized<T, 16, 1024, 0>(plan, o);
    take_vectorized<T, 32, 1024, 0>(plan, o);
}

template <typename T>
void all_clusters(Plan<T>& plan, const Options& o) {
    take_cluster<T, 32, 256, 2>(plan, o);
    take_cluster<T, 32, 256, 8>(plan, o);
    take_cluster<T, 32, 1024, 4>(plan, o);
    take_cluster<T, 32, 1024, 8>(plan, o);
}

template <typename T>
void all_bulk(Plan<T>& plan, const Options& o) {
    if constexpr (sizeof(T) == 4) {
        take_bulk<T, 16, 256, 1, 1, 4, 2>(plan, o);
        take_bulk<T, 16, 512, 1, 1, 2, 2>(plan, o);
        take_bulk<T, 16, 1024, 1, 1, 1, 4>(plan, o);
        take_bulk<T, 32, 256, 8, 2, 3, 6>(plan, o);
        take_bulk<T, 32, 512, 8, 2, 1, 69>(plan, o);
    } else {
        take_bulk<T, 16, 256, 1, 1, 8, 2>(plan, o);
        take_bulk<T, 16, 512, 1, 1, 4, 2>(plan, o);
        take_bulk<T, 16, 1024, 1, 1, 2, 2>(plan, o);
        take_bulk<T, 32, 256, 8, 2, 4, 12>(plan, o);
        take_bulk<T, 32, 512, 8, 2, 2, 8>(plan, o);
    }
}

template <typename T>
std::vector<Plan<T>> plans(const Options& o) {
    Plan<T> any{"chosen_any_gpu", "", "", 0, 75, nullptr}, best{"chosen", "", "", 0, 75, nullptr};
    if (static_cast<std::size_t>(o.columns) * sizeof(T) <= kWarpRowsUpToBytes) all_warp_rows(any, o);
    all_vectorized(any, o);
    if (static_cast<std::size_t>(o.columns) * sizeof(T) <= kWarpRowsUpToBytes) all_warp_rows(best, o);
    const bool fetched = o.columns % kFull<T> == 0;  // every row starts on 16 bytes: the copy engine fetches no others
    if (o.columns <= (fetched ? kFetchedAbove : kVectorizedUpTo)) all_vectorized(best, o);
    all_bulk(best, o);
    all_clusters(best, o);
    return {two_passes<T>(o, "two_passes"), on_chip<T>(o), first_of<T>("vectorized", all_vectorized<T>, o, "32,768"),
            first_of<T>("warp_rows", all_warp_rows<T>, o, "1,024"), first_of<T>("cluster", all_clusters<T>, o, "262,144"),
            first_of<T>("bulk", all_bulk<T>, o, "131,072"), any.open() ? two_passes<T>(o, "chosen_any_gpu") : any,
            best.open() ? two_passes<T>(o, "chosen") : best};
}

// The same on the host, in double precision.
void reference(const std::vector<double>& x, const std::vector<double>& weight, std::vector<double>& y) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(kEpsilon));
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "rmsnorm";
    const std::vector<std::string> variants{"two_passes", "on_chip", "vectorized", "warp_rows", "cluster", "bulk", "chosen_any_gpu", "chosen"};
    const Options o = parse(argc, argv, "RMSNorm over the rows of a matrix: every step of the ladder, checked, timed and compared with the device copy.", variants);
    return o.type == "float" ? run<float>(o, plans<float>(o), reference, static_cast<std::size_t>(o.columns) * sizeof(float)) : run<__nv_bfloat16>(o, plans<__nv_bfloat16>(o), reference, static_cast<std::size_t>(o.columns) * sizeof(__nv_bfloat16));
}
