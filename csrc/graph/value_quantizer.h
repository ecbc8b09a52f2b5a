// What uint8 values of a program stand for:
//
//   real = (value - zero_point) * scale
//
// with attributes NAME_scale=f: and NAME_zero_point=i: of an op for each quantiser NAME.
#pragma once

#include <cstdint>
#include <string>

#include "graph/program.h"

namespace cpuaccel::graph {

struct ValueQuantizer {
  float scale;
  int32_t zero_point;
};

// The quantiser NAME of an op. Throws std::runtime_error where its zero point is no uint8 or its
// scale not positive.
ValueQuantizer value_quantizer(const Operation& operation, const std::string& name);

}  // namespace cpuaccel::graph
