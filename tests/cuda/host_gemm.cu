// The arithmetic of cuda/gemm on the host: addresses, descriptors, the order of tiles. Says what is wrong; exit code 0: nothing.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "gemm/bf16.cuh"
#include "gemm/fp32.cuh"

namespace {

using namespace lab::gemm;

int wrong = 0;

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

// Where the copy engine puts the byte that would lie at `place` without a swizzle (boxes start on 1024 bytes): bits 4 to 6 are
// exclusive-ored with bits 7 to 9.
unsigned engine(unsigned place) { return place ^ ((place >> 7 & 7) << 4); }

// What a descriptor says of a matrix, by the layouts in the PTX manual («Strides», 128-byte swizzle): the byte of an element.
struct Described {
    unsigned start, leading, stride;
    explicit Described(Size d)
        : start(static_cast<unsigned>(d & 0x3fff) << 4), leading(static_cast<unsigned>(d >> 16 & 0x3fff) << 4), stride(static_cast<unsigned>(d >> 32 & 0x3fff) << 4) {
        expect(d >> 62 == 1, "the descriptor names the 128-byte swizzle");
        expect((d >> 49 & 7) == 0, "the pattern starts where the matrix does");
    }
    unsigned along_k(unsigned row, unsigned k) const { return engine(start + row / 8 * stride + row % 8 * 128 + 2 * k); }
    unsigned along_n(unsigned k, unsigned n) const { return engine(start + n / 64 * leading + k / 8 * stride + k % 8 * 128 + n % 64 * 2); }
};

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
    expect(2 * (kMmaBytes + 1024) <= 228 * 1024 && 2 * (Tuned::kBytes + 1024) <= 228 * 1024, "two blocks fit on a multiprocessor");
    expect(40 * kGroupThreads + 232 * 2 * kGroupThreads <= 65536, "the registers of the three groups are there");
    alignas(16) float floats[8] = {};
    expect(on_words(floats, 8) && !on_words(floats, 6) && !on_words(floats + 1, 8) && on_words(floats + 4, 4), "words start on 16 bytes");
}

}  // namespace

int main() {
    descriptors();
    banks();
    tiling<ByBlock>();
    tiling<ByWarp>();
    tiling<TwoStages>();
    tiling<Tuned>();
    order();
    sizes();
    return wrong != 0;
}
