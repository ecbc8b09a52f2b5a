// Tiles of eight rows by a panel on Arm: a group's codes are unpacked once for all tiles. P is a
// class of products:
//
//   kUnits, kVectors   sums are kUnits x kVectors vectors, of 8 rows x 8 columns (a block)
//   kSpread, spread    of GroupEnd
//   kUnrolled          steps of a group for which the loop is unrolled; 0: none
//   unpack             a step's codes of a block, from those of its two vectors of columns
//   step               adds the products of a step
//   offset             where vector (i, j) of block c lies in the sums of a tile
//   of_rows            the sums of eight rows' bytes, for each unit a vector as sums have them
//   to_rows            puts the sums of a tile in the order of rows
//
// Included by ISA sources.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_wq/group_end_neon.h"
#include "kernels/inline.h"
#include "kernels/qgemm_wq/codes_neon.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kTileRows = 8, kTileSums = kTileRows * kWqColumns;
constexpr int64_t kBlock = 8, kBlocks = kWqColumns / kBlock;
constexpr int64_t kBlockBytes = kBlock * kStep;  // of a step
// k that are unpacked at a time. A block's codes lie step by step, one block after another.
constexpr int64_t kChunk = 512;
static_assert(kWqIntegers % kChunk == 0);

template <typename P, int kBits, bool kWhole>
CPUACCEL_INLINE void unpack_step(const std::byte* codes, int8_t* to, int64_t stride,
                                 int8x16_t center) {
  CPUACCEL_UNROLL
  for (int c = 0; c < kBlocks; ++c) {
    Halves halves[2];
    CPUACCEL_UNROLL
    for (int j = 0; j < 2; ++j) {
      halves[j] = load_codes<kBits, kWhole>(codes + (2 * c + j) * 16);
      if constexpr (kBits == 4) {
        halves[j].low = vsubq_s8(halves[j].low, center);
        halves[j].high = vsubq_s8(halves[j].high, center);
      }
    }
    P::unpack(halves, to + c * stride);
  }
}

template <typename P, int kBits>
CPUACCEL_INLINE void unpack_codes(const std::byte* codes, int64_t steps, bool half_more,
                                  int8x16_t center, int8_t* to) {
  const int64_t stride = (steps + (half_more ? 1 : 0)) * kBlockBytes;
  for (; steps > 0; --steps) {
    unpack_step<P, kBits, true>(codes, to, stride, center);
    codes += kStepBytes<kBits>;
    to += kBlockBytes;
  }
  if (kBits == 8 && half_more) {
    unpack_step<P, kBits, false>(codes, to, stride, center);
  }
}

template <typename P>
using Sums = int32x4_t[P::kUnits][P::kVectors];

// Adds the products of some steps. kSteps: their number if it is known.
template <typename P, int kSteps>
CPUACCEL_INLINE void add_steps(Sums<P>& sums, const int8_t* rows, const int8_t* codes,
                               int64_t steps) {
  if constexpr (kSteps != 0) {
    CPUACCEL_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      P::step(sums, rows + step * kTileRows * kStep, codes + step * kBlockBytes);
      asm volatile("" : "+r"(codes), "+r"(rows));
    }
    return;
  }
  if (steps % 2 != 0) {
    P::step(sums, rows, codes);
    rows += kTileRows * kStep;
    codes += kBlockBytes;
  }
  for (steps /= 2; steps > 0; --steps) {
    P::step(sums, rows, codes);
    // Keeps the compiler from loading several steps ahead, which would spill the sums.
    asm volatile("" : "+r"(codes), "+r"(rows));
    P::step(sums, rows + kTileRows * kStep, codes + kBlockBytes);
    rows += 2 * kTileRows * kStep;
    codes += 2 * kBlockBytes;
    asm volatile("" : "+r"(codes), "+r"(rows));
  }
}

// Sums of up to kExact k may start as in Starts: the bits of 1.5 * 2^23 plus the sum are those of
// an f32. To subtract takes half as long as to convert.
constexpr int64_t kExact = 256;
static_assert(kExact * 128 * 128 <= 1 << 22);

