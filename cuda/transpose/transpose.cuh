// Transpose: a matrix [rows, columns] in GPU memory in, its transpose [columns, rows] out; from naive to 16-byte blocks.
// SPDX-License-Identifier: Apache-2.0
//
// Device code only, for nvcc and NVRTC. T: an unsigned type of 2 or 4 bytes; values are moved, never computed with.
// Grids up to swizzled: x counts tiles along the columns of the input, y along its rows; a loop takes further rows of tiles.
#pragma once

namespace lab::transpose {

using Size = unsigned long long;

constexpr int kTile = 32;  // elements a side, for the steps up to swizzled
constexpr int kRows = 8;   // rows of threads of their blocks: 32 × 8 threads

// What the programs and the catalogue launch: the fastest found on an H200 (132 multiprocessors), for elements of 4 and 2 bytes.
constexpr int kWords = 16;                                           // vectorized: words a side of a tile
constexpr int kGroup = 512;                                          // … and tiles a patch
constexpr int kWindowRows = 128, kWindowLine = 32;                   // windowed: rows of a tile, boundary that its writes keep
constexpr int kWindowThreads = 512, kWindowGroup = 256;              // … threads a tile, tiles a patch
template <typename T>
constexpr int kWindowWords = sizeof(T) == 4 ? 128 : 64;              // … 4-byte words of a row of a tile
template <typename T>
constexpr int kWindowAcross = sizeof(T) == 4 ? 8 : 4;                // … lanes along a row of the output
constexpr int kChunkHigh = 128, kChunkWide = 128;                    // chunks: rows and columns of a tile
constexpr int kChunkThreads = 256, kChunkGroup = 256;                // … threads a tile, tiles a patch

// One element a thread. Reads are coalesced; the lanes of a warp write to 32 rows of
// the output.
template <typename T>
__global__ void naive(const T* __restrict__ in, T* __restrict__ out, int rows,
                      int columns) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < rows;
         r += gridDim.y * blockDim.y) {
        if (c < columns)
            out[static_cast<Size>(c) * rows + r] =
                in[static_cast<Size>(r) * columns + c];
    }
}

// How an element of a 32 × 32 tile is placed in shared memory: (row, column) → offset.
struct Plain {  // a column lies in one bank: 32 lanes that read it wait for one another
    static constexpr int kElements = kTile * kTile;
    __device__ static int at(int r, int c) { return r * kTile + c; }
};
template <int Pad>
struct Padded {  // rows Pad elements longer than they need be, so that a column goes
                 // through all banks
    static constexpr int kElements = kTile * (kTile + Pad);
    __device__ static int at(int r, int c) { return r * (kTile + Pad) + c; }
};
template <typename T>
struct Swizzled {  // the same without the unused column: columns change places within a
                   // row, differently in each row
    static constexpr int kElements = kTile * kTile,
                         kOfBank = 4 / static_cast<int>(sizeof(T));
    __device__ static int at(int r, int c) {
        return r * kTile + (c ^ r / kOfBank * kOfBank);
    }
};

// Through a tile in shared memory: rows are read, columns of the tile are written as
// rows; both coalesced.
template <typename T, typename Place>
__global__ void __launch_bounds__(kTile * kRows)
    tiled(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    __shared__ T tile[Place::kElements];
    const int x = threadIdx.x, y = threadIdx.y, c0 = blockIdx.x * kTile;
    for (int r0 = blockIdx.y * kTile; r0 < rows; r0 += gridDim.y * kTile) {
#pragma unroll
        for (int k = 0; k < kTile; k += kRows) {
            const int r = r0 + y + k, c = c0 + x;
            if (r < rows && c < columns)
                tile[Place::at(y + k, x)] = in[static_cast<Size>(r) * columns + c];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kTile; k += kRows) {
            const int c = c0 + y + k, r = r0 + x;
            if (r < rows && c < columns)
                out[static_cast<Size>(c) * rows + r] = tile[Place::at(x, y + k)];
        }
        __syncthreads();
    }
}

// ---- 16 bytes per thread and access --------------------------------------------------------------------------------------

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

