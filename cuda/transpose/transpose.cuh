// Transpose: a matrix [rows, columns] in GPU memory in, its transpose [columns, rows] out; from naive to 16-byte blocks.
// SPDX-License-Identifier: Apache-2.0
//
// Device code only, for nvcc and NVRTC. T: an unsigned type of 2 or 4 bytes; values are moved, never computed with.
// Grids: x counts tiles along the columns of the input, y along its rows; further rows of tiles are taken in a loop.
#pragma once

namespace lab::transpose {

using Size = unsigned long long;

constexpr int kTile = 32;  // elements a side, for the steps up to swizzled
constexpr int kRows = 8;   // rows of threads of their blocks: 32 × 8 threads

// One element a thread. Reads are coalesced; the lanes of a warp write to 32 rows of the output.
template <typename T>
__global__ void naive(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < rows; r += gridDim.y * blockDim.y) {
        if (c < columns) out[static_cast<Size>(c) * rows + r] = in[static_cast<Size>(r) * columns + c];
    }
}

// How an element of a 32 × 32 tile is placed in shared memory: (row, column) → offset.
struct Plain {  // a column lies in one bank: 32 lanes that read it wait for one another
    static constexpr int kElements = kTile * kTile;
    __device__ static int at(int r, int c) { return r * kTile + c; }
};
template <int Pad>
struct Padded {  // rows Pad elements longer than they need be, so that a column goes through all banks
    static constexpr int kElements = kTile * (kTile + Pad);
    __device__ static int at(int r, int c) { return r * (kTile + Pad) + c; }
};
template <typename T>
struct Swizzled {  // the same without the unused column: columns change places within a row, differently in each row
    static constexpr int kElements = kTile * kTile, kOfBank = 4 / static_cast<int>(sizeof(T));
    __device__ static int at(int r, int c) { return r * kTile + (c ^ r / kOfBank * kOfBank); }
};

// Through a tile in shared memory: rows are read, columns of the tile are written as rows; both coalesced.
template <typename T, typename Place>
__global__ void __launch_bounds__(kTile * kRows) tiled(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    __shared__ T tile[Place::kElements];
    const int x = threadIdx.x, y = threadIdx.y, c0 = blockIdx.x * kTile;
    for (int r0 = blockIdx.y * kTile; r0 < rows; r0 += gridDim.y * kTile) {
#pragma unroll
        for (int k = 0; k < kTile; k += kRows) {
            const int r = r0 + y + k, c = c0 + x;
            if (r < rows && c < columns) tile[Place::at(y + k, x)] = in[static_cast<Size>(r) * columns + c];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kTile; k += kRows) {
            const int c = c0 + y + k, r = r0 + x;
            if (r < rows && c < columns) out[static_cast<Size>(c) * rows + r] = tile[Place::at(x, y + k)];
        }
        __syncthreads();
    }
}

// ---- 16 bytes a thread and access ----------------------------------------------------------------------------------------

// Rows of E elements (16 bytes each) in, the transposed E × E block out; in registers.
__device__ __forceinline__ void transpose_block(const uint4 (&in)[4], uint4 (&out)[4], unsigned) {
    out[0] = make_uint4(in[0].x, in[1].x, in[2].x, in[3].x);
    out[1] = make_uint4(in[0].y, in[1].y, in[2].y, in[3].y);
    out[2] = make_uint4(in[0].z, in[1].z, in[2].z, in[3].z);
    out[3] = make_uint4(in[0].w, in[1].w, in[2].w, in[3].w);
}

__device__ __forceinline__ void transpose_block(const uint4 (&in)[8], uint4 (&out)[8], unsigned short) {
    constexpr unsigned kLow = 0x5410, kHigh = 0x7632;  // the lower halves of two words, the upper ones
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned pick = half == 0 ? kLow : kHigh;
        out[0 + half] = make_uint4(__byte_perm(in[0].x, in[1].x, pick), __byte_perm(in[2].x, in[3].x, pick),
                                   __byte_perm(in[4].x, in[5].x, pick), __byte_perm(in[6].x, in[7].x, pick));
        out[2 + half] = make_uint4(__byte_perm(in[0].y, in[1].y, pick), __byte_perm(in[2].y, in[3].y, pick),
                                   __byte_perm(in[4].y, in[5].y, pick), __byte_perm(in[6].y, in[7].y, pick));
        out[4 + half] = make_uint4(__byte_perm(in[0].z, in[1].z, pick), __byte_perm(in[2].z, in[3].z, pick),
                                   __byte_perm(in[4].z, in[5].z, pick), __byte_perm(in[6].z, in[7].z, pick));
        out[6 + half] = make_uint4(__byte_perm(in[0].w, in[1].w, pick), __byte_perm(in[2].w, in[3].w, pick),
                                   __byte_perm(in[4].w, in[5].w, pick), __byte_perm(in[6].w, in[7].w, pick));
    }
}

