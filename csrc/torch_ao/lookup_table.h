// Elementwise ops on one 8-bit quantized tensor, as a lookup table. torch's own kernel is called
// once on all 256 values, and its output is the table. So results equal torch's, bit for bit.
#pragma once

#include <cstring>
#include <numeric>

#include "kernels/lookup_table/lookup_table.h"
#include "torch_ao/elementwise.h"
#include "torch_ao/lookup_table_cache.h"
#include "torch_ao/names.h"

namespace cpuaccel::torch_ao {

// All 256 values of the dtype of `x`, with its quantizer.
inline at::Tensor every_value(const at::Tensor& x) {
  auto values = empty_quantized_as(x, {kernels::kTableEntries}, at::MemoryFormat::Contiguous);
  auto* first = mutable_bytes(values);
  std::iota(first, first + kernels::kTableEntries, uint8_t{0});
  return values;
}

template <typename... Arguments>
const LookupTable& lookup_table_of(const char* name, const at::Tensor& x,
                                   const Arguments&... arguments) {
  const auto q = per_tensor(x);
  LookupTableKey key{name, q.scale, q.zero_point, x.scalar_type()};
  (key.add(arguments), ...);
  return cached_lookup_table(key, [&] {
    const at::Tensor result = call_torch(name, every_value(x), arguments...).toTensor();
    const auto to = per_tensor(result);
    LookupTable table;
    std::memcpy(table.entries.data(), bytes(result), table.entries.size());
    table.scale = to.scale;
    table.zero_point = to.zero_point;
    return table;
  });
}

}  // namespace cpuaccel::torch_ao
