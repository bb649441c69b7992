// Device code on the host: a fiber for each thread of the blocks of a cluster; barriers, and a barrier of each warp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sanitizer/common_interface_defs.h>
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

struct Dim {
    unsigned x = 1, y = 1, z = 1;
};
static Dim threadIdx, blockIdx, blockDim, gridDim;
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

// ---- fibers ----------------------------------------------------------------------------------------------------------------------

// Turn by turn each fiber runs until it has to wait; in every other turn they go from the last to the first. A turn in which nothing
// happened that anybody waits for: nothing ever will.
namespace fibers {
constexpr std::size_t kStack = 1 << 17;

struct Fiber {
    void* at[5];  // where it goes on
    std::vector<char> stack = std::vector<char>(kStack);
    bool begun = false, done;
};
static std::vector<Fiber> all;
static void* scheduler[5];
static const void* scheduler_stack;
static std::size_t scheduler_size;
static unsigned now, threads, columns;  // of a block; along x
static unsigned now_block, now_thread;
static long happened;
static std::function<void()> body;

inline int rank() { return static_cast<int>(now_block); }
inline unsigned thread() { return now_thread; }

// The compiler's own jumps: swapcontext() asks the kernel each time.
#define LAB_SWITCH __attribute__((noinline, no_sanitize("address"))) static void
LAB_SWITCH go_on(void** to) { __builtin_longjmp(to, 1); }
LAB_SWITCH change(void** from, void** to) {
    if (__builtin_setjmp(from) == 0) go_on(to);
}
static void yield() {
    void* frames = nullptr;
    __sanitizer_start_switch_fiber(&frames, scheduler_stack, scheduler_size);
    change(all[now].at, scheduler);
    __sanitizer_finish_switch_fiber(frames, &scheduler_stack, &scheduler_size);
}
static void start() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
    for (;;) {  // for the next block of the same number of threads, too
        body();
        all[now].done = true;
        ++happened;
        yield();
    }
}
LAB_SWITCH begin(void** from, Fiber& fiber) {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack = {fiber.stack.data(), 0, kStack};
    makecontext(&context, start, 0);
    fiber.begun = true;
    if (__builtin_setjmp(from) == 0) setcontext(&context);
}
template <typename Condition>
static void until(Condition holds) {
    while (!holds()) yield();
}
// Blocks first … first + count - 1, together. False: they wait for each other forever.
static bool run(unsigned first, unsigned count) {
    const unsigned total = threads * count;
    if (all.size() < total) all.resize(total);
    for (unsigned t = 0; t < total; ++t) all[t].done = false;
    unsigned left = total;
    for (unsigned turn = 0; left != 0; ++turn) {
        const long before = happened;
        for (unsigned n = 0; n < total; ++n) {
            now = turn % 2 == 0 ? n : total - 1 - n;
            if (all[now].done) continue;
            now_block = now / threads, now_thread = now % threads;
            threadIdx = {now_thread % columns, now_thread / columns, 0};
            blockIdx = {(first + now_block) % gridDim.x, (first + now_block) / gridDim.x, 0};
            void* frames = nullptr;
            Fiber& fiber = all[now];
            __sanitizer_start_switch_fiber(&frames, fiber.stack.data(), kStack);
            if (fiber.begun) change(scheduler, fiber.at);
            else begin(scheduler, fiber);
            __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
            left -= all[now].done;
        }
        if (happened == before) return false;
    }
    return true;
}

struct Meeting {
    unsigned here = 0, held = 0;
    void meet(unsigned count) {
        const unsigned mine = held;
        if (++here == count) here = 0, ++held, ++happened;
        else until([&] { return held != mine; });
    }
    void arrive(unsigned count) {
        if (++here == count) here = 0, ++held, ++happened;
    }
};
static std::map<int, Meeting> meetings;  // block · 100 + number; a number below 0: the whole cluster
static Meeting& meeting(int number) { return meetings[number < 0 ? number : 100 * rank() + number]; }
}  // namespace fibers

static int left_out = -1;
#define LAB_UNLESS(number) if (left_out != (number))
static void warp_meet() { fibers::meeting(10 + static_cast<int>(fibers::thread()) / 32).meet(32); }
static void __syncthreads(int number) { LAB_UNLESS(number) fibers::meeting(0).meet(fibers::threads); }

// Runs a grid, cluster by cluster. What is left by those that went before is for `between` to clear.
static bool run_grid(Dim grid, unsigned threads, unsigned columns, unsigned cluster, std::function<void()> body, const std::function<void()>& between) {
    fibers::body = std::move(body);
    fibers::threads = threads, fibers::columns = columns;
    gridDim = grid, blockDim = {columns, threads / columns, 1};
    for (unsigned block = 0; block < grid.x * grid.y; block += cluster) {
        fibers::meetings.clear();
        between();
        if (!fibers::run(block, cluster)) return false;
    }
    return true;
}

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
