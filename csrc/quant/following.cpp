#include "quant/following.h"

namespace cpuaccel::quant {
Epilogue Following::epilogue(const uint8_t* other_data) const {
  Epilogue result;
  result.table = table.defined() ? table.const_data_ptr<uint8_t>() : nullptr;
  result.binary = binary;
  result.relu = relu;
  if (binary != Binary::none) {
    result.other = other_data;
    result.own = {static_cast<float>(own_scale), static_cast<int32_t>(own_zero_point)};
    result.other_quantizer = {static_cast<float>(other.q_scale()),
                              static_cast<int32_t>(other.q_zero_point())};
    result.result = {static_cast<float>(scale), static_cast<int32_t>(zero_point)};
  }
  return result;
}

}  // namespace cpuaccel::quant
