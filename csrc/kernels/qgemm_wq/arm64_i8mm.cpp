#include "kernels/qgemm_wq/few_matrix_neon.h"
#include "kernels/qgemm_wq/one_row_neon.h"
#include "kernels/qgemm_wq/sdot.h"
#include "kernels/qgemm_wq/tiles_neon.h"

namespace cpuaccel::kernels {
namespace {

// SMMLA: a vector of sums is two rows by two columns.
struct MatrixRows {
  static constexpr int kUnits = kTileRows / 2, kVectors = kBlock / 2;
  static constexpr int kUnrolled = 4;  // the ends of groups of 32 take long
  static constexpr int64_t kSpread = 8;

  CPUACCEL_INLINE static void spread(float32x4_t four, float* to) {
    const float64x2_t pairs = vreinterpretq_f64_f32(four);
    vst1q_f32(to, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 0)));
    vst1q_f32(to + 4, vreinterpretq_f32_f64(vdupq_laneq_f64(pairs, 1)));
  }

  // Eight k of two columns side by side.
  CPUACCEL_INLINE static void unpack(const Halves (&halves)[2], int8_t* to) {
    CPUACCEL_UNROLL
    for (int j = 0; j < 2; ++j) {
      const int32x4_t low = vreinterpretq_s32_s8(halves[j].low);
      const int32x4_t high = vreinterpretq_s32_s8(halves[j].high);
      vst1q_s8(to + 32 * j, vreinterpretq_s8_s32(vzip1q_s32(low, high)));
      vst1q_s8(to + 32 * j + 16, vreinterpretq_s8_s32(vzip2q_s32(low, high)));
    }
  }

  CPUACCEL_INLINE static void step(int32x4_t (&sums)[kUnits][kVectors], const int8_t* rows,
                                   const int8_t* codes) {
    int8x16_t of_rows[kUnits];
    CPUACCEL_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      of_rows[i] = vld1q_s8(rows + 16 * i);
    }
    int8x16_t of_columns[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      of_columns[j] = vld1q_s8(codes + 16 * j);
    }
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      CPUACCEL_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        asm("smmla %0.4s, %1.16b, %2.16b" : "+w"(sums[i][j]) : "w"(of_rows[i]), "w"(of_columns[j]));
      }
    }
  }

  static constexpr int64_t offset(int64_t c, int64_t i, int64_t j) {
    return ((c * kVectors + j) * kUnits + i) * 4;
  }
  CPUACCEL_INLINE static void of_rows(const float* row_sums, float32x4_t (&to)[kUnits]) {
    CPUACCEL_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      const float32x2_t two = vld1_f32(row_sums + 2 * i);
      to[i] = vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
    }
  }
  static void to_rows(float* sums) {
    alignas(64) float blocks[kTileSums];
    std::copy_n(sums, kTileSums, blocks);
    for (int64_t c = 0; c < kBlocks; ++c) {
      for (int64_t i = 0; i < kUnits; ++i) {
        for (int64_t j = 0; j < kVectors; j += 2) {
          const float64x2_t low = vreinterpretq_f64_f32(vld1q_f32(blocks + offset(c, i, j)));
          const float64x2_t high = vreinterpretq_f64_f32(vld1q_f32(blocks + offset(c, i, j + 1)));
          float* to = sums + 2 * i * kWqColumns + c * kBlock + 2 * j;
          vst1q_f32(to, vreinterpretq_f32_f64(vzip1q_f64(low, high)));
          vst1q_f32(to + kWqColumns, vreinterpretq_f32_f64(vzip2q_f64(low, high)));
        }
      }
    }
  }
};

template <int kBits>
void tiles(const QgemmWqTile& t) {
  if (t.width > 1 && t.tiles == 1 && t.format->group <= kWqIntegers) {
    return few_pairs_of<kBits>(t);
  }
  t.width == kTileRows ? tiles_of<MatrixRows, kBits>(t) : rows_of<Sdot, kBits>(t);
}

void all_tiles(const QgemmWqTile& t) { t.format->bits == 4 ? tiles<4>(t) : tiles<8>(t); }

}  // namespace

const QgemmWqKernels& qgemm_wq_arm64_i8mm() {
  static constexpr QgemmWqKernels kernels{all_tiles};
  return kernels;
}

}  // namespace cpuaccel::kernels
