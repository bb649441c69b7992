// Matmul of bf16 whose tiles are shared out by their stages: A (m × k) and B (k × n) in, C = A·B (m × n) in bf16 out, all row by row.
// Device code only, for nvcc and NVRTC alike; compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
//
// A tile of 128 × 256 is too large a coin for a product that has few of them, or a few more than there are multiprocessors:
//   whole         tile after tile, a block each (bf16.cuh's last step, tiles at the sides as small as they are): what is to be mended
//   split         the stages of each tile in as many parts as fill the GPU; sums in fp32 to memory, added up by a second kernel
//   cluster       … the parts of a tile are a cluster's blocks, which add up what they read from each other's shared memory
//   stream_k      all stages of all tiles in one line, cut into as many equal parts as there are blocks; a block that ends within a
//                 tile adds what the next ones have of it
//     hybrid      … and only what does not fill the GPU evenly is cut; the other tiles stay whole
//   pair          whole tiles by two blocks of a cluster, which share what they fetch of B
//     both        … and, of what does not fill the GPU evenly, the stages
//   joint         tiles that fill the GPU evenly stay whole, each of the others is cut into as many parts as there are blocks left, and
//                 all blocks that have a part of a tile add it up together, some rows and columns each
//   aside         pairs of whole tiles; a few rows or columns more are no tiles: warps that have nothing to do multiply them meanwhile
//   along         … or some of the tiles multiply them, too: those of blocks that have a tile less than the others
//   low           parts as those of `split`, and up to 16 rows are fetched as 16, not as 64
//   halves        tiles of 64 columns, half of the stages for each of two blocks, which swap half of their sums in shared memory
//                 (with more than 64 rows: parts as those of `split`, by pairs of blocks)
//   pack          rows that do not start on 16 bytes, copied to where they do: the copy engine takes no others
#pragma once

#include "counters.cuh"
#include "fitted.cuh"