template <typename T>
constexpr int kPer = 16 / static_cast<int>(sizeof(T));  // elements of a word

// Whether rows of both matrices start on 16-byte boundaries.
template <typename T>
__device__ __forceinline__ bool on_words(const T* in, const T* out, int rows, int columns) {
    return rows % kPer<T> == 0 && columns % kPer<T> == 0 && (reinterpret_cast<Size>(in) | reinterpret_cast<Size>(out)) % 16 == 0;
}

// A tile whose rows lie on words, X words wide and Y words high. Each of the X × Y threads reads E rows of 16 bytes, all under
// way at once, turns them in registers, and leaves them in shared memory as words of the output's rows; then each word goes
// out. Words are swizzled: of the words w of row r, w ^ (r / E) % 8 is the place, so that any 8 lanes write or read 8
// different groups of 4 banks.
template <typename T, int X, int Y>
__device__ __forceinline__ void words_tile(const T* __restrict__ in, T* __restrict__ out, uint4* tile, int r0, int c0, int rows,
                                           int columns) {
    constexpr int E = kPer<T>;
    const int x = threadIdx.x % X, y = threadIdx.x / X;
    const auto place = [](int row, int word) { return row * Y + (word ^ (row / E) % 8); };
    if (r0 + y * E < rows && c0 + x * E < columns) {
        uint4 lines[E], turned[E];
        const T* from = in + static_cast<Size>(r0 + y * E) * columns + c0 + x * E;
#pragma unroll
        for (int k = 0; k < E; ++k) lines[k] = *reinterpret_cast<const uint4*>(from + static_cast<Size>(k) * columns);
        transpose_block(lines, turned, T());
#pragma unroll
        for (int k = 0; k < E; ++k) tile[place(x * E + k, y)] = turned[k];
    }
    __syncthreads();
    const int word = threadIdx.x % Y, first = threadIdx.x / Y;  // of the output's tile
#pragma unroll
    for (int k = 0; k < E; ++k) {
        const int row = first + k * X;
        if (r0 + word * E < rows && c0 + row < columns) {
            *reinterpret_cast<uint4*>(out + static_cast<Size>(c0 + row) * rows + r0 + word * E) = tile[place(row, word)];
        }
    }
    __syncthreads();
}

// Any tile, through the same shared memory, element by element: for rows that start anywhere.
template <typename T, int X, int Y>
__device__ __forceinline__ void elements_tile(const T* __restrict__ in, T* __restrict__ out, T* tile, int r0, int c0, int rows,
                                              int columns) {
    constexpr int E = kPer<T>, kWide = X * E, kHigh = Y * E;
    const auto place = [](int r, int c) { return c * kHigh + (r ^ c % 32); };
#pragma unroll 4
    for (int i = threadIdx.x; i < kWide * kHigh; i += X * Y) {
        const int r = i / kWide, c = i % kWide;
        if (r0 + r < rows && c0 + c < columns) tile[place(r, c)] = in[static_cast<Size>(r0 + r) * columns + c0 + c];
    }
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x; i < kWide * kHigh; i += X * Y) {
        const int r = i % kHigh, c = i / kHigh;
        if (r0 + r < rows && c0 + c < columns) out[static_cast<Size>(c0 + c) * rows + r0 + r] = tile[place(r, c)];
    }
    __syncthreads();
}

// X × Y threads; a tile is X words wide and Y words high (E × E elements a thread).
template <typename T, int X, int Y>
__global__ void __launch_bounds__(X* Y) vectorized(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    constexpr int E = kPer<T>;
    static_assert(Y % 8 == 0, "the swizzle takes 8 words of a row");
    __shared__ uint4 tile[X * Y * E];
    const bool words = on_words(in, out, rows, columns);
    const int c0 = blockIdx.x * X * E;
    for (int r0 = blockIdx.y * Y * E; r0 < rows; r0 += gridDim.y * Y * E) {
        if (words) words_tile<T, X, Y>(in, out, tile, r0, c0, rows, columns);
        else elements_tile<T, X, Y>(in, out, reinterpret_cast<T*>(tile), r0, c0, rows, columns);
    }
}

// ---- rows that start anywhere --------------------------------------------------------------------------------------------

constexpr int kWindowThreads = 256;

// 4 bytes of a row: one element of column c, or two. A row of 2-byte elements may start in the middle of 4 bytes; its words
// then begin one element later, and the last lane takes the first and the last element.
template <typename T>
struct Piece {
    unsigned value;
    int low, high;  // columns, from the tile's first; high only for 2-byte types
};

template <typename T, int Columns>
__device__ __forceinline__ Piece<T> piece_place(const T* row, int lane) {
    if constexpr (sizeof(T) == 4) return {0, lane, lane};
    const bool between = reinterpret_cast<Size>(row) % 4 != 0;
    if (!between) return {0, 2 * lane, 2 * lane + 1};
    return lane < 31 ? Piece<T>{0, 2 * lane + 1, 2 * lane + 2} : Piece<T>{0, Columns - 1, 0};
}

