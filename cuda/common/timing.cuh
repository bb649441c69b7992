// Timing: CUDA events and the host's clock in, times in microseconds and their median and quartiles out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "check.cuh"
#include "json.hpp"

namespace lab {

inline double host_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// A CUDA event. It times when `timing` is true; without, it only orders streams, which costs less.
class Event {
public:
    explicit Event(bool timing = true) {
        LAB_CUDA(cudaEventCreateWithFlags(&event_, timing ? cudaEventDefault : cudaEventDisableTiming));
    }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(cudaStream_t stream) const { LAB_CUDA(cudaEventRecord(event_, stream)); }
    void hold(cudaStream_t stream) const { LAB_CUDA(cudaStreamWaitEvent(stream, event_, 0)); }
    operator cudaEvent_t() const { return event_; }

private:
    cudaEvent_t event_ = nullptr;
};

inline double elapsed_us(const Event& from, const Event& to) {
    float milliseconds = 0;
    LAB_CUDA(cudaEventElapsedTime(&milliseconds, from, to));
    return 1000.0 * static_cast<double>(milliseconds);
}

// The p-quantile of some numbers, interpolated between neighbors.
inline double quantile(std::vector<double> values, double p) {
    if (values.empty()) return NAN;
    std::sort(values.begin(), values.end());
    const double place = p * static_cast<double>(values.size() - 1);
    const std::size_t low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

// Adds name_unit (the median), name_q1_unit, name_q3_unit and name_all_unit, e.g. total_us … total_all_us.
inline void add_spread(JsonObject& results, const std::string& name, const std::string& unit,
                       const std::vector<double>& values) {
    results.add(name + "_" + unit, median(values));
    results.add(name + "_q1_" + unit, quantile(values, 0.25));
    results.add(name + "_q3_" + unit, quantile(values, 0.75));
    results.add(name + "_all_" + unit, values);
}

}  // namespace lab