namespace lab {
namespace gemm {

// A tile costs so much a stage: of full size; with one group of rows or few columns, which takes more than half of the time, as
// three quarters or two thirds of the bytes are fetched; with both.
constexpr int kCostFull = 8, kCostThin = 6, kCostLittle = 4;

// The tiles of C: those of full size first, in bands; then those at its lower side, at its right side, in the corner.
struct Tiles {
    int m, n, tall, wide, down, across, stages;
    int thin, slim, corner;  // costs of a stage
    __host__ __device__ constexpr Tiles(int m_, int n_, int k, int tall_, int wide_)
        : m(m_), n(n_), tall(tall_), wide(wide_), down(m_ / tall_), across(n_ / wide_), stages(parts(k, kTileK)),
          thin(m_ % tall_ > kGroupM ? kCostFull : kCostThin),
          slim(wide_ > kNarrow && n_ % wide_ <= kNarrow ? kCostThin : kCostFull),
          corner(thin + slim == 2 * kCostFull ? kCostFull : thin + slim == 2 * kCostThin ? kCostLittle : kCostThin) {}
    __host__ __device__ constexpr int full() const { return down * across; }
    __host__ __device__ constexpr int below() const { return m % tall > 0 ? across : 0; }
    __host__ __device__ constexpr int beside() const { return n % wide > 0 ? down : 0; }
    __host__ __device__ constexpr int count() const { return full() + below() + beside() + (m % tall > 0 && n % wide > 0); }
    __host__ __device__ constexpr Place place(int tile, int band) const {
        if (tile < full()) return place_of(tile, down, across, band);
        tile -= full();
        if (tile < below()) return {down, tile};
        tile -= below();
        return {tile, across};  // the corner comes last: m % tall > 0, and tile is `down`
    }
    // Of the tiles from `from` on, stage by stage: what they cost, and the stage that stands at a cost.
    __host__ __device__ constexpr long long cost(int from) const {
        return static_cast<long long>(stages) * ((full() > from ? full() - from : 0) * kCostFull + below() * thin + beside() * slim + (count() - full() - below() - beside()) * corner);
    }
    __host__ __device__ constexpr int stage_at(long long cost, int from) const {
        const int counts[3] = {full() - from, below(), beside()}, costs[3] = {kCostFull, thin, slim};
        int first = from * stages;
        for (int i = 0; i < 3; ++i) {
            const int here = counts[i] * stages;
            const long long all = static_cast<long long>(here) * costs[i];
            if (cost < all) return first + static_cast<int>((cost + costs[i] - 1) / costs[i]);
            cost -= all, first += here;
        }
        return first + static_cast<int>((cost + corner - 1) / corner);
    }
};

// A run of stages of a tile, and which of its parts that is.
struct Run {
    int tile, first, last, cut;
};

// What a block (or cluster) has to do: its part of the line of stages, then its whole tiles. Parts are dealt from the last block to
// the first: whoever waits for sums waits for blocks that were started earlier.
struct Line {
    int stage, end, tile, whole, step;
    // Where a part begins. Blocks with a whole tile less than others, the first ones here, have so much more of the line. Parts
    // without a stage are behind all others.
    static __host__ __device__ constexpr int begin(const Tiles& t, int whole, int part, int all) {
        const int end = t.count() * t.stages, fewer = whole % all > 0 ? all - whole % all : 0;
        if (part >= all || whole >= t.count()) return end;
        const long long line = t.cost(whole), tile = static_cast<long long>(t.stages) * kCostFull, spare = fewer * tile;
        if (line - spare >= static_cast<long long>(all) * kCostFull) return t.stage_at((line - spare) * part / all + (part < fewer ? part : fewer) * tile, whole);
        const int most = line * (all - fewer) < spare * all ? fewer : all;  // whichever ends earlier
        const int takers = line < static_cast<long long>(most) * kCostFull ? static_cast<int>((line + kCostFull - 1) / kCostFull) : most;
        return part < takers ? t.stage_at(line * part / takers, whole) : end;
    }
    __host__ __device__ constexpr Line(const Tiles& t, int whole_, int part, int all)
        : stage(begin(t, whole_, part, all)), end(begin(t, whole_, part + 1, all)), tile(all - 1 - part), whole(whole_), step(all) {}
    __host__ __device__ constexpr bool next(const Tiles& t, Run& run) {
        if (stage < end) {
            const int of = stage / t.stages, first = stage % t.stages, left = end - stage;
            const int last = left < t.stages - first ? first + left : t.stages;
            run = {of, first, last, 0};
            stage += last - first;
            return true;
        }
        if (tile >= whole) return false;
        run = {tile, 0, t.stages, 0};
        tile += step;
        return true;
    }
};

// … and where the first `whole` tiles stay whole and each other one is cut into `cuts` parts, no more of them than blocks: whole tiles,
// then a part, whose stages are fetched while the last whole tile leaves. Who has fewer whole tiles is the first to get a part.
struct Deal {
    int item, whole, cuts, step;
    __host__ __device__ constexpr Deal(int whole_, int cuts_, int block, int blocks) : item(block), whole(whole_), cuts(cuts_), step(blocks) {}
    static __host__ __device__ constexpr int part(int whole, int block, int blocks) { return (block + blocks - whole % blocks) % blocks; }
    __host__ __device__ constexpr bool next(const Tiles& t, Run& run) {
        const int of = item - whole;  // of the parts
        if (of >= (t.count() - whole) * cuts) return false;
        const int cut = of < 0 ? 0 : of % cuts, all = of < 0 ? 1 : cuts;
        run = {of < 0 ? item : whole + of / cuts, t.stages * cut / all, t.stages * (cut + 1) / all, cut};  // no more cuts than blocks: it fits
        item += step;
        return true;
    }
};

// … and where each tile is cut into `cuts` parts: part after part of a tile, so that blocks at work share a tile.
struct Cuts {
    int item, cuts, step;
    __host__ __device__ constexpr Cuts(int cuts_, int block, int blocks) : item(block), cuts(cuts_), step(blocks) {}
    __host__ __device__ constexpr bool next(const Tiles& t, Run& run) {
        if (item >= t.count() * cuts) return false;
        const int of = item / cuts, cut = item % cuts;
        run = {of, static_cast<int>(static_cast<long long>(t.stages) * cut / cuts), static_cast<int>(static_cast<long long>(t.stages) * (cut + 1) / cuts), cut};
        item += step;
        return true;
    }
};

// The next kernel of the stream, where it was launched so, may take the places that blocks leave before all of them have ended; and it
// waits for their writes. Without such a launch, both do nothing.
__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#ifdef LAB_WGMMA
template <typename R, int kBlocks>
__device__ __forceinline__ Piece piece_of(const Tiles& t, const Run& run, int rank) {
    const Place at = t.place(run.tile, 2 * kBand / kBlocks);
    const int row0 = at.row * t.tall + rank * kTileM, column0 = at.column * R::kN;
    const int left = t.m - row0, groups = left > kGroupM ? 2 : left > 0 ? 1 : 0;
    return {row0, column0, run.first, run.last, groups, t.n - column0 <= kNarrow};
}

// The producer and the consumers of a block that goes through the runs of `walk`; done(run, piece, worker, sums) gets the sums of each,
// and after() is called by the consumers at the end, while they still have their registers; aside(warp) by the three warps beside
// the producer's, with kSpare registers a thread.
struct Nothing {
    __device__ __forceinline__ void operator()() const {}
    __device__ __forceinline__ void operator()(int) const {}
};
template <typename R, int kBlocks, int kSpare = 40, typename Walk, typename Done, typename After = Nothing, typename Aside = Nothing>
__device__ __forceinline__ void go_through(const TensorMap& map_a, const TensorMap& map_b, const Tiles& t, Walk walk, int rank,
                                           unsigned char* stages, rows::Barrier* full, rows::Barrier* empty, const Done& done, const After& after = {}, const Aside& aside_of = {}) {
    const int group = threadIdx.x / kGroupThreads;
    Turn<R::kStages> turn;
    Run run{};
    if (group == 0) {
        give_registers<kSpare>();
        if (threadIdx.x == 0) {
            while (walk.next(t, run)) {
                const Piece p = piece_of<R, kBlocks>(t, run, rank);
                fetch_piece<R, kBlocks>(turn, stages, full, empty, map_a, p, rank, [&](void* to, int box, int s, rows::Barrier* arrived) {
                    fetch_box<kBlocks>(to, map_b, p.column0 + box * kBox, s * kTileK, arrived);
                });
            }
        } else if (threadIdx.x >= 32) {
            aside_of(static_cast<int>(threadIdx.x) / 32 - 1);
        }
    } else {
        take_registers<232 - (kSpare - 40) / 2>();
        float sums[R::kN / 2] = {};
        while (walk.next(t, run)) {
            const Piece p = piece_of<R, kBlocks>(t, run, rank);
            work_on<R, kBlocks>(sums, turn, stages, full, empty, p, group - 1);
            if (group - 1 < p.groups) done(run, p, group - 1, sums);
        }
        after();
    }
}
#endif

// All ways but `split`. `whole` tiles are not cut: all of them, none (stream_k), or as many as fill all blocks evenly (hybrid).
// kEngine: C's rows start on 16 bytes, so that they leave by the copy engine. `sums_of` holds a tile of sums for each block, `flags`
// a flag for each warp that multiplies, 0 before and after.
template <typename R, int kBlocks, bool kEngine>
__global__ void LAB_CLUSTER(kBlocks) __launch_bounds__(kWorkThreads, 1)
    stream_k(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
             const __grid_constant__ Tiles t, Bf16* __restrict__ c, float4* sums_of, unsigned* flags, int ldc, int whole) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    const int rank = kBlocks == 1 ? 0 : rows::cluster_rank(), parts_of_line = gridDim.x / kBlocks, part = parts_of_line - 1 - blockIdx.x / kBlocks;
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, kBlocks>(full, empty);
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    constexpr int kFours = R::kN / 8, kWarps = 2 * kGroupThreads / 32;  // of a thread; of a block that multiplies
    int box = 0;
    go_through<R, kBlocks>(map_a, map_b, t, Line(t, whole, part, parts_of_line), rank, stages, full, empty, [&](const Run& run, const Piece& p, int worker, const float* sums) {
        const int warp = threadIdx.x % kGroupThreads / 32 + worker * (kGroupThreads / 32), lane = threadIdx.x % 32;
        const int fours = R::kN > kNarrow && p.narrow ? kNarrow / 8 : kFours;
        const bool there = p.row0 + warp * 16 < t.m;  // a warp has 16 rows
        const auto where = [&](int of) { return (of * kBlocks + rank) * kWarps + warp; };
        if (run.first > 0) {  // somebody else has the tile's first stages, and adds
            if (!there) return;
            float4* const to = sums_of + where(part) * kFours * 32 + lane;
#pragma unroll
            for (int i = 0; i < kFours; ++i) {
                if (i < fours) put_sums(to + i * 32, sums + 4 * i);
            }
            tell(flags + where(part));
            return;
        }
        int until = part + 1;  // the parts that have more of the tile
        if (run.last < t.stages && there) {
            const int end = (run.tile + 1) * t.stages;
            for (; Line::begin(t, whole, until, parts_of_line) < end; ++until) hear(flags + where(until));
        }
        const int row0 = p.row0 + worker * kGroupM;
        write_sums<R>(sums, stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut, box, worker, map_c, c, ldc, row0, p.column0, t.m - row0, t.n - p.column0, kEngine, 1,
                      false, false, [&](int i, float* of_box) {
                          for (int of = part + 1; of < until; ++of) {
                              const float4* const from = sums_of + (where(of) * kFours + i * (kBox / 8)) * 32 + lane;
#pragma unroll
                              for (int j = 0; j < kBox / 8; ++j) add_sums(of_box + 4 * j, from + j * 32);  // as many in flight as there are registers
                          }
                      });
    });
    if (threadIdx.x / kGroupThreads > 0 && threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
    if constexpr (kBlocks > 1) {  // a block stays until nobody writes into its shared memory
        __syncwarp();
        rows::cluster_sync<kBlocks>();
    }
#endif
}

// What whole tiles leave of C, where that is at most kFew rows or columns: strips of 16 rows and those columns, of those rows and
// kStrip columns. A warp has a strip and takes 32 of k at a time, each lane eight neighbors of a row of A; in whatever order, as long as
// B's rows come in the same one. What it costs is reading: all of B for the rows, all of A for the columns, beside what the tiles read.
constexpr int kFew = 8, kStrip = 32, kAsideRegisters = 104;
struct Rest {
    const Bf16 *a, *b;
    Bf16* c;
    int m, n, k, lda, ldb, ldc, rows, columns;  // the tiles have the first `rows` and `columns`
    __host__ __device__ constexpr int right() const { return columns < n ? parts(m, 16) : 0; }
    __host__ __device__ constexpr int below() const { return rows < m ? parts(columns, kStrip) : 0; }
};

#ifdef LAB_WGMMA
#ifdef __CUDACC__
// An 8 × 8 matrix of 2-byte elements, turned: four lanes have a row, two neighbors each.
__device__ __forceinline__ unsigned turned(unsigned pair) {
    unsigned word;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(word) : "r"(pair));
    return word;
}
#endif

// A number as it is now: what follows from it is no reason to hold registers from here on.
__device__ __forceinline__ int now(int x) {
    asm volatile("" : "+r"(x));
    return x;
}
// What a lane reads, 32 of k after 32: eight neighbors of a row of A, and of the rows of B that go with its four pairs one each. Rows and
// columns that are not there are read elsewhere, where they do no harm; behind the last of k all is zero.
struct Reads {
    const Bf16 *a, *b;
    int left, row;  // from A's eight, from B's first row on, to the end of k
    __device__ __forceinline__ Reads(const Rest& r, int lane, int row_a, int column_b)
        : a(r.a + static_cast<long long>(row_a < r.m ? row_a : r.m - 1) * r.lda + lane % 4 * 8), b(r.b + (column_b < r.ldb ? column_b : 0)),
          left(r.k - lane % 4 * 8), row(r.k - lane / 8 * 8 - lane / 4 % 2) {
        b += static_cast<long long>(r.k - row) * r.ldb;
    }
    __device__ __forceinline__ uint4 of_a(long long down) const { return left > 0 ? __ldg(reinterpret_cast<const uint4*>(a + down)) : uint4{0, 0, 0, 0}; }
    template <typename T>
    __device__ __forceinline__ void of_b(T (&rows)[4], int ldb) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) rows[j] = row > 2 * j ? __ldg(reinterpret_cast<const T*>(b + static_cast<long long>(ldb) * (2 * j))) : T{};
    }
    __device__ __forceinline__ void next(int ldb) { a += 32, b += static_cast<long long>(ldb) * 32, left -= 32, row -= 32; }
};

