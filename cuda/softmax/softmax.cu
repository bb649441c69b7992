// Softmax over rows: each step of the ladder checked and timed beside the device copy. Flags in, a table and a JSON record out.
// SPDX-License-Identifier: Apache-2.0
//
// The steps are in softmax.cuh. `chosen` takes the fastest of them for the length of the rows, `chosen_any_gpu` the fastest of
// those that need no clusters. A softmax of n elements must read and write each once, so the device copy is its ceiling.

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../common/rows_program.cuh"
#include "softmax.cuh"

namespace {

using namespace lab::rows;
namespace steps = lab::softmax;
using lab::rows::Options;

constexpr long long kMostBlocks = 0x7fffffff;
// Where `chosen` goes on to the next step.
constexpr std::size_t kWarpRowsUpToBytes = 1024;
constexpr long long kVectorizedUpTo = 8192;  // rows that the copy engine cannot fetch
template <typename T>
constexpr long long kFetchedAbove = sizeof(T) == 4 ? 2048 : 4096;  // those that it can

// Each of these fills a plan that is still open when its kernel holds rows this long.
template <typename T, int kEach, int kThreads, int kAtMost>
void take_vectorized(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kThreads) return;
    plan.kernel = name_of<T>("vectorized", {kEach, kThreads});
    plan.launch = [](const Matrix<T>& m) {
        const auto kernel = steps::vectorized<T, kEach, kThreads>;
        kernel<<<static_cast<unsigned>(m.rows), kThreads, unused_shared<T>(kernel, kAtMost)>>>(m.in, m.out, m.rows, m.columns);
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
        kernel<<<blocks, kThreads, unused_shared<T>(kernel, kAtMost)>>>(m.in, m.out, m.rows, m.columns);
    };
}

template <typename T, int kEach, int kThreads, int kParts>
void take_cluster(Plan<T>& plan, const Options& o) {
    if (!plan.open() || o.columns > kEach * kThreads * kParts || o.rows > kMostBlocks / kParts) return;
    plan.kernel = name_of<T>("cluster", {kEach, kThreads, kParts});
    plan.compute_capability = 90;
    plan.launch = [](const Matrix<T>& m) {
        steps::cluster<T, kEach, kThreads, kParts><<<static_cast<unsigned>(m.rows * kParts), kThreads>>>(m.in, m.out, m.rows, m.columns);
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
        kernel<<<staying_blocks(m.rows, kParts, kBlocks, kRows), kThreads, bytes>>>(m.in, m.out, m.rows, m.columns);
    };
}

template <typename T>
Plan<T> three_passes(const Options& o) {
    const int threads = threads_for(o.columns);
    return {"three_passes", name_of<T>("three_passes", {}), "", 0, 75, [threads](const Matrix<T>& m) {
        steps::three_passes<T><<<static_cast<unsigned>(m.rows), threads>>>(m.in, m.out, m.rows, m.columns);
    }};
}

template <typename T>
Plan<T> online(const Options& o, const std::string& variant) {
    const int threads = threads_for(o.columns);
    return {variant, name_of<T>("online", {}), "", 0, 75, [threads](const Matrix<T>& m) {
        steps::online<T><<<static_cast<unsigned>(m.rows), threads>>>(m.in, m.out, m.rows, m.columns);
    }};
}

template <typename T>
Plan<T> on_chip(const Options& o) {
    const int threads = threads_for(o.columns);
    const std::size_t bytes = static_cast<std::size_t>(o.columns) * sizeof(float);
    return {"on_chip", name_of<T>("on_chip", {}), "", bytes, 75, [=](const Matrix<T>& m) {
        allow_shared(steps::on_chip<T>, bytes);
        steps::on_chip<T><<<static_cast<unsigned>(m.rows), threads, bytes>>>(m.in, m.out, m.rows, m.columns);
    }};
}

template <typename T>
void all_warp_rows(Plan<T>& plan, const Options& o) {
    take_warp_rows<T, 8, 64, 0>(plan, o);
    take_warp_rows<T, 16, 64, 0>(plan, o);
    take_warp_rows<T, 32, 64, 16>(plan, o);
}

