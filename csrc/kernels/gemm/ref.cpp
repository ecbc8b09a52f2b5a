#include "kernels/gemm/gemm.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kMr = 4;
constexpr int64_t kNr = 8;

void tile(const TileCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    float sums[kNr] = {};
    for (int64_t k = 0; k < call.k; ++k) {
      for (int64_t j = 0; j < kNr; ++j) {
        sums[j] +=
            call.a[i * call.a_stride + k] * element_to_float(call.panel, call.type, k * kNr + j);
      }
    }
    float* c = call.c + i * call.c_stride;
    for (int64_t j = 0; j < call.n; ++j) {
      const float before = call.from.at(i, j);
      c[j] = before + call.alpha * sums[j];
    }
  }
}

void dot(const DotCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    for (int64_t j = 0; j < call.n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < call.k; ++k) {
        sum += call.a[i * call.a_stride + k] *
               element_to_float(call.b, call.type, j * call.b_stride + k);
      }
      float& c = call.c[i * call.c_row + j * call.c_column];
      c = (call.add ? c : 0.0f) + call.alpha * sum;
    }
  }
}

void add_rows(const RowsCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    float* c = call.c + i * call.c_stride;
    for (int64_t k = 0; k < call.k; ++k) {
      const float value = call.alpha * call.a[i * call.a_stride + k];
      for (int64_t j = 0; j < call.n; ++j) {
        c[j] += value * element_to_float(call.b, call.type, k * call.b_stride + j);
      }
    }
  }
}

void load(const LoadCall& call) {
  for (int64_t i = 0; i < call.rows; ++i) {
    for (int64_t j = 0; j < call.columns; ++j) {
      call.dst[i * call.stride + j] =
          element_to_float(call.src, call.type, i * call.row_stride + j * call.column_stride);
    }
  }
}

void panels(const LoadCall& call, int64_t nr) {
  for (int64_t n = 0; n < call.columns; n += nr) {
    for (int64_t i = 0; i < call.rows; ++i) {
      for (int64_t j = n; j < n + nr; ++j) {
        call.dst[n * call.rows + i * nr + j - n] =
            j < call.columns ? element_to_float(call.src, call.type,
                                                i * call.row_stride + j * call.column_stride)
                             : 0.0f;
      }
    }
  }
}

void store(const float* src, int64_t count, void* dst, DataType type) {
  for (int64_t i = 0; i < count; ++i) {
    float_to_element(src[i], dst, type, i);
  }
}

void pixels(const GemmPixelsCall& call) {
  for (int64_t i = 0; i < call.m; ++i) {
    float* c = call.c + i * call.c_stride;
    for (int64_t j = 0; j < call.n; ++j) {
      float sum = call.add ? c[j] : call.bias != nullptr ? call.bias[j] : 0.0f;
      for (int64_t k = 0; k < call.k; ++k) {
        sum += call.src[i][call.offsets[k]] * call.panel[k * kNr + j];
      }
      c[j] = sum;
    }
  }
}

}  // namespace

const GemmKernels& gemm_ref() {
  static constexpr GemmKernels kernels{kMr,      kNr,  kMr,    {48, 48}, tile,  dot,
                                       add_rows, load, panels, store,    pixels};
  return kernels;
}

}  // namespace cpuaccel::kernels
