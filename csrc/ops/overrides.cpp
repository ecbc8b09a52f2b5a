#include "ops/overrides.h"

#include <array>

#include "ops/lists.h"

namespace cpuaccel::ops {

std::span<const std::span<const Override>> op_overrides() {
  static const std::array lists{
      max_pool_overrides(),
  };
  return lists;
}

}  // namespace cpuaccel::ops