template <typename T>
void all_vectorized(Plan<T>& plan, const Options& o) {
    take_vectorized<T, 8, 64, 0>(plan, o);
    if constexpr (sizeof(T) == 4) {
        take_vectorized<T, 8, 128, 0>(plan, o);
        take_vectorized<T, 8, 256, 0>(plan, o);
        take_vectorized<T, 16, 256, 6>(plan, o);
        take_vectorized<T, 8, 1024, 0>(plan, o);
    } else {
        take_vectorized<T, 16, 64, 0>(plan, o);
        take_vectorized<T, 32, 64, 0>(plan, o);
        take_vectorized<T, 32, 128, 0>(plan, o);
        take_vectorized<T, 32, 256, 0>(plan, o);
    }
    take_vectorized<T, 32, 512, 0>(plan, o);
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
    take_bulk<T, 16, 256, 1, 1, 6, 2>(plan, o);
    take_bulk<T, 16, 512, 1, 1, 4, 2>(plan, o);
    if constexpr (sizeof(T) == 4) {
        take_bulk<T, 32, 512, 1, 1, 2, 2>(plan, o);
        take_bulk<T, 32, 512, 4, 1, 2, 4>(plan, o);
        take_bulk<T, 32, 512, 8, 1, 2, 4>(plan, o);
        take_bulk<T, 32, 1024, 8, 1, 1, 4>(plan, o);
    } else {
        take_bulk<T, 32, 512, 1, 2, 2, 4>(plan, o);
        take_bulk<T, 32, 512, 4, 2, 2, 8>(plan, o);
        take_bulk<T, 32, 512, 8, 2, 2, 8>(plan, o);
        take_bulk<T, 32, 1024, 8, 2, 1, 8>(plan, o);
    }
}

template <typename T>
std::vector<Plan<T>> plans(const Options& o) {
    Plan<T> any{"chosen_any_gpu", "", "", 0, 75, nullptr}, best{"chosen", "", "", 0, 75, nullptr};
    if (static_cast<std::size_t>(o.columns) * sizeof(T) <= kWarpRowsUpToBytes) all_warp_rows(any, o);
    all_vectorized(any, o);
    if (static_cast<std::size_t>(o.columns) * sizeof(T) <= kWarpRowsUpToBytes) all_warp_rows(best, o);
    const bool fetched = o.columns % kFull<T> == 0;  // every row starts on 16 bytes: the copy engine fetches no others
    if (o.columns <= (fetched ? kFetchedAbove<T> : kVectorizedUpTo)) all_vectorized(best, o);
    all_bulk(best, o);
    all_clusters(best, o);
    return {three_passes<T>(o), online<T>(o, "online"), on_chip<T>(o), first_of<T>("vectorized", all_vectorized<T>, o, "32,768"),
            first_of<T>("warp_rows", all_warp_rows<T>, o, "1,024"), first_of<T>("cluster", all_clusters<T>, o, "262,144"),
            first_of<T>("bulk", all_bulk<T>, o, "262,144"), any.open() ? online<T>(o, "chosen_any_gpu") : any,
            best.open() ? online<T>(o, "chosen") : best};
}

// The same on the host, in double precision.
void reference(const std::vector<double>& x, const std::vector<double>&, std::vector<double>& y) {
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += y[i] = std::exp(x[i] - largest);
    for (double& value : y) value /= sum;
}

}  // namespace

int main(int argc, char** argv) {
    lab::program_name = "softmax";
    const std::vector<std::string> variants{"three_passes", "online", "on_chip", "vectorized", "warp_rows", "cluster", "bulk", "chosen_any_gpu", "chosen"};
    const Options o = parse(argc, argv, "Softmax over the rows of a matrix: every step of the ladder, checked, timed and compared with the device copy.", variants);
    return o.type == "float" ? run<float>(o, plans<float>(o), reference, 0) : run<__nv_bfloat16>(o, plans<__nv_bfloat16>(o), reference, 0);
}
