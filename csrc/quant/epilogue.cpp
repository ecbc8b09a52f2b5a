#include "quant/epilogue.h"

#include <algorithm>
#include <cmath>

#include "kernels/table/table.h"

namespace cpuaccel::quant {
namespace {

uint8_t binary(const Epilogue& epilogue, uint8_t own, uint8_t other) {
  const int32_t a = own - epilogue.own.zero_point;
  const int32_t b = other - epilogue.other_quantizer.zero_point;
  float quanta = 0.0f;
  if (epilogue.binary == Binary::add) {
    const float real = epilogue.own.scale * static_cast<float>(a) +
                       epilogue.other_quantizer.scale * static_cast<float>(b);
    quanta = real * (1.0f / epilogue.result.scale);
  } else {
    quanta = static_cast<float>(a * b) *
             (epilogue.own.scale * epilogue.other_quantizer.scale * (1.0f / epilogue.result.scale));
  }
  const int32_t least = epilogue.relu ? epilogue.result.zero_point : 0;
  const auto rounded = static_cast<int32_t>(std::nearbyint(std::clamp(quanta, -1.0e6f, 1.0e6f)));
  return static_cast<uint8_t>(std::clamp(rounded + epilogue.result.zero_point, least, 255));
}

}  // namespace

void apply_epilogue(const Epilogue& epilogue, uint8_t* dst, int64_t count) {
  if (epilogue.table != nullptr) {
    kernels::table_u8(dst, dst, count, epilogue.table);
  }
  if (epilogue.binary != Binary::none) {
    for (int64_t i = 0; i < count; ++i) {
      dst[i] = binary(epilogue, dst[i], epilogue.other[i]);
    }
  }
}

}  // namespace cpuaccel::quant
