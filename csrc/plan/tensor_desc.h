// Memory layout of a tensor: its sizes and strides, in elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/api.h"
#include "plan/region.h"

namespace cpuaccel::plan {

struct TensorDesc {
  Sizes sizes, strides;
  bool operator==(const TensorDesc&) const = default;
};

// A layout without gaps. channels_last of fewer than three dimensions is contiguous.
CPUACCEL_API TensorDesc dense(Sizes sizes, MemoryFormat format);

// Whether elements have the same offsets in both layouts: strides of dimensions of size 1 do not
// matter.
CPUACCEL_API bool same_layout(const TensorDesc& a, const TensorDesc& b);

// The memory format of a tensor without gaps, contiguous if both formats are the same; nullopt if
// it has neither.
CPUACCEL_API std::optional<MemoryFormat> memory_format_of(const TensorDesc& desc);

// The same layout, but dimensions of size 1 have the strides that they have in a tensor without
// gaps. With other strides oneDNN 3.2 reads elements from wrong places.
TensorDesc with_canonical_strides(const TensorDesc& desc);

// Merges the dimensions before the last `from_end` into one; nullopt if no one stride fits them.
std::optional<TensorDesc> flattened(const TensorDesc& desc, size_t from_end);

// The number of elements.
CPUACCEL_API int64_t count_of(const Sizes& sizes);

// The number of elements from the first to the last one in memory, including gaps.
size_t span_of(const TensorDesc& desc);

}  // namespace cpuaccel::plan