// kAhead reads are under way while the oldest one is multiplied.
__device__ __forceinline__ void strip_right(const Rest& r, int row0) {
    constexpr int kAhead = 5;
    const int lane = now(static_cast<int>(threadIdx.x) % 32), row = row0 + lane / 4, column = r.columns + lane % 4 * 2;
    Reads reads(r, lane, row, column);
    uint4 low[kAhead], high[kAhead];
    unsigned of_b[kAhead][4];
    float sums[4] = {};
    const auto read = [&](int i) {
        const int ldb = now(r.ldb);
        low[i] = reads.of_a(0), high[i] = reads.of_a(row + 8 < r.m ? 8ll * r.lda : 0);
        reads.of_b(of_b[i], ldb);
        reads.next(ldb);
    };
#pragma unroll
    for (int i = 0; i < kAhead; ++i) read(i);
#pragma unroll 1
    for (int k = 0; k < r.k; k += 32 * kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
            const unsigned first[4] = {low[i].x, high[i].x, low[i].y, high[i].y}, second[4] = {low[i].z, high[i].z, low[i].w, high[i].w};
            multiply_add<Bf16>(sums, first, turned(of_b[i][0]), turned(of_b[i][1]));
            multiply_add<Bf16>(sums, second, turned(of_b[i][2]), turned(of_b[i][3]));
            read(i);
        }
    }
    const bool pairs = on_pairs(r.c, r.ldc);
    store_pair(r.c, row, column, r.m, r.n, r.ldc, pairs, sums[0], sums[1]);
    store_pair(r.c, row + 8, column, r.m, r.n, r.ldc, pairs, sums[2], sums[3]);
}

// The columns of B are the rows of this product, so that the few rows of A are its eight columns.
__device__ __forceinline__ void strip_below(const Rest& r, int column0) {
    constexpr int kAhead = 3;
    const int lane = now(static_cast<int>(threadIdx.x) % 32), g = lane / 4;
    Reads reads(r, lane, r.rows + g, column0 + lane % 4 * 8);
    uint4 of_a[kAhead], of_b[kAhead][4];
    float sums[2][4] = {};
    const auto read = [&](int i) {
        const int ldb = now(r.ldb);
        of_a[i] = reads.of_a(0);
        reads.of_b(of_b[i], ldb);
        reads.next(ldb);
    };
#pragma unroll
    for (int i = 0; i < kAhead; ++i) read(i);
#pragma unroll 1
    for (int k = 0; k < r.k; k += 32 * kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // of four of k each
                const uint4 one = of_b[i][2 * half], other = of_b[i][2 * half + 1];
                const unsigned b0 = half ? of_a[i].z : of_a[i].x, b1 = half ? of_a[i].w : of_a[i].y;
                const unsigned first[4] = {turned(one.x), turned(one.y), turned(other.x), turned(other.y)};
                multiply_add<Bf16>(sums[0], first, b0, b1);
                const unsigned second[4] = {turned(one.z), turned(one.w), turned(other.z), turned(other.w)};
                multiply_add<Bf16>(sums[1], second, b0, b1);
            }
            read(i);
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = r.rows + lane % 4 * 2 + i % 2, column = column0 + g / 2 * 8 + i / 2 * 2 + g % 2;
        if (row < r.m && column < r.columns) r.c[static_cast<Size>(row) * r.ldc + column] = __float2bfloat16_rn(sums[i / 4][i % 4]);
    }
}
#endif

// Tiles of the first rows and columns, all of them whole or as small as they are; strips of what is left.
template <typename R, int kBlocks, bool kEngine>
__global__ void LAB_CLUSTER(kBlocks) __launch_bounds__(kWorkThreads, 1)
    aside(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
          const __grid_constant__ Tiles t, const __grid_constant__ Rest rest) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    const int rank = kBlocks == 1 ? 0 : rows::cluster_rank();
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, kBlocks>(full, empty);
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    int box = 0;
    go_through<R, kBlocks, kAsideRegisters>(map_a, map_b, t, Cuts(1, blockIdx.x / kBlocks, gridDim.x / kBlocks), rank, stages, full, empty, [&](const Run&, const Piece& p, int worker, const float* sums) {
        const int row0 = p.row0 + worker * kGroupM;
        write_sums<R>(sums, stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut, box, worker, map_c, rest.c, rest.ldc, row0, p.column0, t.m - row0, t.n - p.column0,
                      kEngine, 1, false, false, [](int, float*) {});
    }, [] {}, [&](int warp) {
#pragma unroll 1
        for (int i = static_cast<int>(blockIdx.x + gridDim.x * warp); i < rest.right() + rest.below(); i += 3 * gridDim.x) {
            if (i < rest.right()) strip_right(rest, 16 * i);
            else strip_below(rest, kStrip * (i - rest.right()));
        }
    });
    if (threadIdx.x / kGroupThreads > 0 && threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
    if constexpr (kBlocks > 1) {  // a block stays until nobody writes into its shared memory
        __syncwarp();
        rows::cluster_sync<kBlocks>();
    }
#endif
}

