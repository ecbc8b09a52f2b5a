// cpuaccel::quantized_table: any elementwise function of a quantized tensor, as a lookup table.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::torch_ao {

// dst = table[qx], with quantizer (scale, zero_point). qx: quint8 of any shape and strides; table:
// 256 uint8 on the CPU. dst has qx's memory format if that is contiguous or channels last, and is
// contiguous otherwise. Throws c10::Error for anything else.
at::Tensor quantized_table(const at::Tensor& qx, const at::Tensor& table, double scale,
                           int64_t zero_point);

// Throws, in the name of `op`, unless `table` is a contiguous CPU tensor of 256 uint8.
void check_table(const char* op, const at::Tensor& table);

}  // namespace cpuaccel::torch_ao
