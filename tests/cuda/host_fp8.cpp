// The 8-bit matmul's device code on the host, as host_gemm.cpp has the others. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
//
// With a number, the synchronization of this number in the headers (the test numbers them) is left out, and one size is run.

#include "host_instructions.hpp"
#include "layout_on_host.cuh"
#include "bf16_on_host.cuh"

struct float2 {
    float x, y;
};
static float2 make_float2(float x, float y) { return {x, y}; }

namespace lab {
namespace fp8 {

inline float widen(unsigned char byte) {
    const int exponent = byte >> 3 & 15, fraction = byte & 7;
    if ((byte & 0x7f) == 0x7f) return NAN;
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9) : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    return byte & 0x80 ? -size : size;
}
static void here(float&) {}
static int min(int a, int b) { return a < b ? a : b; }
static float load_scale(const float* from) { return *from; }
static float2 load_scales(const float* from) {
    if (reinterpret_cast<gemm::Size>(from) % 8 != 0) std::printf("two scales do not start on 8 bytes\n"), std::exit(1);
    return {from[0], from[1]};
}
template <int kN>
void multiply_e4m3(float (&d)[kN / 2], gemm::Size a, gemm::Size b, int adds) {
    float* const sums = d;
    gemm::products[fibers::now].open.push_back([=] {
        const gemm::Described of_a(a), of_b(b);
        const auto at = [](const gemm::Described& of, unsigned row, unsigned k) { return widen(shared_byte(engine(of.start + row / 8 * of.stride + row % 8 * 128 + k))); };
        const unsigned row = fibers::thread() % 128 / 32 * 16 + fibers::thread() % 32 / 4, column = fibers::thread() % 4 * 2;
        for (unsigned i = 0; i < kN / 2; ++i) {
            if (!adds) sums[i] = 0;
        }
        for (unsigned k = 0; k < 32; ++k) {
            const float low = at(of_a, row, k), high = at(of_a, row + 8, k);
            for (unsigned i = 0; i < kN / 8; ++i) {
                for (unsigned j = 0; j < 2; ++j) {
                    const float x = at(of_b, 8 * i + column + j, k);
                    sums[4 * i + j] += low * x, sums[4 * i + 2 + j] += high * x;
                }
            }
        }
    });
}

}  // namespace fp8
}  // namespace lab

#include "fp8_on_host.cuh"