// A tile whose rows lie on words, X words wide and Y words high. Each of the X × Y
// threads reads E rows of 16 bytes, all under way at once, turns them in registers, and
// leaves them in shared memory as words of the output's rows; then each word goes out.
// Words are swizzled: of the words w of row r, w ^ (r / E) % 8 is the place, so that
// any 8 lanes write or read 8 different groups of 4 banks.
template <typename T, int X, int Y>
__device__ __forceinline__ void words_tile(const T* __restrict__ in,
                                           T* __restrict__ out, uint4* tile, int r0,
                                           int c0, int rows, int columns) {
    constexpr int E = kPer<T>;
    const int x = threadIdx.x % X, y = threadIdx.x / X;
    const auto place = [](int row, int word) {
        return row * Y + (word ^ (row / E) % 8);
    };
    if (r0 + y * E < rows && c0 + x * E < columns) {
        uint4 lines[E], turned[E];
        const T* from = in + static_cast<Size>(r0 + y * E) * columns + c0 + x * E;
#pragma unroll
        for (int k = 0; k < E; ++k)
            lines[k] =
                *reinterpret_cast<const uint4*>(from + static_cast<Size>(k) * columns);
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
            *reinterpret_cast<uint4*>(out + static_cast<Size>(c0 + row) * rows + r0 +
                                      word * E) = tile[place(row, word)];
        }
    }
}

// Any tile, through the same shared memory, element by element: for rows that start
// anywhere.
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
}

// Which tile a block takes. Blocks run in about the order of their numbers. Group = 1:
// along the rows of the input, so that the tiles of blocks that run at the same time
// lie side by side where they are read, and one below the other, a row of the output
// apart, where they are written. A larger Group: in patches that are Group tiles high,
// column by column, so that pieces of Group tiles lie together where they are written.
struct Corner {
    int row, column;
};
template <int Group>
__device__ __forceinline__ Corner corner(int rows, int columns, int high, int wide) {
    const unsigned down = (rows + high - 1) / high,
                   across = (columns + wide - 1) / wide;
    const unsigned band = blockIdx.x / (Group * across),
                   place = blockIdx.x % (Group * across);
    const unsigned tall = down - band * Group < Group ? down - band * Group : Group;
    return {static_cast<int>(band * Group + place % tall) * high,
            static_cast<int>(place / tall) * wide};
}

// X × Y threads; a tile is X words wide and Y words high (E × E elements a thread). One
// block a tile.
template <typename T, int X, int Y, int Group>
__global__ void __launch_bounds__(X* Y) vectorized(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    constexpr int E = kPer<T>;
    static_assert(Y % 8 == 0, "the swizzle takes 8 words of a row");
    __shared__ uint4 tile[X * Y * E];
    const Corner at = corner<Group>(rows, columns, Y * E, X * E);
    if (on_words(in, out, rows, columns)) words_tile<T, X, Y>(in, out, tile, at.row, at.column, rows, columns);
    else elements_tile<T, X, Y>(in, out, reinterpret_cast<T*>(tile), at.row, at.column, rows, columns);
}

// ---- rows that start anywhere --------------------------------------------------------------------------------------------

// The columns a tile of Words × 4 bytes has: a row of 2-byte elements may start in the middle of a word, so two fewer than fit.
template <typename T, int Words>
constexpr int kWindowColumns = sizeof(T) == 4 ? Words : 2 * Words - 2;

template <typename T, int Rows, int Line, int Words>
constexpr int kWindowBytes = (Rows + Line / static_cast<int>(sizeof(T))) * (Words + 1) * 4;

