// The kernels of the Nsight Compute exercises, for the assembler's report.
// SPDX-License-Identifier: Apache-2.0

#include "exercises_ncu/exercises_ncu.cuh"
