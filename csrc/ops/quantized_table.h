// cpuaccel::quantized_table: any function of one quantised tensor, element by element.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cpuaccel::ops {

// dst = table[qx], with the quantiser (scale, zero_point). qx: quint8 of any shape and strides;
// table: 256 uint8 on the CPU. dst keeps the order of qx's dimensions in memory where that is
// contiguous or channels last, and is contiguous otherwise. c10::Error on anything else.
at::Tensor quantized_table(const at::Tensor& qx, const at::Tensor& table, double scale,
                           int64_t zero_point);

// Refuses what is no table of `op`.
void check_table(const char* op, const at::Tensor& table);

}  // namespace cpuaccel::ops
