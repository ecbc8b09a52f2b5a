// Copies of a region's constants as vectors and blocks, for steps that keep them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "quant/steps/step.h"

namespace cpuaccel::quant {

// Copies the elements of a tensor in the order of its sizes.
template <typename T>
void copy_dense(const T* from, const TensorDesc& desc, T* to) {
  const int64_t count = count_of(desc.sizes);
  if (plan::same_layout(desc, plan::dense(desc.sizes, MemoryFormat::contiguous))) {
    std::copy_n(from, count, to);
    return;
  }
  Sizes at(desc.sizes.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = *from;
    for (size_t dim = at.size(); dim-- > 0;) {
      from += desc.strides[dim];
      if (++at[dim] < desc.sizes[dim]) {
        break;
      }
      from -= at[dim] * desc.strides[dim];
      at[dim] = 0;
    }
  }
}

// A copy of a constant. A dry run has no data, so all values are 1.
template <typename T>
void copy_constant(const Building& building, Id id, T* to) {
  const auto& desc = building.desc(id);
  if (const void* data = building.constant(id)) {
    copy_dense(static_cast<const T*>(data), desc, to);
  } else {
    std::fill_n(to, count_of(desc.sizes), T{1});
  }
}

template <typename T>
std::vector<T> constant(const Building& building, Id id) {
  std::vector<T> values(static_cast<size_t>(count_of(building.desc(id).sizes)));
  copy_constant(building, id, values.data());
  return values;
}

}  // namespace cpuaccel::quant