// The same few rows and columns by wgmma, out of the stages of some of the tiles: an m64n8k16 takes the 64 rows of A that a group has
// there, and eight more columns of B; another takes 64 columns of B as its rows, and eight more rows of A. Such a tile takes longer, so
// each row and each column of tiles has one, and they are dealt to those who have a tile less than others: `order` holds four times a
// tile, 1 more for its row's columns, 2 more for its column's rows, turn after turn of the clusters, a cluster's own such tiles first.
constexpr int kFewBytes = kFew * kBoxRow;  // of A or of B, a stage

#ifdef LAB_WGMMA
#ifdef __CUDACC__
// 64 × 8 sums of a group; kTurned: A lies along m, B along n.
template <bool kTurnedA, bool kTurnedB>
__device__ __forceinline__ void multiply_few(float (&d)[4], Size a, Size b, int adds) {
    asm volatile(
        "{.reg .pred adds; setp.ne.b32 adds, %6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, adds, 1, 1, %7, %8;}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b), "r"(adds), "n"(static_cast<int>(kTurnedA)), "n"(static_cast<int>(kTurnedB)));
}
#endif

// A consumer's part of a tile, as if that were of full size: its rows of the sums, of the columns at the right, and of 64 columns (the box `box`) of the
// rows below. `few` holds for each stage eight rows of A, then eight columns of B without a swizzle: 16 bytes a row.
template <typename R, int kBlocks>
__device__ __forceinline__ void multiply_with_few(float (&sums)[R::kN / 2], float (&right)[4], float (&below)[4], Turn<R::kStages>& at, const unsigned char* stages,
                                                  const unsigned char* few, rows::Barrier* full, rows::Barrier* empty, int count, int worker, int box) {
    const int lane = threadIdx.x % 32;
    const auto give_back = [&](int slot) {
        if (lane < kBlocks) arrive_in(lane, &empty[slot]);
    };
    int before = 0;
#pragma unroll 1
    for (int s = 0; s < count; ++s, at.next()) {
        wait_for(&full[at.slot], at.parity);
        products_begin();
        const unsigned char* const stage = stages + at.slot * R::kStage;
        multiply_rows<R::kN>(sums, stage, kBytesA, worker, s > 0);
        const unsigned start = rows::shared_address(stage), of_few = rows::shared_address(few) + at.slot * 2 * kFewBytes;
        const Size a = descriptor_a(start + worker * kBytesHalfA), b = descriptor_b(start + kBytesA + box * kBytesBoxB);
        const Size few_a = descriptor_a(of_few), few_b = descriptor(of_few + kFewBytes, 128, 128) ^ 1ull << 62;  // no swizzle; eight rows: 128 bytes
#pragma unroll
        for (int i = 0; i < kTileK / 16; ++i) {
            multiply_few<false, true>(right, a + i * kStepA, few_b + i * (16 * 16 >> 4), s > 0 || i > 0);
            multiply_few<true, false>(below, b + i * kStepB, few_a + i * kStepA, s > 0 || i > 0);
        }
        products_commit();
        if (s > 0) {
            products_wait<1>();
            give_back(before);
        }
        before = at.slot;
    }
    products_wait<0>();
    take_results(sums);
    take_results(right);
    take_results(below);
    give_back(before);
}

// What has neither a row nor a column of a tile, by a warp that has nothing else to do: a row, its k shared out among the lanes.
__device__ __forceinline__ void corner_row(const Rest& r, int row) {
    const int lane = threadIdx.x % 32;
    float sums[kFew] = {};
#pragma unroll 4
    for (int k = lane; k < r.k; k += 32) {
        const float x = __bfloat162float(r.a[static_cast<Size>(row) * r.lda + k]);
        const uint4 word = __ldg(reinterpret_cast<const uint4*>(r.b + static_cast<Size>(k) * r.ldb + r.columns));
        Bf16 each[kFew];
        memcpy(each, &word, sizeof each);
#pragma unroll
        for (int i = 0; i < kFew; ++i) sums[i] += x * __bfloat162float(each[i]);
    }
#pragma unroll
    for (int i = 0; i < kFew; ++i) {
        sums[i] = rows::warp_sum(sums[i]);
        if (lane == 0 && r.columns + i < r.n) r.c[static_cast<Size>(row) * r.ldc + r.columns + i] = __float2bfloat16_rn(sums[i]);
    }
}
#endif

// Pairs of whole tiles, some of them with strips. A cluster that has such ones writes C from one box instead of two: the other one's
// place is theirs.
template <typename R, int kBlocks, bool kEngine>
__global__ void LAB_CLUSTER(kBlocks) __launch_bounds__(kWorkThreads, 1)
    along(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
          const __grid_constant__ TensorMap map_few_a, const __grid_constant__ TensorMap map_few_b, const __grid_constant__ Tiles t,
          const __grid_constant__ Rest rest, const int* __restrict__ order) {
#ifdef LAB_WGMMA
    static_assert(kBlocks * 2 * kBox == R::kN, "each consumer of a cluster has one box of B for the rows below");
    static_assert(R::kStages * 2 * kFewBytes <= 2 * (R::kBoxes - 1) * R::kOut, "strips have room where boxes would be");
    using Single = Ring<R::kN, R::kStages, 1>;
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char *const stages = aligned(memory), *const boxes = stages + R::kStages * R::kStage, *const few = boxes + 2 * Single::kOut;
    const int rank = rows::cluster_rank(), first = blockIdx.x / kBlocks, step = gridDim.x / kBlocks, entry = order[first];
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, kBlocks>(full, empty);
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    Turn<R::kStages> at;
    int item = first, ahead = entry, sides = 0;
    Piece p{};
    const auto next = [&] {
        if (item >= t.count()) return false;
        sides = ahead % 4, p = piece_of<R, kBlocks>(t, {ahead / 4, 0, t.stages, 0}, rank), item += step;
        if (item < t.count()) ahead = order[item];  // in time for the next turn
        return true;
    };
    const int group = threadIdx.x / kGroupThreads, worker = group - 1;
    if (group == 0) {
        give_registers<56>();
        if (threadIdx.x == 0) {
            // Where there are no such rows or columns, some others: what comes of them is not written. (A box must start on 16 bytes.)
            const int row = rest.rows < rest.m ? rest.rows : 0, column = rest.columns < rest.n ? rest.columns : 0;
            while (next()) {
                const int boxes_each = (p.narrow ? kNarrow / kBox : R::kBoxesB) / kBlocks;
#pragma unroll 1
                for (int s = 0; s < t.stages; ++s, at.next()) {
                    unsigned char *const stage = stages + at.slot * R::kStage, *const strip = few + at.slot * 2 * kFewBytes;
                    rows::Barrier* const arrived = &full[at.slot];
                    wait_for(&empty[at.slot], at.parity ^ 1);
                    rows::expect(arrived, p.groups * kBytesHalfA + kBlocks * boxes_each * kBytesBoxB + (sides != 0 ? 2 * kFewBytes : 0));
                    for (int i = 0; i < p.groups; ++i) fetch_box<1>(stage + i * kBytesHalfA, map_a, s * kTileK, p.row0 + i * kGroupM, arrived);
                    for (int i = rank * boxes_each; i < (rank + 1) * boxes_each; ++i) fetch_box<kBlocks>(stage + kBytesA + i * kBytesBoxB, map_b, p.column0 + i * kBox, s * kTileK, arrived);
                    if (sides != 0) {
                        fetch_box<1>(strip, map_few_a, s * kTileK, row, arrived);
                        fetch_box<1>(strip + kFewBytes, map_few_b, column, s * kTileK, arrived);
                    }
                }
            }
        } else if (threadIdx.x / 32 == 1 && rest.columns < rest.n) {
            for (int row = rest.rows + static_cast<int>(blockIdx.x); row < rest.m; row += gridDim.x) corner_row(rest, row);
        }
    } else {
        take_registers<224>();
        float sums[R::kN / 2] = {};
        const int lane = threadIdx.x % 32, warp_row = threadIdx.x % kGroupThreads / 32 * 16 + lane / 4;
        int box = 0;
        while (next()) {
            const int row0 = p.row0 + worker * kGroupM;
            if (sides == 0) {
                work_on<R, kBlocks>(sums, at, stages, full, empty, p, worker);
                if (worker >= p.groups) continue;
            } else {
                float right[4] = {}, below[4] = {};
                const int mine = 2 * rank + worker;
                multiply_with_few<R, kBlocks>(sums, right, below, at, stages, few, full, empty, t.stages, worker, mine);
                if (sides & 1) {
                    const bool pairs = on_pairs(rest.c, rest.ldc);
#pragma unroll
                    for (int i = 0; i < 2; ++i) store_pair(rest.c, row0 + warp_row + 8 * i, rest.columns + lane % 4 * 2, t.m, rest.n, rest.ldc, pairs, right[2 * i], right[2 * i + 1]);
                }
                if (sides & 2) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int row = t.m + lane % 4 * 2 + i % 2, column = p.column0 + mine * kBox + warp_row + i / 2 * 8;
                        if (row < rest.m && column < t.n) rest.c[static_cast<Size>(row) * rest.ldc + column] = __float2bfloat16_rn(below[i]);
                    }
                }
            }
            const auto nothing = [](int, float*) {};
            if (entry % 4 != 0) {
                write_sums<Single>(sums, boxes + worker * Single::kOut, box, worker, map_c, rest.c, rest.ldc, row0, p.column0, t.m - row0, t.n - p.column0, kEngine, 1, false, false, nothing);
            } else {
                write_sums<R>(sums, boxes + worker * R::kBoxes * R::kOut, box, worker, map_c, rest.c, rest.ldc, row0, p.column0, t.m - row0, t.n - p.column0, kEngine, 1, false, false, nothing);
            }
        }
        if (threadIdx.x % kGroupThreads == 0) boxes_wait<0, true>();
    }
    __syncwarp();
    rows::cluster_sync<kBlocks>();  // a block stays until nobody writes into its shared memory