// Sums start as copies of a register would, but in the pipes of loads, which have time left.
struct Starts {
  alignas(64) int32_t as_float[kTileRows * kBlock];
  Starts() { std::fill_n(as_float, kTileRows * kBlock, 0x4b400000); }
};

template <bool kShifted>
CPUACCEL_INLINE float32x4_t to_floats(int32x4_t sum) {
  return kShifted ? vsubq_f32(vreinterpretq_f32_s32(sum), vdupq_n_f32(0x1.8p23f))
                  : vcvtq_f32_s32(sum);
}

// Adds a group's sums of block c to those of the tile.
template <typename P, bool kShifted, bool kZeros, bool kReals>
CPUACCEL_INLINE void end_block(float* tile, const Sums<P>& sums, const GroupEnd<P>& end,
                               const float32x4_t (&of_rows)[P::kUnits], int64_t c) {
  const int64_t at = c * P::kVectors * 4;
  CPUACCEL_UNROLL
  for (int j = 0; j < P::kVectors; ++j) {
    const float32x4_t scale = vld1q_f32(end.scales() + at + 4 * j);
    CPUACCEL_UNROLL
    for (int i = 0; i < P::kUnits; ++i) {
      float* to = tile + P::offset(c, i, j);
      float32x4_t before = vld1q_f32(to), sum = to_floats<kShifted>(sums[i][j]);
      if constexpr (kZeros) {
        sum = vfmsq_f32(sum, vld1q_f32(end.zeros() + at + 4 * j), of_rows[i]);
      }
      if constexpr (kReals) {
        before = vfmaq_f32(before, vld1q_f32(end.reals() + at + 4 * j), of_rows[i]);
      }
      vst1q_f32(to, vfmaq_f32(before, scale, sum));
    }
  }
}

// Some unpacked k of a group.
struct Chunk {
  const int8_t* codes;
  int64_t steps;
  bool from_partial, to_partial;  // whether integers of this group were and will be kept
  bool ends;                      // whether the group ends
};

template <typename P>
CPUACCEL_INLINE void load(Sums<P>& sums, const int32_t* from) {
  // Keeps the compiler from knowing that all are equal.
  asm volatile("" : "+r"(from));
  CPUACCEL_UNROLL
  for (int i = 0; i < P::kUnits * P::kVectors; ++i) {
    sums[i / P::kVectors][i % P::kVectors] = vld1q_s32(from + 4 * i);
  }
}

// A whole group of up to kExact k. kSteps: its steps; 0: any number.
template <typename P, int kSteps, bool kZeros, bool kReals>
void multiply_tile(const Chunk& chunk, const int8_t* rows, const float* row_sums,
                   const GroupEnd<P>& end, const Starts& starts, float* tile) {
  const int64_t steps = kSteps != 0 ? kSteps : chunk.steps;
  const int8_t* codes = chunk.codes;
  float32x4_t of_rows[P::kUnits];
  if constexpr (kZeros || kReals) {
    P::of_rows(row_sums, of_rows);
  }
  for (int64_t c = 0; c < kBlocks; ++c, codes += steps * kBlockBytes) {
    Sums<P> sums;
    load<P>(sums, starts.as_float);
    add_steps<P, kSteps>(sums, rows, codes, steps);
    end_block<P, true, kZeros, kReals>(tile, sums, end, of_rows, c);
  }
}

