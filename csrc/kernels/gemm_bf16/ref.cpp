#include "kernels/gemm/half.h"
#include "kernels/gemm_bf16/gemm_bf16.h"

namespace cpuaccel::kernels {
namespace {

// Element k of pairs that are stored as floats.
float half_of(const void* pairs, int64_t k) { return element_to_float(pairs, DataType::bf16, k); }

void tile(const TileCall& call) {
  const int64_t nr = gemm_ref().nr;
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < 2 * call.k; ++k) {
        sum += half_of(call.a + i * call.a_stride, k) *
               half_of(static_cast<const float*>(call.panel) + k / 2 * nr + j, k % 2);
      }
      const float before = call.from.at(i, j);
      call.c[i * call.c_stride + j] = before + call.alpha * sum;
    }
  }
}

void dot(const DotCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < 2 * call.k; ++k) {
        sum += half_of(call.a + i * call.a_stride, k) *
               half_of(static_cast<const float*>(call.b) + j * call.b_stride, k);
      }
      float& c = call.c[i * call.c_row + j * call.c_column];
      c = (call.add ? c : 0.0f) + call.alpha * sum;
    }
  }
}

// The pair from element (row, column) on, along columns; or along rows.
float pair(const LoadCall& call, int64_t row, int64_t column, bool along_rows) {
  const auto at = [&](int64_t i, int64_t j) -> uint16_t {
    if (i >= call.rows || j >= call.columns) {
      return 0;
    }
    const int64_t offset = i * call.row_stride + j * call.column_stride;
    return call.type == DataType::bf16  // unchanged: rounding would make all NaNs the same
               ? static_cast<const uint16_t*>(call.src)[offset]
               : float_to_bf16(element_to_float(call.src, call.type, offset));
  };
  const uint32_t second = along_rows ? at(row + 1, column) : at(row, column + 1);
  return bits_to_float(at(row, column) | second << 16);
}

void rows(const LoadCall& call) {
  for (int64_t i = 0; i < call.rows; ++i) {
    for (int64_t k = 0; k < call.columns; k += 2) {
      call.dst[i * call.stride + k / 2] = pair(call, i, k, false);
    }
  }
}

void panels(const LoadCall& call, int64_t nr) {
  const int64_t pairs = (call.rows + 1) / 2;
  for (int64_t n = 0; n < call.columns; n += nr) {
    for (int64_t p = 0; p < pairs; ++p) {
      for (int64_t j = 0; j < nr; ++j) {
        call.dst[n * pairs + p * nr + j] = pair(call, 2 * p, n + j, true);
      }
    }
  }
}

const GemmKernels& pair_kernels() {
  static const GemmKernels kernels = [] {
    GemmKernels result = gemm_ref();
    result.tile = tile;
    result.dot = dot;
    return result;
  }();
  return kernels;
}

}  // namespace

const GemmBf16Kernels& gemm_bf16_ref() {
  static constexpr GemmBf16Kernels kernels{.pairs = pair_kernels,
                                           .together = 1,
                                           .interleaved = 1,
                                           .rows = rows,
                                           .tile_rows = rows,
                                           .panels = panels};
  return kernels;
}

}  // namespace cpuaccel::kernels
