// The products' device code on the host: a fiber for each thread of the blocks of a cluster, the instructions of instructions.cuh in
// plain C++. Tells wrong results, deadlocks, and, by the address sanitizer, accesses outside an array. Exit code 0: nothing wrong.
// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies write at once in one run and when they are waited for in another. With a number, the synchronization of this number in the headers (the test numbers them) is left out.
// With one of fp32, mma, bf16: these kernels only.

#include "host_instructions.hpp"
#include "../../cuda/gemm/needs.hpp"
#include "layout_on_host.cuh"
#include "bf16_on_host.cuh"  // the headers without their includes, synchronizations numbered
#include "fp32_on_host.cuh"

namespace {

using namespace lab::gemm;

int wrong = 0;
bool special = false;  // a NaN and both infinities in each matrix

void expect(bool holds, const char* what) {
    if (holds) return;
    std::printf("wrong: %s\n", what);
    ++wrong;
}

// How many different words of 4 banks each group of 4 banks has to deliver, at most: 1 without conflicts.
int turns(const std::vector<int>& bytes) {
    std::map<int, std::set<int>> words;
    for (const int byte : bytes) words[byte / 16 % 8].insert(byte / 16);
    std::size_t most = 0;
    for (const auto& group : words) most = group.second.size() > most ? group.second.size() : most;
    return static_cast<int>(most);
}

void descriptors() {
    for (const unsigned stage : {0x400u, 0xc400u, 0x24400u}) {
        for (int group = 0; group < 2; ++group) {
            for (int i = 0; i < kTileK / 16; ++i) {
                const Described a(descriptor_a(stage + group * kGroupM * kBoxRow) + i * kStepA);
                const Described b(descriptor_b(stage + kBytesA) + i * kStepB);
                for (unsigned k = 0; k < 16; ++k) {
                    for (unsigned row = 0; row < kGroupM; ++row) {
                        const unsigned fetched = engine(stage + (group * kGroupM + row) * kBoxRow + 2 * (16 * i + k));
                        expect(a.along_k(row, k) == fetched, "wgmma finds A where the copy engine put it");
                    }
                    for (unsigned n = 0; n < 256; ++n) {
                        const unsigned fetched = engine(stage + kBytesA + n / kBox * kBytesBoxB + (16 * i + k) * kBoxRow + 2 * (n % kBox));
                        expect(b.along_n(k, n) == fetched, "wgmma finds B where the copy engine put it");
                    }
                }
            }
        }
    }
    for (unsigned row = 0; row < 64; ++row) {
        for (unsigned chunk = 0; chunk < 8; ++chunk) {
            expect(engine(row * kBoxRow + chunk * 16) == row * kBoxRow + swizzled(row, chunk) * 16, "boxes of C are swizzled as the engine expects");
        }
    }
}

void banks() {
    for (int first = 0; first < kMmaK; first += 8) {
        for (int chunk = 0; chunk < kChunksB; ++chunk) {
            std::vector<int> of_a, of_b;
            for (int r = first; r < first + 8; ++r) {
                if (chunk < kChunksA) of_a.push_back((r * kChunksA + swizzled(r, chunk)) * 16);
                of_b.push_back((r * kChunksB + swizzled(r, chunk)) * 16);
            }
            expect(turns(of_a) <= 1 && turns(of_b) == 1, "ldmatrix reads 8 rows without conflicts");
        }
    }
}

template <typename T>
void tiling() {
    std::set<std::pair<int, int>> places;
    for (int thread = 0; thread < T::kThreads; ++thread) {
        for (int r = 0; r < T::kRows; ++r) {
            for (int s = 0; s < T::kColumns; ++s) places.insert({T::row(thread, r / 4) + r % 4, T::column(thread, s / 4) + s % 4});
        }
    }
    expect(static_cast<int>(places.size()) == T::kM * T::kN, "no two threads have the same element");
    expect(places.begin()->first == 0 && places.rbegin()->first == T::kM - 1, "threads cover the tile's rows");
    for (int warp = 0; warp < T::kThreads; warp += 32) {
        std::set<int> banks;
        std::vector<int> rows, columns;
        for (int thread = warp; thread < warp + 32; ++thread) {
            banks.insert((thread % 8 * T::kPitch + thread / 8) % 32);  // where the copies of pipelined() turn A
            rows.push_back(T::row(thread, 0) * 4), columns.push_back(T::column(thread, 0) * 4);
        }
        expect(banks.size() == 32, "turning A meets no bank twice");
        if (T::kGroup == 32) expect(turns(rows) == 1 && turns(columns) == 1, "the lanes of a warp read their fragments without conflicts");
    }
}

void order() {
    for (int down = 1; down <= 20; ++down) {
        for (int across = 1; across <= 20; ++across) {
            for (const int band : {1, 4, 8, 16}) {
                std::set<std::pair<int, int>> places;
                for (int tile = 0; tile < down * across; ++tile) {
                    const Place at = place_of(tile, down, across, band);
                    expect(at.row >= 0 && at.row < down && at.column >= 0 && at.column < across, "tiles lie in the matrix");
                    expect(at.row / band == tile / (band * across), "a band is done before the next begins");
                    places.insert({at.row, at.column});
                }
                expect(static_cast<int>(places.size()) == down * across, "every tile is taken once");
            }
        }
    }
    Turn<3> turn;
    for (int i = 0; i < 20; ++i, turn.next()) expect(turn.slot == i % 3 && turn.parity == static_cast<unsigned>(i / 3 % 2), "the parity changes with each turn of the ring");
}

void sizes() {
    expect(parts(1, 128) == 1 && parts(128, 128) == 1 && parts(129, 128) == 2, "a part for the rest");
    constexpr int kMost = 227 * 1024 - 256;  // of a block, less what the barriers take
    expect(Deep::kBytes <= kMost && Wide::kBytes <= kMost, "the rings fit into shared memory");
    expect(2 * (kMmaBytes + 1024) <= 228 * 1024 && 2 * (TwoStages::kBytes + 1024) <= 228 * 1024, "two blocks fit on a multiprocessor");
    expect(40 * kGroupThreads + 232 * 2 * kGroupThreads <= 65536, "the registers of the three groups are there");
    alignas(16) float floats[8] = {};
    expect(on_words(floats, 8) && !on_words(floats, 6) && !on_words(floats + 1, 8) && on_words(floats + 4, 4), "words start on 16 bytes");
}

void refusals() {
    const auto says = [](Needs needs, int capability, int kib, bool words, const char* said) { expect(why_not(needs, capability, kib << 10, words) == said, said); };
    const Needs mapped{90, Wide::kBytes, true}, tuned{0, Tuned::kBytes, false}, mma{80, kMmaBytes, false};
    says(mapped, 90, 227, true, "");
    says(mapped, 80, 163, true, "needs compute capability 9.0; this GPU has 8.0");
    says(mapped, 100, 227, true, "needs compute capability 9.0; this GPU has 10.0");
    says(mapped, 90, 227, false, "the copy engine takes matrices whose rows start on 16 bytes; take mma_sync");
    says(mma, 75, 64, true, "needs compute capability 8.0 or more; this GPU has 7.5");
    says(mma, 100, 227, false, "");
    says(tuned, 75, 64, true, "needs 73 KiB of shared memory a block; this GPU grants 64");
    says(tuned, 80, 163, false, "");
}

// ---- the kernels -----------------------------------------------------------------------------------------------------------------

struct Sides {
    int m, n, k, lda, ldb, ldc;
};

void launch(unsigned grid_x, unsigned grid_y, unsigned threads, unsigned columns, unsigned cluster, std::function<void()> body, const char* name) {
    const bool ended = run_grid({grid_x, grid_y, 1}, threads, columns, cluster, std::move(body), [] {
        copies.clear(), products.clear();
        std::memset(memories, 0xff, sizeof memories);
    });
    if (ended) return;
    std::printf("%s: its threads wait for each other forever\n", name);
    std::exit(1);  // what the fibers hold cannot be given back
}

template <typename T>
T narrow(float x) {
    if constexpr (sizeof(T) == 4) return x;
    else return __float2bfloat16_rn(x);
}
float widen(float x) { return x; }
float widen(Bf16 x) { return __bfloat162float(x); }

// Fills matrices of exactly these sizes, runs the kernel and compares. Small whole numbers: sums are exact in any order.
template <typename T>
void check(const char* name, Sides s, int offset, const std::function<void(const T*, const T*, T*)>& kernel) {
    if (wrong != 0 && left_out >= 0) return;
    const auto make = [&](int rows, int ld, int columns) { return static_cast<T*>(std::aligned_alloc(16, (((rows - 1) * static_cast<Size>(ld) + columns + offset) * sizeof(T) + 15) / 16 * 16)); };
    T *const a = make(s.m, s.lda, s.k), *const b = make(s.k, s.ldb, s.n), *const c = make(s.m, s.ldc, s.n);
    const auto fill = [&](T* x, int rows, int columns, int ld) {
        for (int r = 0; r < rows; ++r) {
            for (int i = 0; i < (r + 1 < rows ? ld : columns); ++i) x[offset + static_cast<Size>(r) * ld + i] = narrow<T>(i < columns ? static_cast<float>(std::rand() % 5 - 2) : NAN);
        }
    };
    fill(a, s.m, s.k, s.lda), fill(b, s.k, s.n, s.ldb), fill(c, s.m, 0, s.ldc);
    for (int i = 0; special && i < 3; ++i) {
        const float value = i == 0 ? NAN : i == 1 ? INFINITY : -INFINITY;
        a[offset + static_cast<Size>((2 * i + 1) * s.m / 6) * s.lda + (i + 1) * s.k / 4] = narrow<T>(value);
        b[offset + static_cast<Size>((2 * i + 1) * s.k / 6) * s.ldb + (i + 1) * s.n / 4] = narrow<T>(value);
    }
    for (int i = 0; i < s.n; ++i) c[offset + (s.m - 1) * static_cast<Size>(s.ldc) + i] = narrow<T>(NAN);
    kernel(a + offset, b + offset, c + offset);
    long different = 0, outside = 0;
    for (int r = 0; r < s.m; ++r) {
        for (int i = 0; i < (r + 1 < s.m ? s.ldc : s.n); ++i) {
            const float found = widen(c[offset + static_cast<Size>(r) * s.ldc + i]);
            if (i >= s.n) {
                outside += found == found;
                continue;
            }
            float sum = 0;
            for (int k = 0; k < s.k; ++k) sum += widen(a[offset + static_cast<Size>(r) * s.lda + k]) * widen(b[offset + static_cast<Size>(k) * s.ldb + i]);
            different += !(found == widen(narrow<T>(sum)) || (found != found && sum != sum));
        }
    }
    if (different != 0 || outside != 0) {
        std::printf("%s, %d x %d x %d: %ld elements are wrong, %ld were written between the rows\n", name, s.m, s.n, s.k, different, outside);
        ++wrong;
    }
    std::free(a), std::free(b), std::free(c);
}

unsigned over(int whole, int part) { return static_cast<unsigned>(parts(whole, part)); }

void fp32(Sides s, int offset) {
    const auto of = [&](const char* name, auto kernel, int tile_m, int tile_n, unsigned threads, unsigned columns) {
        check<float>(name, s, offset, [&](const float* a, const float* b, float* c) {
            launch(over(s.n, tile_n), over(s.m, tile_m), threads, columns, 1, [=] { kernel(a, b, c, s.m, s.n, s.k, s.lda, s.ldb, s.ldc); }, name);
        });
    };
    const auto tiled = [&](const char* name, auto kernel, auto tiling) {
        using T = decltype(tiling);
        of(name, kernel, T::kM, T::kN, T::kThreads, T::kThreads);
    };
    of("naive", naive, kSide, kSide, kSide * kSide, kSide);
    of("coalesced", coalesced, kSide, kSide, kSide * kSide, kSide);
    of("shared_tile", shared_tile, kSide, kSide, kSide * kSide, kSide);
    of("strips", strips, kStripTile, kStripTile, kStripThreads, kStripThreads);
    of("squares", squares, kSquareTile, kSquareTile, kSquareThreads, kSquareThreads);
    tiled("vectorized", staged<ByBlock>, ByBlock{});
    tiled("warp_tiles", staged<ByWarp>, ByWarp{});
    tiled("double_buffer", pipelined<TwoStages>, TwoStages{});
    tiled("autotuned", pipelined<Tuned>, Tuned{});
}

template <typename R, bool kPersistent, int kBlocks, int kBand, bool kStore>
void ring(const char* name, Sides s) {
    check<Bf16>(name, s, 0, [&](const Bf16* a, const Bf16* b, Bf16* c) {
        const TensorMap map_a{const_cast<Bf16*>(a), s.m, s.k, s.lda, kTileM}, map_b{const_cast<Bf16*>(b), s.k, s.n, s.ldb, kTileK}, map_c{c, s.m, s.n, s.ldc, kGroupM};
        const unsigned tiles = over(s.m, kBlocks * kTileM) * over(s.n, R::kN), clusters = kPersistent && tiles > 2 ? 2 : tiles;
        launch(clusters * kBlocks, 1, kWorkThreads, kWorkThreads, kBlocks,
               [=] { specialized<R, kPersistent, kBlocks, kBand, kStore>(map_a, map_b, map_c, c, s.m, s.n, s.k, s.ldc); }, name);
    });
}

void bf16(Sides s) {
    check<Bf16>("wgmma_tma", s, 0, [&](const Bf16* a, const Bf16* b, Bf16* c) {
        const TensorMap map_a{const_cast<Bf16*>(a), s.m, s.k, s.lda, kTileM}, map_b{const_cast<Bf16*>(b), s.k, s.n, s.ldb, kTileK};
        launch(over(s.n, Simple::kN), over(s.m, kTileM), kSimpleThreads, kSimpleThreads, 1, [=] { wgmma_tma(map_a, map_b, c, s.m, s.n, s.k, s.ldc); }, "wgmma_tma");
    });
    ring<Deep, false, 1, 1, false>("specialized", s);
    ring<Deep, true, 1, 1, false>("persistent", s);
    ring<Deep, true, 2, 1, false>("cluster", s);
    ring<Deep, true, 2, kBand, false>("order", s);
    ring<Wide, true, 2, kBand, true>("store", s);
    ring<Wide, true, 1, 2 * kBand, true>("alone", s);
}

void mma(Sides s, int offset) {
    check<Bf16>("mma_sync", s, offset, [&](const Bf16* a, const Bf16* b, Bf16* c) {
        launch(over(s.n, kMmaN), over(s.m, kMmaM), kMmaThreads, kMmaThreads, 1, [=] { mma_sync(a, b, c, s.m, s.n, s.k, s.lda, s.ldb, s.ldc); }, "mma_sync");
    });
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) left_out = std::atoi(words[1]);
    const std::string part = count > 2 ? words[2] : "";
    const auto asked = [&](const char* name) { return part.empty() || part == name; };
    if (part.empty()) {
        descriptors();
        banks();
        tiling<ByBlock>();
        tiling<ByWarp>();
        tiling<TwoStages>();
        tiling<Tuned>();
        order();
        sizes();
        refusals();
    }
    for (const bool late : {false, true}) {
        lazy = late;
        if (asked("fp32")) {
            fp32({33, 65, 17, 17, 65, 65}, 0);
            if (!late) fp32({130, 140, 40, 44, 144, 148}, 0);
            else fp32({131, 129, 35, 36, 131, 133}, 1);
        }
        if (asked("mma")) mma({130, 136, 264, 264, 136, 136}, 0), mma({33, 65, 71, 72, 67, 69}, 1);
    }
    if (asked("bf16")) bf16({8, 8, 8, 8, 8, 8}), bf16({260, 264, 328, 336, 272, 280});
    if (part.empty()) {
        special = true;
        fp32({33, 65, 17, 17, 65, 65}, 0);
        mma({33, 65, 71, 72, 67, 69}, 1);
        bf16({40, 72, 72, 72, 72, 72});
    }
    return wrong != 0;
}
