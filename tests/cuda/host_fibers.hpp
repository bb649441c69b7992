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
static Dim threadIdx, blockIdx, gridDim;
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
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(kStack);
    bool done;
};
static std::vector<Fiber> all;
static ucontext_t scheduler;
static const void* scheduler_stack;
static std::size_t scheduler_size;
static unsigned now, threads, columns;  // of a block; along x
static long happened;
static std::function<void()> body;

static int rank() { return static_cast<int>(now / threads); }
static unsigned thread() { return now % threads; }

static void start() {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_size);
    body();
    all[now].done = true;
    ++happened;
    __sanitizer_start_switch_fiber(nullptr, scheduler_stack, scheduler_size);
    swapcontext(&all[now].context, &scheduler);
}
static void yield() {
    void* frames = nullptr;
    __sanitizer_start_switch_fiber(&frames, scheduler_stack, scheduler_size);
    swapcontext(&all[now].context, &scheduler);
    __sanitizer_finish_switch_fiber(frames, &scheduler_stack, &scheduler_size);
}
template <typename Condition>
static void until(Condition holds) {
    while (!holds()) yield();
}
// Blocks first … first + count - 1, together. False: they wait for each other forever.
static bool run(unsigned first, unsigned count) {
    const unsigned total = threads * count;
    if (all.size() < total) all.resize(total);
    for (unsigned t = 0; t < total; ++t) {
        Fiber& fiber = all[t];
        fiber.done = false;
        getcontext(&fiber.context);
        fiber.context.uc_stack = {fiber.stack.data(), 0, kStack};
        makecontext(&fiber.context, start, 0);
        fiber.context.uc_stack.ss_size = 0;  // else the sanitizer forgets at each switch where a stack's arrays end
    }
    unsigned left = total;
    for (unsigned turn = 0; left != 0; ++turn) {
        const long before = happened;
        for (unsigned n = 0; n < total; ++n) {
            now = turn % 2 == 0 ? n : total - 1 - n;
            if (all[now].done) continue;
            threadIdx = {thread() % columns, thread() / columns, 0};
            blockIdx = {(first + now / threads) % gridDim.x, (first + now / threads) / gridDim.x, 0};
            void* frames = nullptr;
            __sanitizer_start_switch_fiber(&frames, all[now].stack.data(), kStack);
            swapcontext(&scheduler, &all[now].context);
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
    gridDim = grid;
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
