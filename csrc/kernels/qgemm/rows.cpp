#include "kernels/qgemm/rows.h"

#include <algorithm>
#include <cmath>

#include "kernels/minmax/minmax.h"
#include "kernels/quantize/quantize.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

bool is_unsigned(QgemmSrcType type) {
  return type == QgemmSrcType::u8 || type == QgemmSrcType::f32_to_u8 ||
         type == QgemmSrcType::f32_rows_to_u8;
}

bool is_bytes(QgemmSrcType type) { return type == QgemmSrcType::u8 || type == QgemmSrcType::s8; }

bool scales_rows(QgemmSrcType type) {
  return type == QgemmSrcType::f32_rows_to_u8 || type == QgemmSrcType::f32_rows_to_s8;
}

struct Quantizer {
  float scale = 1.0f;
  int32_t zero_point = 0;
};

// Formulas of qgemm.h.
Quantizer row_quantizer(QgemmSrcType type, const float* src, int64_t K) {
  constexpr float kSmallest = 0x1p-96f;
  MinMax range{0.0f, 0.0f};
  if (K > 0) {
    range = first_usable(minmax_kernels()).function(src, K);
  }
  range.min = std::min(range.min, 0.0f);
  range.max = std::max(range.max, 0.0f);
  if (type == QgemmSrcType::f32_rows_to_s8) {
    return {std::max({-range.min, range.max, kSmallest}) / 127.0f, 0};
  }
  const float scale = std::max(range.max / 255.0f - range.min / 255.0f, kSmallest);
  const float zero_point = std::nearbyint(-range.min * (1.0f / scale));
  return {scale, static_cast<int32_t>(std::fmin(std::fmax(zero_point, 0.0f), 255.0f))};
}

void quantize_row(const float* src, uint8_t* dst, int64_t K, const Quantizer& by, uint8_t offset) {
  first_usable(quantize_kernels())
      .function(src, dst, K, quantize_by(1.0f / by.scale, by.zero_point, offset));
}

}  // namespace

QgemmRows::QgemmRows(const QgemmCall& of, const QgemmKernels& by, int64_t first_row, int64_t count)
    : call(of),
      kernels(by),
      first(first_row),
      row_bytes(round_up(of.weights->K, by.run) * by.row_element) {
  const int64_t rows = round_up(count, by.mr);
  const int64_t tile_bytes = round_up(rows * row_bytes, 64);
  const bool scaled = scales_rows(of.src.type) || of.src.scales != nullptr;
  const auto numbers = static_cast<int64_t>(sizeof(int32_t) + sizeof(float));
  auto* memory = static_cast<int8_t*>(
      scratch(ScratchSlot::gemm_a, static_cast<size_t>(tile_bytes + rows * numbers)));
  tiles = memory;
  offsets = reinterpret_cast<int32_t*>(memory + tile_bytes);
  scales = scaled ? reinterpret_cast<float*>(offsets + rows) : nullptr;
}

void QgemmRows::pack(int64_t m, int64_t count) const {
  for (int64_t i = 0; i < count; i += kernels.mr) {
    pack_tile(m + i, std::min(kernels.mr, count - i));
  }
}

void QgemmRows::pack_tile(int64_t m, int64_t count) const {
  const QgemmSrc& src = call.src;
  const int64_t K = call.weights->K;
  // What the bytes that kernels.rows() reads are above the source's, or below.
  const uint8_t flip = is_unsigned(src.type) ? 0x80 : 0;
  const int32_t offset = flip - kernels.row_offset;
  QgemmLines lines;
  lines.count = count;
  lines.K = K;
  lines.flip = static_cast<uint8_t>(flip ^ kernels.row_offset);
  lines.dst = const_cast<int8_t*>(tile(m));
  if (is_bytes(src.type)) {
    lines.src = static_cast<const uint8_t*>(src.data) + m * src.row_stride;
    lines.stride = src.row_stride;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t zero_point =
          src.zero_points != nullptr ? src.zero_points[m + i] : src.zero_point;
      offsets[m + i - first] = offset - zero_point;
      if (scales != nullptr) {
        scales[m + i - first] = src.scales[m + i];
      }
    }
  } else {
    auto* bytes =
        static_cast<uint8_t*>(scratch(ScratchSlot::gemm_b, static_cast<size_t>(kernels.mr * K)));
    lines.src = bytes;
    lines.stride = K;
    for (int64_t i = 0; i < count; ++i) {
      const float* row = static_cast<const float*>(src.data) + (m + i) * src.row_stride;
      const bool own_scale = scales_rows(src.type);
      const Quantizer by =
          own_scale ? row_quantizer(src.type, row, K) : Quantizer{src.scale, src.zero_point};
      quantize_row(row, bytes + i * K, K, by, flip ^ 0x80);
      offsets[m + i - first] = offset - by.zero_point;
      if (scales != nullptr) {
        scales[m + i - first] = by.scale;
      }
    }
  }
  kernels.rows(lines);
}

}  // namespace cpuaccel::kernels
