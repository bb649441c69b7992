// The transpose's device code on the host, so that a sanitizer sees all it does.
// SPDX-License-Identifier: Apache-2.0
// Arrays have exactly their size; prints each wrong result and exits with 1 when there was one. With a number, the
// barrier of this number is left out, and the first wrong result is the last.

#include "host_fibers.hpp"

static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

static unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long both = low | static_cast<unsigned long long>(high) << 32;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) out |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}

static void* block_memory() {
    alignas(16) static unsigned char memory[1 << 17];
    return memory;
}

#include "transpose_on_host.cuh"  // the header, its barriers numbered

namespace steps = lab::transpose;

void launch(Dim grid, Dim block, std::function<void()> kernel) {
    run_grid(grid, block.x * block.y, block.x, 1, std::move(kernel), [] {});
}

template <typename T>
void run(int step, const T* in, T* out, int rows, int columns) {
    using namespace lab::transpose;
    const auto over = [](int n, int side) { return static_cast<unsigned>((n + side - 1) / side); };
    const Dim tiles{over(columns, kTile), over(rows, 2 * kTile), 1}, threads{kTile, kRows, 1};  // two tiles a block
    constexpr int kSide = kWords * kPer<T>, kWide = kWindowColumns<T, kWindowWords<T>>;
    switch (step) {
        case 0: return launch({over(columns, kTile), over(rows, kRows), 1}, threads, [=] { naive<T>(in, out, rows, columns); });
        case 1: return launch(tiles, threads, [=] { tiled<T, Plain>(in, out, rows, columns); });
        case 2: return launch(tiles, threads, [=] { tiled<T, Padded<4 / sizeof(T)>>(in, out, rows, columns); });
        case 3: return launch(tiles, threads, [=] { tiled<T, Swizzled<T>>(in, out, rows, columns); });
        case 4:
            return launch({over(columns, kSide) * over(rows, kSide), 1, 1}, {kWords * kWords, 1, 1},
                          [=] { vectorized<T, kWords, kWords, kGroup>(in, out, rows, columns); });
        case 5:
            return launch({over(columns, kWide) * over(rows, kWindowRows), 1, 1}, {kWindowThreads, 1, 1}, [=] {
                windowed<T, kWindowRows, kWindowLine, kWindowWords<T>, kWindowThreads, kWindowAcross<T>, kWindowGroup>(in, out, rows, columns);
            });
        default:
            return launch({over(columns, kChunkWide) * over(rows, kChunkHigh), 1, 1}, {kChunkThreads, 1, 1},
                          [=] { chunks<T, kChunkHigh, kChunkWide, kChunkThreads, kChunkGroup>(in, out, rows, columns); });
    }
}

template <typename T>
int check(int rows, int columns, int before_in, int before_out) {
    int wrong = 0;
    const std::size_t count = static_cast<std::size_t>(rows) * columns;
    for (int step = 0; step < 7; ++step) {
        if (wrong != 0 && left_out >= 0) break;
        T* in = static_cast<T*>(std::malloc((count + before_in) * sizeof(T)));
        T* out = static_cast<T*>(std::malloc((count + before_out) * sizeof(T)));
        for (std::size_t i = 0; i < count; ++i) in[before_in + i] = static_cast<T>(std::rand() % 65521);
        std::memset(out, 0xff, (count + before_out) * sizeof(T));
        run<T>(step, in + before_in, out + before_out, rows, columns);
        std::size_t different = 0;
        for (int r = 0; r < rows; ++r) {
            for (int c = 0; c < columns; ++c) {
                different += out[before_out + static_cast<std::size_t>(c) * rows + r] != in[before_in + static_cast<std::size_t>(r) * columns + c];
            }
        }
        if (different != 0) {
            std::printf("%d bytes, %d x %d, starts %d %d, step %d: %zu wrong\n", static_cast<int>(sizeof(T)), rows, columns, before_in, before_out,
                        step, different);
            ++wrong;
        }
        std::free(in);
        std::free(out);
    }
    return wrong;
}

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    int wrong = 0;
    const int shapes[][2] = {{1, 130}, {131, 1}, {33, 31}, {128, 64}, {270, 157}, {265, 133}, {135, 131}};
    for (const auto& [rows, columns] : shapes) {
        if (wrong != 0 && left_out >= 0) break;
        wrong += check<unsigned>(rows, columns, 0, 0) + check<unsigned short>(rows, columns, 0, 0);
        wrong += check<unsigned>(rows, columns, 1, 3) + check<unsigned short>(rows, columns, 1, 3);
    }
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
