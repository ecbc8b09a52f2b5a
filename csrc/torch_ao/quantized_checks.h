// Argument checks of ops on quantized tensors: dtype, qscheme, output scale and zero point.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::torch_ao {

// Throws unless scale is positive and finite and zero_point is in the range of `dtype`: [0, 255]
// for quint8, [-128, 127] for qint8. `prefix` goes before "scale" and "zero_point" in the error
// message.
void check_output_quantizer(const char* op, double scale, int64_t zero_point,
                            const char* prefix = "output_", at::ScalarType dtype = at::kQUInt8);

// Throws unless the tensor is a per-tensor quantized quint8 tensor on the CPU.
void check_quint8(const char* op, const char* name, const at::Tensor& tensor);
// The same, but also accepts qint8 if torch's engine does.
void check_activation(const char* op, const char* name, const at::Tensor& tensor);

}  // namespace cpuaccel::torch_ao
