#include "plan/gated_product_step.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/gated_product/gated_product.h"
#include "plan/kernel_step.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

// The distance between the rows of a value; nullopt if it has no rows of adjacent elements at equal
// distances.
std::optional<int64_t> row_stride(const TensorDesc& desc) {
  const auto rows = flattened(desc, 1);
  if (!rows || (rows->strides[1] != 1 && rows->sizes[1] != 1)) {
    return std::nullopt;
  }
  return rows->strides[0];
}

Id with_rows(Building& building, Id id) {
  if (row_stride(building.desc(id))) {
    return id;
  }
  return with_layout(building, id, dense(building.desc(id).sizes, MemoryFormat::contiguous));
}

}  // namespace

void add_gated_product(Building& building, const Region&, const Operation& operation) {
  const Id gate = with_rows(building, operation.inputs[0]);
  const Id up = with_rows(building, operation.inputs[1]), dst = operation.outputs[0];
  const auto sizes = building.desc(gate).sizes;
  const auto type = building.type(dst);
  const auto function =
      activation_named(attribute(operation.attributes, "function", std::string()));
  if (sizes.empty() || building.desc(up).sizes != sizes || building.type(gate) != type ||
      building.type(up) != type || !is_f32_or_half(type) || !function) {
    throw std::runtime_error("gated_product: expected two floats of the same sizes and type");
  }
  kernels::GatedProductCall call;
  call.N = sizes.back();
  call.M = count_of(sizes) / call.N;
  call.type = type;
  call.function = *function;
  call.gate_stride = *row_stride(building.desc(gate));
  call.up_stride = *row_stride(building.desc(up));
  auto desc = dense(sizes, MemoryFormat::contiguous);
  std::optional<Id> overwritten;
  for (const Id id : {gate, up}) {
    if (same_layout(building.desc(id), desc) && building.may_overwrite(dst, id)) {
      overwritten = id;
    }
  }
  auto step =
      std::make_unique<KernelStep>(std::vector<Id>{gate, up}, dst, std::move(desc),
                                   [call](std::span<void* const> in, std::span<void* const> out) {
                                     auto now = call;
                                     now.gate = in[0];
                                     now.up = in[1];
                                     now.dst = out[0];
                                     kernels::gated_product(now);
                                   });
  step->overwritten = overwritten;
  building.add(std::move(step));
}

}  // namespace cpuaccel::plan
