#include "torch_ao/tensor_post_ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "torch_ao/quantized_table.h"
#include "torch_ao/quint8.h"

namespace cpuaccel::torch_ao {
namespace {

const char* torch_op(const TensorPostOps& post_ops) {
  if (post_ops.binary == kernels::BinaryOp::add) {
    return post_ops.relu ? "quantized::add_relu" : "quantized::add";
  }
  return post_ops.relu ? "quantized::mul_relu" : "quantized::mul";
}

}  // namespace

std::optional<BytePostOps> TensorPostOps::byte_post_ops(at::IntArrayRef sizes,
                                                        at::MemoryFormat format) const {
  BytePostOps result;
  if (table.defined()) {
    result.set_table(table.const_data_ptr<uint8_t>());
  }
  result.binary = binary;
  if (!binary) {
    return result;
  }
  const auto b = per_tensor(other);
  result.quantizers = {.scale_a = static_cast<float>(own_scale),
                       .scale_b = static_cast<float>(b.scale),
                       .scale = static_cast<float>(scale),
                       .zero_point_a = static_cast<int32_t>(own_zero_point),
                       .zero_point_b = static_cast<int32_t>(b.zero_point),
                       .zero_point = static_cast<int32_t>(zero_point),
                       .relu = relu};
  if (other.sizes() != sizes || !other.is_contiguous(format) ||
      !kernels::in_range(*binary, result.quantizers)) {
    return std::nullopt;
  }
  result.other = bytes(other);
  return result;
}

at::Tensor run_separately(const TensorPostOps& post_ops, const at::Tensor& result) {
  if (!post_ops.binary) {
    return quantized_table(result, post_ops.table, post_ops.scale, post_ops.zero_point);
  }
  torch::jit::Stack stack;
  torch::jit::push(stack, result, post_ops.other, post_ops.scale, post_ops.zero_point);
  c10::Dispatcher::singleton().findSchemaOrThrow(torch_op(post_ops), "").callBoxed(stack);
  return stack.back().toTensor();
}

}  // namespace cpuaccel::torch_ao
