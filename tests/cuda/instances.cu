// Every attention step of the catalogue, the one kernel of decoding for the models that it takes and both rings, the tensor
// cores' part of the matmul, and the 8-bit matmul's steps: for the assembler's report.
// SPDX-License-Identifier: Apache-2.0

#include "attention/attention.cuh"
#include "decode/decode.cuh"
#include "energy/cores.cuh"
#include "fp8/fp8.cuh"
#include "paged_decode/ring.cuh"

namespace steps = lab::attention;

void (*const readable[])(const float*, const float*, const float*, float*, int, int) = {steps::online<64>, steps::online<128>, steps::tiled<64>,
                                                                                        steps::tiled<128>};
void (*const with_scores[])(const float*, const float*, const float*, float*, float*, int, int) = {steps::materialized<64>, steps::materialized<128>};
const auto queries = steps::backward_queries<64>, wide_queries = steps::backward_queries<128>;
const auto keys = steps::backward_keys<64>, wide_keys = steps::backward_keys<128>;
const auto cores = lab::energy::cores<lab::gemm::Deep>;
const auto medium = lab::decode::token<1024, 16, 24, 40>;
const auto large = lab::decode::token<2560, 32, 32, 40>, small_ring = lab::decode::token<2560, 32, 32, 8>;
const auto one_stage = lab::fp8::simple;
const auto pipeline = lab::fp8::specialized<lab::fp8::Full, 2, lab::gemm::kBand, lab::fp8::kOneScale, false>;
const auto of_sides = lab::fp8::specialized<lab::fp8::Full, 2, lab::gemm::kBand, lab::fp8::kSides, false>;
const auto promoted = lab::fp8::specialized<lab::fp8::Full, 2, lab::gemm::kBand, lab::fp8::kOneScale, true>;
const auto row_column = lab::fp8::specialized<lab::fp8::Full, 2, lab::gemm::kBand, lab::fp8::kSides, true>;
const auto narrow = lab::fp8::specialized<lab::fp8::Narrow, 2, lab::gemm::kBand, lab::fp8::kOneScale, true>;
const auto beside = lab::fp8::specialized<lab::fp8::Narrow, 2, lab::gemm::kBand, lab::fp8::kSides, true, true>;
const auto by_blocks = lab::fp8::specialized<lab::fp8::Full, 1, 16, lab::fp8::kBlocksOf128, true>;
const auto ring_of_pages = lab::paged_decode::ring;
