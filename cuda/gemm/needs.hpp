// What a step needs: of the GPU and of how the matrices lie. A step's needs and what there is in; why it cannot serve, or nothing, out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lab {
namespace gemm {

struct Needs {
    int capability;    // compute capability, 80 for 8.0; 90: exactly 9, as wgmma is of no other
    int shared_bytes;  // of a block
    bool words;        // the matrices and their rows start on 16 bytes
};

inline std::string why_not(const Needs& needs, int capability, std::size_t shared_bytes, bool words) {
    const auto number = [](int cc) { return std::to_string(cc / 10) + "." + std::to_string(cc % 10); };
    if (capability < needs.capability || (needs.capability == 90 && capability / 10 != 9)) {
        return "needs compute capability " + number(needs.capability) + (needs.capability == 90 ? "" : " or more") + "; this GPU has " + number(capability);
    }
    if (static_cast<std::size_t>(needs.shared_bytes) > shared_bytes) {
        return "needs " + std::to_string((needs.shared_bytes + 1023) >> 10) + " KiB of shared memory a block; this GPU grants " + std::to_string(shared_bytes >> 10);
    }
    if (needs.words && !words) return "the copy engine takes matrices whose rows start on 16 bytes; take mma_sync";
    return "";
}

}  // namespace gemm
}  // namespace lab
