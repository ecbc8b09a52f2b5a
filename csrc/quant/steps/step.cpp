#include "quant/steps/step.h"

#include <stdexcept>
#include <string>

#include "kernels/transpose/transpose.h"

namespace cpuaccel::quant {

MemoryFormat format_to_have(const TensorDesc& desc) {
  return plan::memory_format_of(desc).value_or(MemoryFormat::contiguous);
}

Activation function_of(const Operation& operation) {
  const auto name = attribute(operation.attributes, "function", std::string());
  const auto function = activation_named(name);
  if (!function) {
    throw std::runtime_error(operation.name + ": function: expected " + kExpectedActivation +
                             ", got '" + name + "'");
  }
  return *function;
}

namespace {

// Transposes u8 images between contiguous and channels last, because oneDNN's reorder copies them
// byte by byte. Returns false for any other copy.
bool add_transpose(Building& building, Id from, Id to, const TensorDesc& desc,
                   const TensorDesc& wanted) {
  const auto planes = plan::dense(desc.sizes, MemoryFormat::contiguous);
  const auto last = plan::dense(desc.sizes, MemoryFormat::channels_last);
  const bool to_last = plan::same_layout(desc, planes) && wanted == last;
  const bool from_last = plan::same_layout(desc, last) && wanted == planes;
  if (building.type(from) != DataType::u8 || desc.sizes.size() < 3 || !(to_last || from_last)) {
    return false;
  }
  const int64_t N = desc.sizes[0], C = desc.sizes[1], pixels = count_of(desc.sizes) / (N * C);
  const int64_t M = to_last ? C : pixels, K = to_last ? pixels : C;
  const kernels::Transpose shape{N, C * pixels, C * pixels, M, K, K, M};
  add_kernel_step(building, {from}, to, wanted, [shape](auto in, auto out) {
    kernels::transpose_bytes(shape, u8(in[0]), u8(out[0]));
  });
  return true;
}

}  // namespace

Id in_format(Building& building, Id id, MemoryFormat format) {
  const auto desc = building.desc(id);
  const auto wanted = plan::dense(desc.sizes, format);
  if (plan::same_layout(desc, wanted)) {
    return id;
  }
  const Id copy = building.new_value(building.type(id));
  if (!add_transpose(building, id, copy, desc, wanted)) {
    plan::add_copy(building, id, copy, wanted);
  }
  return copy;
}

Id without_gaps(Building& building, Id id) {
  return in_format(building, id, format_to_have(building.desc(id)));
}

}  // namespace cpuaccel::quant