#endif
}

// A block's share of the sums of its part's tile, once all parts are there. A function of its own: what it needs is in no register before.
template <typename R>
__device__ __noinline__ void add_up(const Tiles& t, Bf16* c, const float4* sums_of, unsigned* counters, int ldc, int whole, int cuts) {
    constexpr int kFours = R::kN / 8, kWarps = 2 * kGroupThreads / 32, kAtOnce = 8;
    constexpr Size kTile = static_cast<Size>(kWarps) * kFours * 32;
    const int lane = threadIdx.x % 32, warp = (threadIdx.x - kGroupThreads) / 32, part = Deal::part(whole, blockIdx.x, gridDim.x);
    const bool asked = threadIdx.x % kGroupThreads == 0;  // for boxes to be written
    if (part >= (t.count() - whole) * cuts) {
        if (asked) boxes_wait<0, true>();
        return;
    }
    const int of = part / cuts, cut = part % cuts;
    const Piece p = piece_of<R, 1>(t, {whole + of, 0, 0, 0}, 0);
    const int rows_left = t.m - p.row0, warps = rows_left < kTileM ? parts(rows_left, 16) : kWarps, fours = R::kN > kNarrow && p.narrow ? kNarrow / 8 : kFours;
    await_count(counters + of, static_cast<unsigned>(cuts * warps));
    const bool pairs = on_pairs(c, ldc);
    const float4* const first = sums_of + static_cast<Size>(of) * cuts * kTile + lane;
#pragma unroll 1
    for (int unit = cut * kWarps + warp; unit < warps * fours; unit += cuts * kWarps) {  // 16 rows, 8 columns
        const int w = unit / fours, i = unit % fours;
        float sums[4] = {};
        const float4* const from = first + (w * kFours + i) * 32;
        int one = 0;
        for (; one + kAtOnce <= cuts; one += kAtOnce) {  // so many in flight, added in order
            float4 four[kAtOnce];
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) four[j] = __ldcg(from + (one + j) * kTile);
#pragma unroll
            for (int j = 0; j < kAtOnce; ++j) sums[0] += four[j].x, sums[1] += four[j].y, sums[2] += four[j].z, sums[3] += four[j].w;
        }
        for (; one < cuts; ++one) add_sums(sums, from + one * kTile);
        const int row = p.row0 + w * 16 + lane / 4, column = p.column0 + 8 * i + lane % 4 * 2;
        store_pair(c, row, column, t.m, t.n, ldc, pairs, sums[0], sums[1]);
        store_pair(c, row + 8, column, t.m, t.n, ldc, pairs, sums[2], sums[3]);
    }
    count_out(counters + of, static_cast<unsigned>(cuts * (warps + kWarps)));
    if (asked) boxes_wait<0, true>();
}

// The first `whole` tiles are not cut, the others into `cuts` parts. `sums_of` holds a tile of sums for each block; `counters` one for
// each tile that is cut, 0 before and after. All blocks must have a place on the GPU at once: they wait for each other.
template <typename R, bool kEngine>
__global__ void __launch_bounds__(kWorkThreads, 1)
    joint(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c,
          const __grid_constant__ Tiles t, Bf16* __restrict__ c, float4* sums_of, unsigned* counters, int ldc, int whole, int cuts) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, 1>(full, empty);
        rows::publish_barriers();
    }
    __syncthreads();
    constexpr int kFours = R::kN / 8, kWarps = 2 * kGroupThreads / 32;  // of a thread; of a block that multiplies
    constexpr Size kTile = static_cast<Size>(kWarps) * kFours * 32;
    int box = 0;
    go_through<R, 1>(map_a, map_b, t, Deal(whole, cuts, blockIdx.x, gridDim.x), 0, stages, full, empty, [&](const Run& run, const Piece& p, int worker, const float* sums) {
        if (run.tile >= whole) {
            const int warp = threadIdx.x % kGroupThreads / 32 + worker * (kGroupThreads / 32);
            if (p.row0 + warp * 16 >= t.m) return;  // a warp has 16 rows
            const int fours = R::kN > kNarrow && p.narrow ? kNarrow / 8 : kFours;
            float4* const to = sums_of + ((run.tile - whole) * cuts + run.cut) * kTile + warp * kFours * 32 + threadIdx.x % 32;
#pragma unroll
            for (int i = 0; i < kFours; ++i) {
                if (i < fours) put_sums(to + i * 32, sums + 4 * i);
            }
            count_in(counters + (run.tile - whole));
            return;
        }
        const int row0 = p.row0 + worker * kGroupM;
        write_sums<R>(sums, stages + R::kStages * R::kStage + worker * R::kBoxes * R::kOut, box, worker, map_c, c, ldc, row0, p.column0, t.m - row0, t.n - p.column0, kEngine, 1,
                      false, false, [](int, float*) {});
    }, [&] { add_up<R>(t, c, sums_of, counters, ldc, whole, cuts); });
