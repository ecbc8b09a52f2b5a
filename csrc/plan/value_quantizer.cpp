#include "plan/value_quantizer.h"

#include <stdexcept>

namespace cpuaccel::plan {

ValueQuantizer value_quantizer(const Operation& operation, const std::string& name) {
  const float scale = attribute(operation.attributes, name + "_scale", 0.0f);
  const auto zero_point = attribute(operation.attributes, name + "_zero_point", int64_t{0});
  const auto fail = [&](const char* what, const std::string& found) {
    throw std::runtime_error(operation.name + ": " + name + what + found);
  };
  if (!(scale > 0.0f)) {
    fail("_scale: expected a number above 0, got ", std::to_string(scale));
  }
  if (zero_point < 0 || zero_point > 255) {
    fail("_zero_point: expected 0 to 255, got ", std::to_string(zero_point));
  }
  return {scale, static_cast<int32_t>(zero_point)};
}

}  // namespace cpuaccel::plan
