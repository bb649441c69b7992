// Every attention step of the catalogue, for the assembler's report.
// SPDX-License-Identifier: Apache-2.0

#include "attention/attention.cuh"

using Step = void (*)(const float*, const float*, const float*, float*, int, int);
using WithScores = void (*)(const float*, const float*, const float*, float*, float*, int, int);

int main() {
    const Step steps[] = {lab::attention::online<64>, lab::attention::online<128>, lab::attention::tiled<64>, lab::attention::tiled<128>};
    const WithScores others[] = {lab::attention::materialized<64>, lab::attention::materialized<128>};
    const auto queries = lab::attention::backward_queries<64>, wide = lab::attention::backward_queries<128>;
    const auto keys = lab::attention::backward_keys<64>, wide_keys = lab::attention::backward_keys<128>;
    return steps[0] == nullptr || others[0] == nullptr || queries == wide || keys == wide_keys;
}