#endif
}

#ifdef LAB_WGMMA
// A group's sums of a part, in fp32: (m × n) of part 0, of part 1 …
template <typename R>
__device__ __forceinline__ void leave_sums(const Tiles& t, float* sums_of, const Run& run, const Piece& p, int worker, const float* sums) {
    float* const to = sums_of + static_cast<Size>(run.cut) * t.m * t.n;
    const int row = p.row0 + worker * kGroupM + threadIdx.x % kGroupThreads / 32 * 16 + threadIdx.x % 32 / 4, column = p.column0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < R::kN / 4; ++i) {
        const int r = row + i % 2 * 8, at = column + i / 2 * 8;
        float* const pair = to + static_cast<Size>(r) * t.n + at;
        const float x = sums[4 * (i / 2) + 2 * (i % 2)], y = sums[4 * (i / 2) + 2 * (i % 2) + 1];
        if (r < t.m && at + 1 < t.n && t.n % 2 == 0) {
            *reinterpret_cast<float2*>(pair) = make_float2(x, y);
        } else if (r < t.m) {
            if (at < t.n) pair[0] = x;
            if (at + 1 < t.n) pair[1] = y;
        }
    }
}
#endif

// Each tile in `cuts` parts, whose sums lie behind one another.
template <typename R>
__global__ void __launch_bounds__(kWorkThreads, 1)
    split(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ Tiles t, float* __restrict__ sums_of, int cuts) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    let_next_begin();
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, 1>(full, empty);
        rows::publish_barriers();
    }
    __syncthreads();
    go_through<R, 1>(map_a, map_b, t, Cuts(cuts, blockIdx.x, gridDim.x), 0, stages, full, empty, [&](const Run& run, const Piece& p, int worker, const float* sums) {
        leave_sums<R>(t, sums_of, run, p, worker, sums);
    });
#endif
}

// Each tile by a cluster of kCuts blocks, a part of its stages each. Every block leaves its sums in its shared memory, as its threads
// hold them, and adds up a kCuts-th of the columns of all.
template <typename R, int kCuts>
__global__ void LAB_CLUSTER(kCuts) __launch_bounds__(kWorkThreads, 1)
    cluster_split(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ Tiles t, Bf16* __restrict__ c, int ldc) {
#ifdef LAB_WGMMA
    constexpr int kBlocks = kCuts, kFours = R::kN / 8, kMine = kFours / kCuts, kAtOnce = 2, kConsumers = 2 * kGroupThreads;
    static_assert(kFours % (kCuts * kAtOnce) == 0 && kFours * kConsumers * 16 <= R::kStages * R::kStage, "sums of a tile have room where its stages were");
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    float4* const fours = reinterpret_cast<float4*>(stages);
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, 1>(full, empty);
        rows::publish_barriers();
    }
    __syncthreads();
    const int rank = rows::cluster_rank(), thread = static_cast<int>(threadIdx.x) - kGroupThreads;
    go_through<R, 1>(map_a, map_b, t, Cuts(kCuts, blockIdx.x, gridDim.x), 0, stages, full, empty, [&](const Run&, const Piece& p, int, const float* sums) {
        if (p.groups == 2) consumers_meet();  // the other one may still read a stage
#pragma unroll
        for (int i = 0; i < kFours; ++i) fours[i * kConsumers + thread] = make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]);
    });
    __syncwarp();
    rows::cluster_sync<kBlocks>();
    const Piece p = piece_of<R, 1>(t, {static_cast<int>(blockIdx.x) / kCuts, 0, 0, 0}, 0);
    const int row = p.row0 + thread / kGroupThreads * kGroupM + thread % kGroupThreads / 32 * 16 + thread % 32 / 4;
    if (thread >= 0 && row < t.m) {
        const bool pairs = on_pairs(c, ldc);
#pragma unroll 1
        for (int first = rank * kMine; first < (rank + 1) * kMine; first += kAtOnce) {
            float sums[kAtOnce][4] = {};
#pragma unroll 4
            for (int of = 0; of < kCuts; ++of) {
#pragma unroll
                for (int i = 0; i < kAtOnce; ++i) {
                    const float4 four = sums_in(of, fours + (first + i) * kConsumers + thread);
                    sums[i][0] += four.x, sums[i][1] += four.y, sums[i][2] += four.z, sums[i][3] += four.w;
                }
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const int column = p.column0 + 8 * (first + i) + thread % 4 * 2;
                store_pair(c, row, column, t.m, t.n, ldc, pairs, sums[i][0], sums[i][1]);
                store_pair(c, row + 8, column, t.m, t.n, ldc, pairs, sums[i][2], sums[i][3]);
            }
        }
    }
    __syncwarp();
    rows::cluster_sync<kBlocks>();  // a block stays until nobody reads its shared memory
#endif
}

// `split` for at most 16 rows, tiles of 128 columns: a row of a box that lies outside costs the copy engine as much as one that is there,
// so A comes in boxes of 16 rows, and the ring is deeper. The other rows of a product are whatever lies there, and are not written.
constexpr int kFewRows = 16, kFewStages = 12, kFewStage = kFewRows * kBoxRow + kNarrow / kBox * kBytesBoxB;
static __global__ void __launch_bounds__(2 * kGroupThreads, 1)
    split_few(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ Tiles t, float* __restrict__ sums_of, int cuts) {
#ifdef LAB_WGMMA
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[kFewStages], empty[kFewStages];
    unsigned char* const stages = aligned(memory);
    let_next_begin();
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        for (int i = 0; i < kFewStages; ++i) {
            rows::set_up(&full[i], 1);
            rows::set_up(&empty[i], kGroupThreads / 32);
        }
        rows::publish_barriers();
    }
    __syncthreads();
    Cuts walk(cuts, blockIdx.x, gridDim.x);
    Turn<kFewStages> at;
    Run run{};
    if (threadIdx.x < kGroupThreads) {
        if (threadIdx.x > 0) return;
        while (walk.next(t, run)) {
            for (int s = run.first; s < run.last; ++s, at.next()) {
                unsigned char* const stage = stages + at.slot * kFewStage;
                wait_for(&empty[at.slot], at.parity ^ 1);
                rows::expect(&full[at.slot], kFewStage);
                for (int i = 0; i < kNarrow / kBox; ++i) fetch_box<1>(stage + kFewRows * kBoxRow + i * kBytesBoxB, map_b, run.tile * kNarrow + i * kBox, s * kTileK, &full[at.slot]);
                fetch_box<1>(stage, map_a, s * kTileK, 0, &full[at.slot]);
            }
        }
        return;
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - kGroupThreads / 32;
    while (walk.next(t, run)) {
        float sums[kNarrow / 2] = {};
        int before = 0;
#pragma unroll 1
        for (int s = run.first; s < run.last; ++s, at.next()) {
            wait_for(&full[at.slot], at.parity);
            products_begin();
            multiply_rows<kNarrow>(sums, stages + at.slot * kFewStage, kFewRows * kBoxRow, 0, s > run.first);
            products_commit();
            if (s > run.first) {
                products_wait<1>();
                if (lane == 0) arrive_in(0, &empty[before]);
            }
            before = at.slot;
        }
        products_wait<0>();
        take_results(sums);
        if (lane == 0) arrive_in(0, &empty[before]);
        if (warp > 0) continue;  // a warp has 16 rows
        float* const to = sums_of + static_cast<Size>(run.cut) * t.m * t.n;
#pragma unroll
        for (int i = 0; i < kNarrow / 4; ++i) {
            const int row = lane / 4 + i % 2 * 8, column = run.tile * kNarrow + i / 2 * 8 + lane % 4 * 2;
            if (row < t.m && column < t.n) to[static_cast<Size>(row) * t.n + column] = sums[2 * i];
            if (row < t.m && column + 1 < t.n) to[static_cast<Size>(row) * t.n + column + 1] = sums[2 * i + 1];
        }
    }
#endif
}