// Some k of a longer group. The integers of its parts are kept in `partial`.
template <typename P>
void multiply_part(const Chunk& chunk, const int8_t* rows, const float* row_sums,
                   const GroupEnd<P>& end, float* tile, int32_t* partial) {
  float32x4_t of_rows[P::kUnits];
  P::of_rows(row_sums, of_rows);
  for (int64_t c = 0; c < kBlocks; ++c, partial += kTileRows * kBlock) {
    Sums<P> sums;
    CPUACCEL_UNROLL
    for (int i = 0; i < P::kUnits * P::kVectors; ++i) {
      sums[i / P::kVectors][i % P::kVectors] = vdupq_n_s32(0);
    }
    add_steps<P, 0>(sums, rows, chunk.codes + c * chunk.steps * kBlockBytes, chunk.steps);
    CPUACCEL_UNROLL
    for (int i = 0; i < P::kUnits * P::kVectors; ++i) {
      auto& sum = sums[i / P::kVectors][i % P::kVectors];
      if (chunk.from_partial) {
        sum = vaddq_s32(sum, vld1q_s32(partial + 4 * i));
      }
      if (chunk.to_partial) {
        vst1q_s32(partial + 4 * i, sum);
      }
    }
    if (chunk.ends) {
      end.choose([&]<bool kZeros, bool kReals>() __attribute__((always_inline)) {
        end_block<P, false, kZeros, kReals>(tile, sums, end, of_rows, c);
      });
    } else if (!chunk.to_partial) {
      end_block<P, false, false, false>(tile, sums, end, of_rows, c);
    }
  }
}

template <typename P, int kBits>
void tiles_of(const QgemmWqTile& t) {
  const WqFormat& format = *t.format;
  const WqLayout& layout = *t.layout;
  const int64_t steps = divide_up(format.group, kStep);
  const bool half = kBits == 8 && divide_up(format.group, int64_t{4}) % 2 != 0;
  // Zeros of kind `integers` may be any byte. With them codes stay as they are.
  const int64_t center = format.zeros != WqZeros::integers ? format.center() : 0;
  const int8x16_t centers = vdupq_n_s8(static_cast<int8_t>(center));
  const auto* rows = reinterpret_cast<const int8_t*>(t.rows);
  const int64_t row_bytes = layout.groups * steps * kStep * kTileRows;  // of a tile
  alignas(64) int8_t codes[kChunk * kWqColumns];
  alignas(64) int32_t partial[kWqTiles * kTileSums];
  std::fill_n(t.sums, t.tiles * kTileSums, 0.0f);
  const Starts starts;
  GroupEnd<P> end(format, layout, center);
  for (int64_t g = 0; g < layout.groups; ++g) {
    const std::byte* group = t.panel + g * layout.group_bytes();
    end.load(group + layout.code_bytes);
    for (int64_t done = 0; done < steps; done += kChunk / kStep) {
      const int64_t count = std::min(steps - done, kChunk / kStep), next = done + count;
      const bool last = next == steps;
      unpack_codes<P, kBits>(group + done * kStepBytes<kBits>, count - (half && last ? 1 : 0),
                             half && last, centers, codes);
      const Chunk chunk{.codes = codes,
                        .steps = count,
                        .from_partial = done * kStep % kWqIntegers != 0,
                        .to_partial = !last && next * kStep % kWqIntegers != 0,
                        .ends = last};
      const int8_t* of_chunk = rows + (g * steps + done) * kStep * kTileRows;
      const auto each_tile = [&](const auto& multiply) __attribute__((always_inline)) {
        for (int64_t i = 0; i < t.tiles; ++i) {
          multiply(of_chunk + i * row_bytes, t.row_sums + (i * layout.groups + g) * kTileRows,
                   t.sums + i * kTileSums, partial + i * kTileSums);
        }
      };
      if (steps > kExact / kStep) {
        each_tile([&](auto* of_tile, auto* row_sums, auto* sums, auto* kept) {
          multiply_part<P>(chunk, of_tile, row_sums, end, sums, kept);
        });
        continue;
      }
      end.choose([&]<bool kZeros, bool kReals>() __attribute__((always_inline)) {
        each_tile([&](auto* of_tile, auto* row_sums, auto* sums, auto*) {
          const bool short_group = steps == P::kUnrolled;
          (short_group
               ? multiply_tile<P, P::kUnrolled, kZeros, kReals>
               : multiply_tile<P, 0, kZeros, kReals>)(chunk, of_tile, row_sums, end, starts, sums);
        });
      });
    }
  }
  for (int64_t i = 0; i < t.tiles; ++i) {
    P::to_rows(t.sums + i * kTileSums);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
