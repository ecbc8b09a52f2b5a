// The rows of a norm, with what comes before and after it: families layer_norm and rms_norm share
// this.
#pragma once

#include <cstdint>

#include "base/data_type.h"

namespace cpuaccel::kernels {

// x = src + addend, sum = x, dst = norm(x), bytes = quantize(dst): layer_norm/layer_norm.h says
// which may be null. All are dense; src, addend, sum and dst have one type.
struct NormRows {
  int64_t rows = 0, columns = 0;
  DataType type = DataType::f32;  // or bf16 or f16
  const void* src = nullptr;
  const void* addend = nullptr;
  void* sum = nullptr;
  void* dst = nullptr;
  uint8_t* bytes = nullptr;
  float scale = 1.0f;  // scale of bytes
  int32_t zero_point = 0;
};

// One row of floats. x receives src + addend; it may be src, dst or another buffer.
struct NormRow {
  const float* src;
  const float* addend;
  float* x;
  float* dst;
};

// Calls norm(context, row) for each row, on all of torch's threads.
void run_norm_rows(const NormRows& rows, void (*norm)(const void* context, const NormRow& row),
                   const void* context);

template <typename Norm>
void run_norm_rows(const NormRows& rows, const Norm& norm) {
  run_norm_rows(
      rows,
      [](const void* context, const NormRow& row) { (*static_cast<const Norm*>(context))(row); },
      &norm);
}

}  // namespace cpuaccel::kernels