// Tiles of 64 columns and kRows rows: half of the stages for each block of a cluster, kDeep × 64 of k each. What a block has of the other
// one's 32 columns goes into the other one's shared memory: no second kernel. The columns of B are the rows of these products. The first
// stages are asked for before anybody waits for anybody.
template <int Rows, int Deep, int Stages>
struct Halves {
    static constexpr int kRows = Rows, kDeep = Deep, kStages = Stages, kBytesA = Deep * Rows * kBoxRow, kStage = kBytesA + Deep * kBytesBoxB;
    static constexpr int kColumns = kBox / 2, kPitch = kColumns + 4, kSums = Rows * kPitch;  // of a block; 4: a warp's writes meet no bank twice
    static constexpr int kBytes = Stages * kStage + 2 * kSums * 4 + 1024;
};
using FewHalves = Halves<16, 2, 6>;
using MoreHalves = Halves<64, 1, 12>;

#ifdef LAB_WGMMA
#ifdef __CUDACC__
#define LAB_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
// Adds to 64 × kN sums of a group: 64 columns of B, kN rows of A.
template <int kN>
__device__ __forceinline__ void multiply_columns(float (&d)[kN / 2], Size columns, Size rows) {
    static_assert(kN == 16 || kN == 64, "the two widths written out here");
    if constexpr (kN == 16) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, 1, 1, 1, 1, 0;"
                     : LAB_4(0), LAB_4(4)
                     : "l"(columns), "l"(rows));
    } else {
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                     "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 1, 0;"
                     : LAB_4(0), LAB_4(4), LAB_4(8), LAB_4(12), LAB_4(16), LAB_4(20), LAB_4(24), LAB_4(28)
                     : "l"(columns), "l"(rows));
    }
}
#undef LAB_4
__device__ __forceinline__ void put_four_in(int block, float4* pointer, const float* x) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(rows::address_in(block, pointer)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
}
__device__ __forceinline__ void put_in(int block, float* pointer, float x) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(rows::address_in(block, pointer)), "f"(x) : "memory");
}
#endif
#endif

constexpr int kHalvesThreads = kGroupThreads + 32;
template <typename H>
__global__ void LAB_CLUSTER(2) __launch_bounds__(kHalvesThreads, 1)
    halves(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, Bf16* __restrict__ c, int m, int n, int k) {
#ifdef LAB_WGMMA
    constexpr int kBlocks = 2;
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[H::kStages], empty[H::kStages];
    unsigned char* const stages = aligned(memory);
    float* const sums_of = reinterpret_cast<float*>(stages + H::kStages * H::kStage);  // of the one block, of the other
    const int rank = rows::cluster_rank(), all = parts(k, H::kDeep * kTileK), first = all / 2 * rank, count = rank == 0 ? all / 2 : all - all / 2, across = parts(n, kBox);
    const int tile = blockIdx.x / kBlocks, column0 = tile % across * kBox, row0 = tile / across * H::kRows, thread = threadIdx.x, lane = thread % 32;
    Turn<H::kStages> at;
    const auto fetch = [&](int s) {
        unsigned char* const stage = stages + at.slot * H::kStage;
        const int depth = (first + s) * H::kDeep * kTileK;
        rows::expect(&full[at.slot], H::kStage);
        fetch_box<1>(stage + H::kBytesA, map_b, column0, depth, &full[at.slot]);
        for (int i = 0; i < H::kDeep; ++i) fetch_box<1>(stage + i * H::kRows * kBoxRow, map_a, depth + i * kTileK, row0, &full[at.slot]);
        at.next();
    };
    if (thread == kGroupThreads) {
        for (int i = 0; i < H::kStages; ++i) {
            rows::set_up(&full[i], 1);
            rows::set_up(&empty[i], kGroupThreads / 32);
        }
        rows::publish_barriers();
        for (int s = 0; s < H::kStages && s < count; ++s) fetch(s);
    }
    __syncwarp();
    rows::cluster_sync<kBlocks>();  // … and the other block is there
    if (thread == kGroupThreads) {
        for (int s = H::kStages; s < count; ++s) {
            wait_for(&empty[at.slot], at.parity ^ 1);
            fetch(s);
        }
    } else if (thread < kGroupThreads) {
        float sums[H::kRows / 2] = {};
        int before = 0;
#pragma unroll 1
        for (int s = 0; s < count; ++s, at.next()) {
            wait_for(&full[at.slot], at.parity);
            products_begin();
            const unsigned stage = rows::shared_address(stages) + at.slot * H::kStage;
#pragma unroll
            for (int i = 0; i < H::kDeep * kTileK / 16; ++i) {
                multiply_columns<H::kRows>(sums, descriptor_b(stage + H::kBytesA) + i * kStepB, descriptor_a(stage + i / 4 * H::kRows * kBoxRow) + i % 4 * kStepA);
            }
            products_commit();
            if (s > 0) {
                products_wait<1>();
                if (lane == 0) arrive_in(rank, &empty[before]);
            }
            before = at.slot;
        }
        products_wait<0>();
        take_results(sums);
        const int warp = thread / 32;  // 16 columns: those of two warps are of one block
        float* const to = sums_of + rank * H::kSums + lane % 4 * 2 * H::kPitch + warp % 2 * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < H::kRows / 2; ++i) put_in(warp / 2, to + (i / 4 * 8 + i % 2) * H::kPitch + i % 4 / 2 * 8, sums[i]);
    }
    __syncwarp();
    rows::cluster_sync<kBlocks>();
    if (thread >= kGroupThreads) return;
    const bool words = n % 4 == 0 && reinterpret_cast<Size>(c) % 8 == 0;
    const int column = column0 + rank * H::kColumns + thread % 8 * 4;
    for (int row = thread / 8; row < H::kRows && row0 + row < m; row += kGroupThreads / 8) {
        const float4 one = *reinterpret_cast<const float4*>(sums_of + row * H::kPitch + thread % 8 * 4);
        const float4 other = *reinterpret_cast<const float4*>(sums_of + H::kSums + row * H::kPitch + thread % 8 * 4);
        const float four[4] = {one.x + other.x, one.y + other.y, one.z + other.z, one.w + other.w};
        Bf16* const to = c + static_cast<Size>(row0 + row) * n + column;
        if (words && column < n) {
            *reinterpret_cast<uint2*>(to) = uint2{pack_pair<Bf16>(four[0], four[1]), pack_pair<Bf16>(four[2], four[3])};
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if (column + i < n) to[i] = __float2bfloat16_rn(four[i]);
            }
        }
    }
