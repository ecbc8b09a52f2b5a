#include "plan/pixel_stride.h"

#include <algorithm>

namespace cpuaccel::plan {

bool is_pixel(const Sizes& sizes) {
  return std::all_of(sizes.begin() + 2, sizes.end(), [](int64_t size) { return size == 1; });
}

std::optional<int64_t> pixel_stride(const TensorDesc& desc) {
  auto [sizes, strides] = desc;
  if (sizes.size() < 2 || count_of(sizes) == 0 || (sizes[1] != 1 && strides[1] != 1)) {
    return std::nullopt;
  }
  const int64_t channels = sizes[1];
  std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
  const auto rows = flattened({sizes, strides}, 1);
  if (!rows) {
    return std::nullopt;
  }
  const int64_t stride = rows->sizes[0] == 1 ? channels : rows->strides[0];
  return stride >= channels ? std::optional(stride) : std::nullopt;
}

}  // namespace cpuaccel::plan
