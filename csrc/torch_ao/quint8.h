// Helpers of ops on quint8 tensors: which inputs are taken, their quantizer, new output tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>

#include "torch_ao/engine.h"
#include "torch_ao/names.h"
#include "torch_ao/torch_compat.h"

namespace cpuaccel::torch_ao {

// The reason for a fallback with `x`, or null if it is quint8 with one scale and zero point.
inline const char* quint8_fallback_reason(const at::Tensor& x) {
  if (x.scalar_type() != at::kQUInt8) {
    return reasons::kNotQuint8;
  }
  if (at::get_qtensorimpl(x)->quantizer()->qscheme() != at::kPerTensorAffine) {
    return reasons::kPerChannel;
  }
  return nullptr;
}

// The quantizer of a per-tensor quantized tensor, read without torch's dispatcher.
struct PerTensor {
  double scale;
  int64_t zero_point;
};
inline PerTensor per_tensor(const at::Tensor& x) {
  const auto quantizer = at::get_qtensorimpl(x)->quantizer();
  const auto& affine = static_cast<const at::PerTensorAffineQuantizer&>(*quantizer);
  return {affine.scale(), affine.zero_point()};
}

// Whether a quint8 tensor can have this quantizer.
inline bool valid_quint8(PerTensor q) {
  return std::isfinite(q.scale) && q.scale > 0.0 && q.zero_point >= 0 && q.zero_point <= 255;
}

// A new tensor of quint8 or qint8, without torch's dispatcher.
inline at::Tensor empty_8bit(at::IntArrayRef sizes, at::ScalarType dtype, PerTensor q,
                             at::MemoryFormat format) {
  return at::new_qtensor(sizes,
                         at::TensorOptions().dtype(dtype).device(at::kCPU).memory_format(format),
                         at::make_per_tensor_affine_quantizer(q.scale, q.zero_point, dtype));
}

inline at::Tensor empty_quint8(at::IntArrayRef sizes, PerTensor q, at::MemoryFormat format) {
  return empty_8bit(sizes, at::kQUInt8, q, format);
}

// A new tensor with the dtype and the quantizer of `x`.
inline at::Tensor empty_quantized_as(const at::Tensor& x, at::IntArrayRef sizes,
                                     at::MemoryFormat format) {
  return at::new_qtensor(sizes, x.options().memory_format(format),
                         at::get_qtensorimpl(x)->quantizer());
}

// The bytes of a quint8 (or qint8) tensor.
inline const uint8_t* bytes(const at::Tensor& x) {
  return static_cast<const uint8_t*>(x.const_data_ptr());
}
inline uint8_t* mutable_bytes(const at::Tensor& x) {
  return static_cast<uint8_t*>(x.mutable_data_ptr());
}

}  // namespace cpuaccel::torch_ao
