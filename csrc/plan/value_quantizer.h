// Scale and zero point of a region's uint8 values:
//
//   real = (value - zero_point) * scale
//
// They are the attributes NAME_scale=f: and NAME_zero_point=i: of an op, for each quantizer NAME.
#pragma once

#include <cstdint>
#include <string>

#include "base/api.h"
#include "plan/region.h"

namespace cpuaccel::plan {

struct ValueQuantizer {
  float scale;
  int32_t zero_point;
};

// The quantizer NAME of an op. Throws std::runtime_error if its zero point is not a uint8 or its
// scale not positive.
CPUACCEL_API ValueQuantizer value_quantizer(const Operation& operation, const std::string& name);

}  // namespace cpuaccel::plan