// Rows that start anywhere cut sectors of 32 bytes in two, and a sector of which a part is written costs more than a whole
// one. So the tile reads Line bytes more rows than it writes, and each row of the output takes the window of them that starts
// on a boundary of Line bytes: all writes are whole 16-byte words on whole sectors. Reads are words of 4 bytes, a row's from
// the boundary before its first element; the sectors that they share with the next tile's come from the cache.
// The tile is Words words wide and Rows rows high; shared memory: kWindowBytes.
template <typename T, int Rows, int Line, int Words, int Threads, int Across, int Group>
__global__ void __launch_bounds__(Threads) windowed(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    constexpr int E = kPer<T>, kOfWord = 4 / static_cast<int>(sizeof(T)), kColumns = kWindowColumns<T, Words>, kWarps = Threads / 32;
    constexpr int kLine = Line / static_cast<int>(sizeof(T)), kRead = Rows + kLine, kPasses = Words / 32, kLoads = (kRead + kWarps - 1) / kWarps;
    constexpr int kPitch = (Words + 1) * kOfWord, kRun = Across * E, kRuns = Rows / kRun, kDown = 32 / Across;
    static_assert(Rows % kRun == 0 && Rows % kLine == 0 && Words % 32 == 0, "whole runs a tile, whole words a lane");
    extern __shared__ unsigned window[];
    T* tile = reinterpret_cast<T*>(window);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Corner at = corner<Group>(rows, columns, Rows, kColumns);
    const int r0 = at.row, c0 = at.column, valid = columns - c0 < kColumns ? columns - c0 : kColumns;
    const Size total = static_cast<Size>(rows) * columns, start = static_cast<Size>(r0) * columns + c0;
    // Elements from a word's boundary to the first of row r of the tile, 0 or 1.
    const auto skipped = [=](int r) {
        return kOfWord == 1 ? 0 : static_cast<int>((reinterpret_cast<Size>(in) / 2 + start + static_cast<Size>(r) * columns) % 2);
    };
    const bool inside = start > 0 && start + static_cast<Size>(kRead - 1) * columns + kOfWord * Words <= total;
    if (inside) {  // every word lies in the matrix, though not every one in its row
        unsigned values[kLoads][kPasses];
#pragma unroll
        for (int k = 0; k < kLoads; ++k) {
            const int r = warp + k * kWarps;
            const unsigned* words = reinterpret_cast<const unsigned*>(in + start + static_cast<Size>(r) * columns - skipped(r));
#pragma unroll
            for (int j = 0; j < kPasses; ++j) {
                if (kRead % kWarps == 0 || r < kRead) values[k][j] = words[lane + 32 * j];
            }
        }
#pragma unroll
        for (int k = 0; k < kLoads; ++k) {
#pragma unroll
            for (int j = 0; j < kPasses; ++j) {
                const int r = warp + k * kWarps;
                if (kRead % kWarps == 0 || r < kRead) window[r * (Words + 1) + lane + 32 * j] = values[k][j];
            }
        }
    } else {
        for (int i = threadIdx.x; i < kRead * kColumns; i += Threads) {
            const int r = i / kColumns, c = i % kColumns;
            if (r0 + r < rows && c < valid) tile[r * kPitch + c + skipped(r)] = in[start + static_cast<Size>(r) * columns + c];
        }
    }
    __syncthreads();
    // Elements from the tile's first of output row c0 + c to the next boundary.
    const auto shift = [=](int c) {
        const Size place = reinterpret_cast<Size>(out) / sizeof(T) +
                           static_cast<Size>(c0 + c) * rows + r0;
        return static_cast<int>((kLine - place % kLine) % kLine);
    };
    const int odd = kOfWord == 1 ? 0 : columns % 2, first_skipped = skipped(0);
    const auto element = [=](int r, int c) -> unsigned {
        return tile[r * kPitch + c + ((first_skipped + r * odd) & (kOfWord - 1))];
    };
#pragma unroll 2
    for (int unit = warp; unit < (kColumns + kDown - 1) / kDown * kRuns;
         unit += kWarps) {  // a warp: kDown rows, a run of each
        const int c = unit / kRuns * kDown + lane / Across;
        if (c >= valid) continue;
        const int first = shift(c) + unit % kRuns * kRun + lane % Across * E,
                  r = r0 + first;
        T* to = out + static_cast<Size>(c0 + c) * rows + r;
        if (r + E <= rows) {
            unsigned word[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                word[k] = kOfWord == 1 ? element(first + k, c)
                                       : element(first + 2 * k, c) |
                                             element(first + 2 * k + 1, c) << 16;
            }
            *reinterpret_cast<uint4*>(to) =
                make_uint4(word[0], word[1], word[2], word[3]);
        } else {
            for (int k = 0; r + k < rows; ++k)
                to[k] = static_cast<T>(element(first + k, c));
        }
    }
    if (r0 > 0) return;
    for (int i = threadIdx.x; i < kColumns * kLine; i += Threads) {  // what lies before the first boundary
        const int c = i / kLine, r = i % kLine;
        if (c < valid && r < rows && r < shift(c)) out[static_cast<Size>(c0 + c) * rows + r] = static_cast<T>(element(r, c));
    }
}

