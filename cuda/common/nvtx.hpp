// NVTX ranges: a name in, a range on the profiler's timeline out that closes with its scope; free without a profiler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace lab {

class Range {
public:
    explicit Range(const char* name) { nvtxRangePushA(name); }
    explicit Range(const std::string& name) : Range(name.c_str()) {}
    ~Range() { nvtxRangePop(); }
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
};

// The range that says «analyze this»: captures are trimmed to it.
constexpr const char* kMeasured = "lab:measured";

}  // namespace lab
