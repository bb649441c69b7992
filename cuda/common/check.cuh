// Error checks: a CUDA call in, nothing out; when it failed, one line on stderr and exit code 2.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lab {

constexpr int kExitCheckFailed = 1;  // the program ran and its result is wrong
constexpr int kExitBadUse = 2;       // bad flags, no GPU, no memory, a failing call

// The name that every message starts with; each program sets it first thing in main().
inline const char* program_name = "program";

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void fail(const char* format, ...) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: ", program_name);
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
    std::exit(kExitBadUse);
}

inline void check(cudaError_t status, const char* call, const char* file, int line) {
    if (status == cudaSuccess) return;
    const char* slash = std::strrchr(file, '/');
    fail("%s: %s (%s:%d, in %.60s)", cudaGetErrorName(status), cudaGetErrorString(status),
         slash != nullptr ? slash + 1 : file, line, call);
}

}  // namespace lab

// LAB_CUDA(cudaMalloc(...)): every CUDA call of these programs goes through here.
#define LAB_CUDA(call) ::lab::check((call), #call, __FILE__, __LINE__)

// After a kernel launch: a launch returns nothing, its error waits in cudaGetLastError().
#define LAB_LAUNCHED() LAB_CUDA(cudaGetLastError())