#endif
}

// More rows than that: `split` by pairs of blocks, whose sums are added up before they leave. A block has one group's rows of both; the
// other group's sums go into the other block's shared memory, as its threads hold them.
template <typename R>
__global__ void LAB_CLUSTER(2) __launch_bounds__(kWorkThreads, 1)
    split_pairs(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ Tiles t, float* __restrict__ sums_of, int cuts) {
#ifdef LAB_WGMMA
    constexpr int kBlocks = 2, kFours = R::kN / 8;
    extern __shared__ unsigned char memory[];
    __shared__ rows::Barrier full[R::kStages], empty[R::kStages];
    unsigned char* const stages = aligned(memory);
    float4* const others = reinterpret_cast<float4*>(stages + R::kStages * R::kStage) + threadIdx.x % kGroupThreads;
    let_next_begin();
    if (threadIdx.x == 0) {
        prefetch_map(map_a);
        prefetch_map(map_b);
        set_up_ring<R, 1>(full, empty);
        rows::publish_barriers();
    }
    rows::cluster_sync<kBlocks>();
    const int rank = rows::cluster_rank(), pair = blockIdx.x / kBlocks, pairs = cuts / kBlocks, cut = pair % pairs * kBlocks + rank;
    const Run run{pair / pairs, t.stages * cut / cuts, t.stages * (cut + 1) / cuts, pair % pairs};
    const Piece p = piece_of<R, 1>(t, run, 0);
    Turn<R::kStages> turn;
    const int worker = static_cast<int>(threadIdx.x) / kGroupThreads - 1;
    if (worker < 0) {
        give_registers<40>();
        if (threadIdx.x == 0) {
            fetch_piece<R, 1>(turn, stages, full, empty, map_a, p, 0, [&](void* to, int box, int s, rows::Barrier* arrived) {
                fetch_box<1>(to, map_b, p.column0 + box * kBox, s * kTileK, arrived);
            });
        }
        __syncwarp();
        rows::cluster_sync<kBlocks>();
    } else {
        take_registers<232>();
        float sums[R::kN / 2] = {};
        if (run.first < run.last) work_on<R, 1>(sums, turn, stages, full, empty, p, worker);
        if (worker != rank) {
#pragma unroll
            for (int i = 0; i < kFours; ++i) put_four_in(1 - rank, others + i * kGroupThreads, sums + 4 * i);
        }
        __syncwarp();
        rows::cluster_sync<kBlocks>();
        if (worker == rank && worker < p.groups) {
#pragma unroll
            for (int i = 0; i < kFours; ++i) {
                const float4 four = others[i * kGroupThreads];
                sums[4 * i] += four.x, sums[4 * i + 1] += four.y, sums[4 * i + 2] += four.z, sums[4 * i + 3] += four.w;
            }
            leave_sums<R>(t, sums_of, run, p, worker, sums);
        }
    }
#endif
}

// The second pass of `split`: four elements a thread, where rows are whole fours.
constexpr int kAddThreads = 256;
static __global__ void __launch_bounds__(kAddThreads) add_parts(const float* __restrict__ sums_of, Bf16* __restrict__ c, int m, int n, int ldc, int cuts) {
    const Size all = static_cast<Size>(m) * n, at = static_cast<Size>(blockIdx.x) * kAddThreads + threadIdx.x;
    await_kernel_before();
    if (n % 4 == 0 && ldc % 4 == 0 && reinterpret_cast<Size>(c) % 8 == 0) {
        if (4 * at >= all) return;
        float sums[4] = {};
#pragma unroll 4
        for (int i = 0; i < cuts; ++i) {
            const float4 four = *reinterpret_cast<const float4*>(sums_of + i * all + 4 * at);
            sums[0] += four.x, sums[1] += four.y, sums[2] += four.z, sums[3] += four.w;
        }
        const uint2 four{pack_pair<Bf16>(sums[0], sums[1]), pack_pair<Bf16>(sums[2], sums[3])};
        *reinterpret_cast<uint2*>(c + 4 * at / n * ldc + 4 * at % n) = four;
        return;
    }
    for (Size one = 4 * at; one < 4 * at + 4 && one < all; ++one) {
        float sum = 0;
        for (int i = 0; i < cuts; ++i) sum += sums_of[i * all + one];
        c[one / n * ldc + one % n] = __float2bfloat16_rn(sum);
    }
}

// Two matrices, rows without gaps, to where each row starts on 16 bytes: `pitch` elements apart, a multiple of 8, zeros between.
// Eight elements a thread, from the two aligned words of 16 bytes in which they lie.
constexpr int kPackThreads = 256;
static __global__ void __launch_bounds__(kPackThreads) pack(const Bf16* __restrict__ a, Bf16* __restrict__ to_a, int rows_a, int columns_a, int pitch_a,
                                                             const Bf16* __restrict__ b, Bf16* __restrict__ to_b, int rows_b, int columns_b, int pitch_b) {
    Size at = static_cast<Size>(blockIdx.x) * kPackThreads + threadIdx.x;
    const Bf16* from = a;
    Bf16* to = to_a;
    int rows_of = rows_a, columns = columns_a, pitch = pitch_a;
    const Size of_a = static_cast<Size>(rows_a) * parts(columns_a, 8);
    if (at >= of_a) at -= of_a, from = b, to = to_b, rows_of = rows_b, columns = columns_b, pitch = pitch_b;
    const int chunks = parts(columns, 8);
    const Size row = at / chunks;
    if (row >= static_cast<Size>(rows_of)) return;
    const int column = static_cast<int>(at % chunks) * 8;
    const Bf16* const start = from + row * columns + column;
    const Size late = reinterpret_cast<Size>(start) % 16 / 2;  // elements behind an aligned word
    const Bf16 *const low = start - late, *const end = from + static_cast<Size>(rows_of) * columns;
    uint4 words[2] = {};
    if (low >= from && low + 16 <= end) {
        words[0] = *reinterpret_cast<const uint4*>(low), words[1] = *reinterpret_cast<const uint4*>(low + 8);
    } else {
        alignas(16) unsigned short each[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) each[i] = low + i >= from && low + i < end ? reinterpret_cast<const unsigned short*>(low)[i] : 0;
        words[0] = reinterpret_cast<const uint4*>(each)[0], words[1] = reinterpret_cast<const uint4*>(each)[1];
    }
    unsigned pairs[9] = {words[0].x, words[0].y, words[0].z, words[0].w, words[1].x, words[1].y, words[1].z, words[1].w, 0};
#pragma unroll
    for (int step = 4; step > 0; step /= 2) {  // moved down by `late` elements, in three steps: registers have no index
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const unsigned moved = step == 1 ? pairs[i] >> 16 | pairs[i + 1] << 16 : pairs[i + step / 2 < 8 ? i + step / 2 : 8];
            if (late & step) pairs[i] = moved;
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {  // nothing of the next row
        const int left = columns - column - 2 * i;
        pairs[i] = left > 1 ? pairs[i] : left > 0 ? pairs[i] & 0xffff : 0;
    }
    *reinterpret_cast<uint4*>(to + row * pitch + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

}  // namespace gemm
}  // namespace lab
