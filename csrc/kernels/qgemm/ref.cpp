#include <algorithm>
#include <cmath>

#include "kernels/conv_ref.h"
#include "kernels/gemm/half.h"
#include "kernels/qgemm/kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kRows = 4, kColumns = 6, kRun = 8;

// Packs lines side by side, run by run.
void interleave(const QgemmLines& lines, int64_t width) {
  for (int64_t k = 0; k < round_up(lines.K, kRun); ++k) {
    int8_t* run = lines.dst + k / kRun * kRun * width;
    for (int64_t line = 0; line < width; ++line) {
      const bool there = line < lines.count && k < lines.K;
      run[line * kRun + k % kRun] =
          static_cast<int8_t>(there ? lines.src[line * lines.stride + k] ^ lines.flip : 0);
    }
  }
}

void rows(const QgemmLines& lines) { interleave(lines, kRows); }
void columns(const QgemmLines& lines) { interleave(lines, kColumns); }

void tile(const QgemmTile& t) {
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      int32_t& to = t.sums[i * kColumns + j];
      uint32_t sum = t.add ? static_cast<uint32_t>(to) : 0;
      for (int64_t run = t.first_run; run < t.first_run + t.runs; ++run) {
        for (int64_t k = 0; k < kRun; ++k) {
          sum += static_cast<uint32_t>(t.rows[(run * kRows + i) * kRun + k] *
                                       t.panel[(run * kColumns + j) * kRun + k]);
        }
      }
      to = static_cast<int32_t>(sum);
    }
  }
}

void store(const QgemmStore& s) {
  const QgemmDst& dst = s.call.dst;
  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < s.n; ++j) {
      const int64_t n = s.n0 + j, at = (s.m0 + i) * dst.row_stride + n;
      const auto sum = static_cast<uint32_t>(s.sums[i * kColumns + j]);
      const auto of_column = static_cast<uint32_t>(s.call.weights->column_sums[n]);
      const auto acc = static_cast<int32_t>(sum + static_cast<uint32_t>(s.offsets[i]) * of_column);
      if (dst.type == DataType::s32) {
        static_cast<int32_t*>(dst.data)[at] = acc;
        continue;
      }
      const float scaled = static_cast<float>(acc) * (s.scales != nullptr ? s.scales[i] : 1.0f);
      const float bias = dst.bias != nullptr ? dst.bias[n] : 0.0f;
      const float real = std::fma(scaled, dst.scales[n], bias);
      if (dst.type == DataType::bf16) {
        static_cast<uint16_t*>(dst.data)[at] = float_to_bf16(activation_ref(dst.activation, real));
      } else {
        store_real_ref(s.conv, at, real);
      }
    }
  }
}

}  // namespace

const QgemmKernels& qgemm_ref() {
  static constexpr QgemmKernels kernels{kRows, kColumns, kRun, rows, columns, tile, store};
  return kernels;
}

}  // namespace cpuaccel::kernels
