#include "quant/following.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/quantized_table.h"

namespace cpuaccel::quant {
namespace {

const char* torch_op(const Following& following) {
  if (following.binary == Binary::add) {
    return following.relu ? "quantized::add_relu" : "quantized::add";
  }
  return following.relu ? "quantized::mul_relu" : "quantized::mul";
}

}  // namespace

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

at::Tensor run_apart(const Following& following, at::Tensor result) {
  const bool binary = following.binary != Binary::none;
  if (following.table.defined()) {
    result = ops::quantized_table(result, following.table,
                                  binary ? following.own_scale : following.scale,
                                  binary ? following.own_zero_point : following.zero_point);
  }
  if (!binary) {
    return result;
  }
  torch::jit::Stack stack;
  torch::jit::push(stack, result, following.other, following.scale, following.zero_point);
  c10::Dispatcher::singleton().findSchemaOrThrow(torch_op(following), "").callBoxed(stack);
  return stack.back().toTensor();
}

}  // namespace cpuaccel::quant