template <typename T>
__device__ __forceinline__ unsigned piece_load(const T* row, const Piece<T>& p, int valid) {
    if constexpr (sizeof(T) == 4) return p.low < valid ? row[p.low] : 0;
    if (p.high == p.low + 1 && p.high < valid) return *reinterpret_cast<const unsigned*>(row + p.low);
    return (p.low < valid ? row[p.low] : 0u) | (p.high < valid ? row[p.high] : 0u) << 16;
}

// What one thread stores: E elements of an output row, a column of the tile.
template <typename T, int Pitch>
__device__ __forceinline__ uint4 column_word(const T* column) {
    if constexpr (sizeof(T) == 4) return make_uint4(column[0], column[Pitch], column[2 * Pitch], column[3 * Pitch]);
    const auto pair = [=](int k) { return column[k * Pitch] | static_cast<unsigned>(column[(k + 1) * Pitch]) << 16; };
    return make_uint4(pair(0), pair(2), pair(4), pair(6));
}

// Rows that start anywhere cut sectors of 32 bytes in two, and a sector of which a part is written costs more than a whole
// one. So the tile reads Line bytes more rows than it writes, and each row of the output takes the window of them that starts
// on a boundary of Line bytes: all writes are whole words on whole sectors. Reads may share sectors; the cache serves them.
// The tile is 128 bytes wide and Rows high.
template <typename T, int Rows, int Line>
__global__ void __launch_bounds__(kWindowThreads) windowed(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    constexpr int E = kPer<T>, kOfBank = 4 / static_cast<int>(sizeof(T)), kColumns = 32 * kOfBank, kWarps = kWindowThreads / 32;
    constexpr int kLine = Line / static_cast<int>(sizeof(T)), kRead = Rows + kLine, kLoads = kRead / kWarps;
    constexpr int kPitch = kColumns + kOfBank, kRun = 8 * E, kRuns = Rows / kRun;  // a run: 128 bytes of an output row
    static_assert(kRead % kWarps == 0 && Rows % kRun == 0 && Rows % kLine == 0, "whole rows a warp, whole runs a tile");
    __shared__ T tile[kRead * kPitch];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c0 = blockIdx.x * kColumns, valid = columns - c0;
    // Elements from the start of output row c0 + c, at r0, to the next boundary.
    const auto shift = [=](int c, int r0) {
        const Size place = reinterpret_cast<Size>(out + static_cast<Size>(c0 + c) * rows + r0) / sizeof(T);
        return static_cast<int>((kLine - place % kLine) % kLine);
    };
    for (int r0 = blockIdx.y * Rows; r0 < rows; r0 += gridDim.y * Rows) {
        unsigned values[kLoads];
        const T* row = in + static_cast<Size>(r0 + warp) * columns + c0;
#pragma unroll
        for (int k = 0; k < kLoads; ++k) {
            const T* mine = row + static_cast<Size>(k * kWarps) * columns;
            values[k] = r0 + warp + k * kWarps < rows ? piece_load(mine, piece_place<T, kColumns>(mine, lane), valid) : 0;
        }
#pragma unroll
        for (int k = 0; k < kLoads; ++k) {
            T* line = tile + (warp + k * kWarps) * kPitch;
            const Piece<T> p = piece_place<T, kColumns>(row + static_cast<Size>(k * kWarps) * columns, lane);
            line[p.low] = static_cast<T>(values[k]);
            if constexpr (sizeof(T) == 2) line[p.high] = static_cast<T>(values[k] >> 16);
        }
        __syncthreads();
#pragma unroll 4
        for (int unit = warp; unit < kColumns / 4 * kRuns; unit += kWarps) {  // a warp: 4 rows of the output, a run of each
            const int c = unit / kRuns * 4 + lane / 8;
            const int first = shift(c, r0) + unit % kRuns * kRun + lane % 8 * E, r = r0 + first;
            if (c >= valid) continue;
            T* to = out + static_cast<Size>(c0 + c) * rows + r;
            const T* column = tile + first * kPitch + c;
            if (r + E <= rows) {
                *reinterpret_cast<uint4*>(to) = column_word<T, kPitch>(column);
            } else {
                for (int k = 0; r + k < rows; ++k) to[k] = column[k * kPitch];
            }
        }
        if (r0 == 0) {  // what lies before the first boundary
            for (int i = threadIdx.x; i < kColumns * kLine; i += kWindowThreads) {
                const int c = i / kLine, r = i % kLine;
                if (c < valid && r < rows && r < shift(c, 0)) out[static_cast<Size>(c0 + c) * rows + r] = tile[r * kPitch + c];
            }
        }
        __syncthreads();
    }
}

}  // namespace lab::transpose