namespace {

using lab::gemm::Bf16;
using lab::gemm::Size;
namespace gemm = lab::gemm;
namespace fp8 = lab::fp8;

int wrong = 0;
constexpr unsigned char kNan = 0x7f, kWhole[5] = {0xc0, 0xb8, 0x00, 0x38, 0x40};  // -2 … 2
constexpr float kPowers[4] = {0.25f, 0.5f, 2, 4};

struct Sides {
    int m, n, k;
};

void launch(unsigned grid_x, unsigned grid_y, unsigned threads, unsigned cluster, std::function<void()> body, const char* name) {
    const bool ended = run_grid({grid_x, grid_y, 1}, threads, threads, cluster, std::move(body), [] {
        gemm::copies.clear(), gemm::products.clear();
        std::memset(memories, 0xff, sizeof memories);
    });
    if (ended) return;
    std::printf("%s: its threads wait for each other forever\n", name);
    std::exit(1);
}

using Kernel = std::function<void(const gemm::TensorMap&, const gemm::TensorMap&, const gemm::TensorMap&, const float*, const float*)>;

// Arrays of exactly these sizes; whole numbers and powers of two as scales: sums are exact in any order. With a NaN in each matrix.
void check(const char* name, Sides s, int scales, bool nan, int box_rows, const Kernel& kernel) {
    if (wrong != 0 && left_out >= 0) return;
    const auto bytes = [](Size count) { return static_cast<unsigned char*>(std::aligned_alloc(16, (count + 15) / 16 * 16)); };
    const auto numbers = [](Size count) {
        std::vector<float> drawn(count);
        for (float& x : drawn) x = kPowers[std::rand() % 4];
        return drawn;
    };
    const int blocks = gemm::parts(s.k, 128);
    unsigned char *const a = bytes(static_cast<Size>(s.m) * s.k), *const b = bytes(static_cast<Size>(s.n) * s.k);
    Bf16* const c = reinterpret_cast<Bf16*>(bytes(static_cast<Size>(s.m) * s.n * 2));
    for (int i = 0; i < s.m * s.k; ++i) a[i] = kWhole[std::rand() % 5];
    for (int i = 0; i < s.n * s.k; ++i) b[i] = kWhole[std::rand() % 5];
    for (int i = 0; i < s.m * s.n; ++i) c[i] = __float2bfloat16_rn(NAN);
    if (nan) a[s.m / 2 * s.k + s.k / 3] = kNan, b[s.n / 3 * s.k + s.k - 1] = kNan;
    const std::vector<float> of_a = numbers(scales == fp8::kOneScale ? 1 : scales == fp8::kSides ? s.m : static_cast<Size>(s.m) * blocks);
    const std::vector<float> of_b = numbers(scales == fp8::kOneScale ? 1 : scales == fp8::kSides ? s.n : static_cast<Size>(gemm::parts(s.n, 128)) * blocks);
    const auto map = [](const void* start, int rows, int columns, int box_rows) { return gemm::TensorMap{static_cast<Bf16*>(const_cast<void*>(start)), rows, columns, columns, box_rows}; };
    kernel(map(a, s.m, s.k / 2, gemm::kTileM), map(b, s.n, s.k / 2, box_rows), map(c, s.m, s.n, gemm::kGroupM), of_a.data(), of_b.data());
    long different = 0;
    for (int r = 0; r < s.m; ++r) {
        for (int i = 0; i < s.n; ++i) {
            float sum = 0;
            for (int k = 0; k < s.k; ++k) {
                const int block = k / 128;
                const float x = scales == fp8::kOneScale ? of_a[0] * of_b[0]
                                : scales == fp8::kSides  ? of_a[r] * of_b[i]
                                                         : of_a[static_cast<Size>(block) * s.m + r] * of_b[static_cast<Size>(i / 128) * blocks + block];
                sum += x * fp8::widen(a[static_cast<Size>(r) * s.k + k]) * fp8::widen(b[static_cast<Size>(i) * s.k + k]);
            }
            const float found = __bfloat162float(c[static_cast<Size>(r) * s.n + i]), wanted = __bfloat162float(__float2bfloat16_rn(sum));
            different += !(found == wanted || (found != found && sum != sum));
        }
    }
    if (different != 0) {
        std::printf("%s, %d x %d x %d: %ld elements are wrong\n", name, s.m, s.n, s.k, different);
        ++wrong;
    }
    std::free(a), std::free(b), std::free(c);
}

// One cluster, which stays for all tiles.
template <typename R, int kBlocks, int kTall, int kScales, bool kPromoted, bool kBeside = false>
void ring(const char* name, Sides s, bool nan) {
    check(name, s, kScales, nan, fp8::kRowsB<R>, [&](const auto& map_a, const auto& map_b, const auto& map_c, const float* of_a, const float* of_b) {
        launch(kBlocks, 1, gemm::kWorkThreads, kBlocks,
               [=] { fp8::specialized<R, kBlocks, kTall, kScales, kPromoted, kBeside>(map_a, map_b, map_c, of_a, of_b, s.m, s.n, s.k); }, name);
    });
}

void all(Sides s, bool nan) {
    check("simple", s, fp8::kOneScale, nan, fp8::kBoxRowsB, [&](const auto& map_a, const auto& map_b, const auto& map_c, const float* of_a, const float* of_b) {
        launch(gemm::parts(s.n, gemm::Simple::kN), gemm::parts(s.m, gemm::kTileM), gemm::kSimpleThreads, 1,
               [=] { fp8::simple(map_a, map_b, map_c.matrix, of_a, of_b, s.m, s.n, s.k); }, "simple");
    });
    ring<fp8::Full, 2, gemm::kBand, fp8::kOneScale, false>("pipeline", s, nan);
    ring<fp8::Full, 2, gemm::kBand, fp8::kOneScale, true>("promoted", s, nan);
    ring<fp8::Full, 2, gemm::kBand, fp8::kSides, true>("row_column", s, nan);
    ring<fp8::Full, 2, gemm::kBand, fp8::kBlocksOf128, true>("blocks", s, nan);
    ring<fp8::Full, 2, gemm::kBand, fp8::kSides, false>("row_column, not promoted", s, nan);
    ring<fp8::Narrow, 2, gemm::kBand, fp8::kOneScale, true>("narrow", s, nan);
    ring<fp8::Narrow, 2, gemm::kBand, fp8::kSides, true, true>("beside", s, nan);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    if (fp8::Full::kBytes > 227 * 1024 - 4096) std::printf("the ring does not fit into shared memory\n"), ++wrong;
    all({130, 264, 656}, false);
    if (left_out < 0) all({1, 8, 16}, false), all({40, 400, 144}, true);
    return wrong != 0;
}
