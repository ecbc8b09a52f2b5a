// Helpers of elementwise ops on 8-bit quantized tensors: which inputs are taken, and new output
// tensors.
#pragma once

#include "ops/real_number.h"
#include "torch_ao/names.h"
#include "torch_ao/quint8.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {

// Whether this zero point is a value of the dtype (quint8 or qint8).
inline bool in_range(at::ScalarType dtype, int64_t zero_point) {
  return dtype == at::kQUInt8 ? zero_point >= 0 && zero_point <= 255
                              : zero_point >= -128 && zero_point <= 127;
}

// The reason for a fallback with this zero point, or null.
inline const char* zero_point_fallback_reason(int64_t zero_point) {
  return in_range(at::kQUInt8, zero_point) ? nullptr : reasons::kZeroPoint;
}

// The reason why ops on `x` cannot use a table of 256 entries, or null.
inline const char* lookup_table_fallback_reason(const at::Tensor& x) {
  if (x.scalar_type() != at::kQUInt8 && x.scalar_type() != at::kQInt8) {
    return reasons::kNot8Bit;
  }
  if (at::get_qtensorimpl(x)->quantizer()->qscheme() != at::kPerTensorAffine) {
    return reasons::kPerChannel;
  }
  return nullptr;
}

// The reason for a fallback with `x`, or null if it is quint8 or qint8 with one quantizer, whose
// zero point is a value of the dtype.
inline const char* eight_bit_fallback_reason(const at::Tensor& x) {
  if (const char* reason = lookup_table_fallback_reason(x)) {
    return reason;
  }
  return in_range(x.scalar_type(), per_tensor(x).zero_point) ? nullptr : reasons::kZeroPoint;
}

using ops::is_real_number;

inline at::Tensor empty_quantized(at::IntArrayRef sizes, at::ScalarType dtype, double scale,
                                  int64_t zero_point, at::MemoryFormat format) {
  return at::native::empty_affine_quantized(sizes, dtype, at::kStrided, at::kCPU, false, scale,
                                            zero_point, format);
}

}  // namespace cpuaccel::torch_ao
