// Tries to include the solution.
// SPDX-License-Identifier: Apache-2.0
// part: compute-ex01b
#include <cuda_runtime.h>

#include "../../../solutions/compute/ex01_memory_metrics/b_column_sums.cu"
