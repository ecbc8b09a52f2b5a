#include "plan/rotary_step.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/rotary/rotary.h"
#include "plan/attention_layout.h"
#include "plan/kernel_step.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

constexpr size_t kRank = 4;

[[noreturn]] void reject() {
  throw std::runtime_error(
      "rotary: expected floats of four dimensions, and tables that broadcast to positions");
}

// The layout of DST.
TensorDesc layout_of(const Building& building, const Region& region, Id src, Id dst) {
  const auto& desc = building.desc(src);
  const auto found =
      std::ranges::find_if(region.outputs, [&](const Output& output) { return output.id == dst; });
  return found != region.outputs.end() ? dense(desc.sizes, found->format)
                                       : laid_out_as(desc, desc.sizes);
}

// A table with adjacent elements.
Id without_steps(Building& building, Id table) {
  const auto& desc = building.desc(table);
  if (desc.sizes.empty()) {
    reject();
  }
  if (desc.strides.back() == 1 || desc.sizes.back() == 1) {
    return table;
  }
  return with_layout(building, table, dense(desc.sizes, MemoryFormat::contiguous));
}

// The strides of a table over the dimensions of `sizes`, 0 where it is broadcast.
Sizes table_strides(const TensorDesc& table, Sizes sizes) {
  sizes.back() = table.sizes.back();
  return broadcast_strides(table, sizes);
}

kernels::RotaryHeads heads_of(const Sizes& strides, size_t heads, size_t positions) {
  return {nullptr, strides[0], strides[heads], strides[positions]};
}

}  // namespace

void add_rotary(Building& building, const Region& region, const Operation& operation) {
  Id src = operation.inputs[0];
  const Id dst = operation.outputs[0];
  const auto sizes = building.desc(src).sizes;
  if (sizes.size() != kRank) {
    reject();
  }
  auto desc = layout_of(building, region, src, dst);
  if (building.desc(src).strides.back() != 1) {
    src = with_layout(building, src, dense(sizes, MemoryFormat::contiguous));
  }
  if (desc.strides.back() != 1) {
    desc = dense(sizes, MemoryFormat::contiguous);
  }
  const Id cos = without_steps(building, operation.inputs[1]);
  const Id sin = without_steps(building, operation.inputs[2]);
  const auto of_cos = table_strides(building.desc(cos), sizes);
  const auto of_sin = table_strides(building.desc(sin), sizes);
  const auto repeats = [&](size_t dim) { return of_cos[dim] == 0 && of_sin[dim] == 0; };
  if (!repeats(1) && !repeats(2)) {
    reject();
  }
  const size_t heads = repeats(1) ? 1 : 2, positions = 3 - heads;
  kernels::RotaryCall call;
  call.N = sizes[0];
  call.H = sizes[heads];
  call.T = sizes[positions];
  call.D = sizes[3];
  call.R = building.desc(cos).sizes.back();
  call.type = building.type(src);
  call.src = heads_of(building.desc(src).strides, heads, positions);
  call.dst = heads_of(desc.strides, heads, positions);
  call.cos = {nullptr, building.type(cos), of_cos[0], of_cos[positions]};
  call.sin = {nullptr, building.type(sin), of_sin[0], of_sin[positions]};
  if (building.desc(sin).sizes.back() != call.R || call.R % 2 != 0 || call.R > call.D ||
      !is_f32_or_half(call.type) || !is_f32_or_half(call.cos.type) ||
      !is_f32_or_half(call.sin.type) || building.type(dst) != call.type) {
    reject();
  }
  add_kernel_step(building, {src, cos, sin}, dst, std::move(desc),
                  [call](std::span<void* const> in, std::span<void* const> out) {
                    auto now = call;
                    now.src.data = in[0];
                    now.cos.data = in[1];
                    now.sin.data = in[2];
                    now.dst.data = out[0];
                    kernels::rotary(now);
                  });
}

}  // namespace cpuaccel::plan
