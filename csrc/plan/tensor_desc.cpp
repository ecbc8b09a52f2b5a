#include "plan/tensor_desc.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace cpuaccel::plan {

std::optional<TensorDesc> flattened(const TensorDesc& desc, size_t from_end) {
  const size_t keep = desc.sizes.size() - from_end;
  int64_t size = desc.sizes[keep - 1], stride = desc.strides[keep - 1];
  for (size_t dim = keep - 1; dim-- > 0;) {
    if (desc.sizes[dim] == 1) {
      continue;
    }
    if (size != 1 && desc.strides[dim] != size * stride) {
      return std::nullopt;
    }
    stride = size == 1 ? desc.strides[dim] : stride;
    size *= desc.sizes[dim];
  }
  TensorDesc result{{size}, {stride}};
  result.sizes.insert(result.sizes.end(), desc.sizes.end() - static_cast<ptrdiff_t>(from_end),
                      desc.sizes.end());
  result.strides.insert(result.strides.end(), desc.strides.end() - static_cast<ptrdiff_t>(from_end),
                        desc.strides.end());
  return result;
}

int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

TensorDesc dense(Sizes sizes, MemoryFormat format) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  auto place = [&](size_t dim) {
    strides[dim] = step;
    step *= std::max<int64_t>(sizes[dim], 1);
  };
  const bool last = format == MemoryFormat::channels_last && sizes.size() > 2;
  if (last) {
    place(1);
  }
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (!last || dim != 1) {
      place(dim);
    }
  }
  return {std::move(sizes), std::move(strides)};
}

bool same_layout(const TensorDesc& a, const TensorDesc& b) {
  if (a.sizes != b.sizes) {
    return false;
  }
  for (size_t dim = 0; dim < a.sizes.size(); ++dim) {
    if (a.sizes[dim] != 1 && a.strides[dim] != b.strides[dim]) {
      return false;
    }
  }
  return true;
}

std::optional<MemoryFormat> memory_format_of(const TensorDesc& desc) {
  for (const auto format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    if (same_layout(dense(desc.sizes, format), desc)) {
      return format;
    }
  }
  return std::nullopt;
}

TensorDesc with_canonical_strides(const TensorDesc& desc) {
  for (const auto format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    if (auto usual = dense(desc.sizes, format); usual == desc) {
      return desc;
    }
  }
  if (const auto format = memory_format_of(desc)) {
    return dense(desc.sizes, *format);
  }
  auto result = desc;
  for (size_t dim = 0; dim < desc.sizes.size(); ++dim) {
    if (desc.sizes[dim] == 1) {
      result.strides[dim] = static_cast<int64_t>(span_of(desc));
    }
  }
  return result;
}

size_t span_of(const TensorDesc& desc) {
  int64_t last = 0;
  for (size_t dim = 0; dim < desc.sizes.size(); ++dim) {
    last += (desc.sizes[dim] - 1) * desc.strides[dim];
  }
  return static_cast<size_t>(last) + 1;
}

}  // namespace cpuaccel::plan
