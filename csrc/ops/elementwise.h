// What elementwise ops on 8-bit quantised tensors share: which tensors they take, and new tensors
// for their results.
#pragma once

#include <ATen/ops/_empty_affine_quantized_native.h>

#include "ops/quint8.h"

namespace cpuaccel::ops {

// Whether numbers of quint8 or qint8 have this one among them.
inline bool in_range(at::ScalarType dtype, int64_t zero_point) {
  return dtype == at::kQUInt8 ? zero_point >= 0 && zero_point <= 255
                              : zero_point >= -128 && zero_point <= 127;
}

// Why a kernel with the quantiser of `x` as numbers of 8 bits can't run, or null.
inline const char* refuses_zero_point(int64_t zero_point) {
  return in_range(at::kQUInt8, zero_point) ? nullptr : "zero point outside of uint8";
}

// Why a table of 256 entries can't serve for `x`, or null.
inline const char* refuses_table(const at::Tensor& x) {
  if (x.scalar_type() != at::kQUInt8 && x.scalar_type() != at::kQInt8) {
    return "not quint8 or qint8";
  }
  if (at::get_qtensorimpl(x)->quantizer()->qscheme() != at::kPerTensorAffine) {
    return "quantized per channel";
  }
  return nullptr;
}

inline at::Tensor empty_quantized(at::IntArrayRef sizes, at::ScalarType dtype, double scale,
                                  int64_t zero_point, at::MemoryFormat format) {
  return at::native::empty_affine_quantized(sizes, dtype, at::kStrided, at::kCPU, false, scale,
                                            zero_point, format);
}

}  // namespace cpuaccel::ops