// ---- the same, read in chunks of 16 bytes --------------------------------------------------------------------------------

constexpr int kSector = 32;                   // bytes
constexpr int kAcross = 8, kDown = 4;         // lanes of a warp: along a row of the output, and rows of it

// A tile in shared memory, High rows and Wide columns of windows. Of each row it has all chunks of 16 bytes in which an element
// of the row lies, wherever the row starts; it has a sector of rows more than it writes. Behind every E rows a chunk is left
// free: then lanes that read E rows apart read different groups of 4 banks.
template <typename T, int High, int Wide>
struct Chunks {
    static constexpr int E = kPer<T>, kLine = kSector / static_cast<int>(sizeof(T)), kRead = High + kLine;
    static constexpr int kOfRow = (Wide + 2 * (E - 1)) / E, kPitch = E * kOfRow + 1;  // chunks of a row, of E rows
    static constexpr int kBytes = (kRead / E * kPitch) * 16;
    static __device__ int at(int row) { return row * kOfRow + row / E; }
};
template <typename T, int High, int Wide>
constexpr int kChunkBytes = Chunks<T, High, Wide>::kBytes;

// 16 bytes from memory to shared memory; they are there after copies_wait() and a barrier.
__device__ __forceinline__ void copy_async(uint4* to, Size from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from) : "memory");
#else
    *to = *reinterpret_cast<const uint4*>(from);
#endif
}
__device__ __forceinline__ void copies_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// High elements of a row of the output, kAcross × 16 bytes at a time. `from`: places in the tile of the lane's first E elements,
// in the order in which they are read; the words are then turned into theirs. `left`: elements to the end of the row.
template <typename T, int High, int Wide, bool Whole>
__device__ __forceinline__ void write_run(const T* tile, const int (&from)[kPer<T>], T* to, int left, int turn) {
    constexpr int E = kPer<T>, kNext = Chunks<T, High, Wide>::kPitch * E * kAcross;
#pragma unroll
    for (int i = 0; i < High / (kAcross * E); ++i) {
        unsigned word[4], half[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if constexpr (sizeof(T) == 4) word[k] = tile[from[k] + i * kNext];
            else word[k] = tile[from[2 * k] + i * kNext] | static_cast<unsigned>(tile[from[2 * k + 1] + i * kNext]) << 16;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) half[k] = turn & 1 ? word[(k + 3) % 4] : word[k];
#pragma unroll
        for (int k = 0; k < 4; ++k) word[k] = turn & 2 ? half[(k + 2) % 4] : half[k];
        if (Whole || left >= E) {
            *reinterpret_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
        } else {
#pragma unroll
            for (int k = 0; k < E; ++k) {
                if (k < left) to[k] = static_cast<T>(sizeof(T) == 4 ? word[k % 4] : word[k / 2 % 4] >> 16 * (k % 2));
            }
        }
        to += kAcross * E, left -= kAcross * E;
    }
}

