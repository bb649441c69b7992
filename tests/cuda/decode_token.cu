// The one kernel of decoding, for the models that it takes and both rings, for the assembler's report.
// SPDX-License-Identifier: Apache-2.0

#include "decode/decode.cuh"

using lab::decode::Bf16;
template <int kLayers>
using Token = void (*)(const lab::decode::Model<kLayers>*, Bf16*, unsigned*, Bf16*, unsigned*, unsigned*, unsigned);

int main() {
    const Token<24> medium = lab::decode::token<1024, 16, 24, 40>;
    const Token<32> large[] = {lab::decode::token<2560, 32, 32, 40>, lab::decode::token<2560, 32, 32, 8>};
    return medium == nullptr || large[0] == large[1];
}
