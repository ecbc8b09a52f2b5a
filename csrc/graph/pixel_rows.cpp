#include "graph/pixel_rows.h"

namespace cpuaccel::graph {

std::optional<int64_t> pixel_stride(const TensorDesc& desc) {
  const auto& [sizes, strides] = desc;
  if (sizes.size() < 2 || count_of(sizes) == 0 || (sizes[1] != 1 && strides[1] != 1)) {
    return std::nullopt;
  }
  int64_t stride = sizes[1], pixels = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    if (dim == 1 || sizes[dim] == 1) {
      continue;
    }
    if (pixels == 1) {
      stride = strides[dim];
    } else if (strides[dim] != pixels * stride) {
      return std::nullopt;
    }
    pixels *= sizes[dim];
  }
  return stride >= sizes[1] ? std::optional(stride) : std::nullopt;
}

}  // namespace cpuaccel::graph
