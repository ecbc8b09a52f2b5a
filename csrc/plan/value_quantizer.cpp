#include "plan/value_quantizer.h"

#include <stdexcept>

namespace cpuaccel::plan {

ValueQuantizer value_quantizer(const Operation& operation, const std::string& name) {
  const float scale = attribute(operation.attributes, name + "_scale", 0.0f);
  const auto zero_point = attribute(operation.attributes, name + "_zero_point", int64_t{0});
  if (!(scale > 0.0f) || zero_point < 0 || zero_point > 255) {
    throw std::runtime_error("a quantiser that uint8 does not have");
  }
  return {scale, static_cast<int32_t>(zero_point)};
}

}  // namespace cpuaccel::plan