// Windows as above. But no row is read word by word: whole chunks of 16 bytes come,
// from the boundary before the row's first element, and go to shared memory past
// registers and L1 cache. So each row of the tile starts somewhere in its first chunk;
// the lanes that gather 16 bytes of the output find their elements by arithmetic on row
// and column. Lanes of neighboring rows of the output would often meet in one bank,
// depending on the sides of the matrix: `turn` has them read their elements in turned
// order.
template <typename T, int High, int Wide, int Threads, int Group>
__global__ void __launch_bounds__(Threads)
    chunks(const T* __restrict__ in, T* __restrict__ out, int rows, int columns) {
    using Tile = Chunks<T, High, Wide>;
    constexpr int E = kPer<T>, kSize = sizeof(T), kOfWord = 4 / kSize,
                  kWarps = Threads / 32;
    static_assert(High % (kAcross * E) == 0 && Wide % kDown == 0, "whole runs a tile");
    extern __shared__ uint4 chunk[];
    const T* tile = reinterpret_cast<const T*>(chunk);
    const Corner at = corner<Group>(rows, columns, High, Wide);
    const int r0 = at.row, c0 = at.column,
              valid = columns - c0 < Wide ? columns - c0 : Wide;
    const int present = rows - r0 < Tile::kRead ? rows - r0 : Tile::kRead;
    // Addresses, in bytes, for chunks know no elements.
    const Size begin = reinterpret_cast<Size>(in),
               end = begin + static_cast<Size>(rows) * columns * kSize;
    const Size pitch = static_cast<Size>(columns) * kSize,
               start = begin + r0 * pitch + static_cast<Size>(c0) * kSize;
    const Size stop = start + (present - 1) * pitch + valid * kSize;
    if (start / 16 * 16 >= begin && (stop + 15) / 16 * 16 <= end) {
#pragma unroll 4
        for (int i = threadIdx.x; i < present * Tile::kOfRow; i += Threads) {
            const int r = i / Tile::kOfRow, n = i % Tile::kOfRow;
            const Size row = start + r * pitch, from = row / 16 * 16 + 16 * n;
            if (from < row + valid * kSize) copy_async(chunk + Tile::at(r) + n, from);
        }
    } else {  // the first or last chunk sticks out of the matrix: elements
        for (int i = threadIdx.x; i < present * Wide; i += Threads) {
            const int r = i / Wide, c = i % Wide;
            const Size from = start + r * pitch + c * kSize, row = start + r * pitch;
            if (c < valid)
                reinterpret_cast<T*>(chunk + Tile::at(r))[row % 16 / kSize + c] =
                    *reinterpret_cast<const T*>(from);
        }
    }
    copies_wait();
    __syncthreads();
    const int lane = threadIdx.x % 32, across = lane % kAcross, down = lane / kAcross;
    const int first_skipped = static_cast<int>(start / kSize % E), step = columns % E;  // elements of a chunk before the row's first
    const auto place = [=](int r, int c) { return Tile::at(r) * E + (first_skipped + r * step) % E + c; };
    // Elements from the tile's first of output row c0 + c to the next sector.
    const auto shift = [=](int c) {
        const Size element = reinterpret_cast<Size>(out) / kSize + static_cast<Size>(c0 + c) * rows + r0;
        return static_cast<int>((0 - element) % Tile::kLine);
    };
    const unsigned sides = static_cast<unsigned>(rows) * static_cast<unsigned>(columns);
    const int turn = (kOfWord == 1 ? sides % 2 : sides % 4) == 1 ? down : 0;
    for (int c = threadIdx.x / 32 * kDown + down; c < valid; c += kWarps * kDown) {
        const int first = shift(c);
        int from[E];
#pragma unroll
        for (int k = 0; k < E; ++k) from[k] = place(first + (k + turn * kOfWord) % E, c) + across * Tile::kPitch * E;
        T* to = out + static_cast<Size>(c0 + c) * rows + r0 + first + across * E;
        const int left = rows - r0 - first - across * E;
        if (present == Tile::kRead) write_run<T, High, Wide, true>(tile, from, to, left, turn);
        else write_run<T, High, Wide, false>(tile, from, to, left, turn);
    }
    if (r0 > 0) return;
    for (int i = threadIdx.x; i < Wide * Tile::kLine; i += Threads) {  // what lies before the first sector
        const int c = i / Tile::kLine, r = i % Tile::kLine;
        if (c < valid && r < rows && r < shift(c)) out[static_cast<Size>(c0 + c) * rows + r] = tile[place(r, c)];
    }
}

}  // namespace lab::transpose
