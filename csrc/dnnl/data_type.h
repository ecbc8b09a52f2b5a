// Converts between DataType and the types of oneDNN's two interfaces, which have equal numbers.
#pragma once

#include "base/data_type.h"
#include "dnnl/api.h"

namespace cpuaccel::dnnl_layer {

constexpr dnnl::memory::data_type memory_type(DataType type) {
  return static_cast<dnnl::memory::data_type>(type);
}

constexpr dnnl::graph::logical_tensor::data_type tensor_type(DataType type) {
  return static_cast<dnnl::graph::logical_tensor::data_type>(type);
}

constexpr DataType data_type(dnnl::memory::data_type type) { return static_cast<DataType>(type); }

#define CPUACCEL_SAME(name, onednn_name)                                               \
  static_assert(memory_type(DataType::name) == dnnl::memory::data_type::onednn_name && \
                tensor_type(DataType::name) ==                                         \
                    dnnl::graph::logical_tensor::data_type::onednn_name)
CPUACCEL_SAME(other, undef);
CPUACCEL_SAME(f16, f16);
CPUACCEL_SAME(bf16, bf16);
CPUACCEL_SAME(f32, f32);
CPUACCEL_SAME(s32, s32);
CPUACCEL_SAME(s8, s8);
CPUACCEL_SAME(u8, u8);
#undef CPUACCEL_SAME
static_assert(memory_type(DataType::f64) == dnnl::memory::data_type::f64);

}  // namespace cpuaccel::dnnl_layer
