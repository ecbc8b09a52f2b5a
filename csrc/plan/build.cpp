#include "plan/build.h"

#include <optional>

#include "dnnl/data_type.h"
#include "kernels/to_channels_last/to_channels_last.h"
#include "plan/engine.h"
#include "plan/kernel_step.h"
#include "plan/primitive_step.h"
#include "plan/strided_copy.h"

namespace cpuaccel::plan {

dnnl::memory::desc memory_desc(DataType type, const TensorDesc& desc) {
  const auto as = dnnl_layer::memory_type(type);
  if (desc.sizes.empty()) {
    return {{1}, as, {1}};
  }
  const auto usual = with_canonical_strides(desc);
  return {usual.sizes, as, usual.strides};
}

namespace {

// With shorter runs oneDNN's reorders, which shuffle elements in registers, are faster.
constexpr int64_t kLeastRun = 32;  // bytes

// The call that turns contiguous images of few channels into channels_last; nullopt for other
// layouts.
std::optional<kernels::ToChannelsLastCall> as_channels_last(const TensorDesc& from,
                                                            const TensorDesc& to, int64_t width) {
  if (from.sizes.size() < 3 || (width != 2 && width != 4)) {
    return std::nullopt;
  }
  const int64_t C = from.sizes[1];
  const int64_t pixels = count_of(from.sizes) / (from.sizes[0] * C);
  if (C < 2 || C > kernels::kToChannelsLastMost ||
      !same_layout(from, dense(from.sizes, MemoryFormat::contiguous)) ||
      !same_layout(to, dense(from.sizes, MemoryFormat::channels_last))) {
    return std::nullopt;
  }
  return kernels::ToChannelsLastCall{nullptr, nullptr, C, pixels, pixels, width};
}

// Copies with a cpuaccel kernel, if one is faster than oneDNN's reorder.
bool add_kernel_copy(Building& building, Id from, Id to, const TensorDesc& desc) {
  const auto& layout = building.desc(from);
  const auto width = data_type_size(building.type(from));
  if (building.type(from) != building.type(to)) {
    return false;
  }
  if (const auto call = as_channels_last(layout, desc, width)) {
    const int64_t images = desc.sizes[0], bytes = call->C * call->pixels * width;
    add_kernel_step(
        building, {from}, to, desc,
        [call = *call, images, bytes](std::span<void* const> in, std::span<void* const> out) {
          for (int64_t image = 0; image < images; ++image) {
            auto now = call;
            now.src = static_cast<const uint8_t*>(in[0]) + image * bytes;
            now.dst = static_cast<uint8_t*>(out[0]) + image * bytes;
            kernels::to_channels_last(now);
          }
        });
    return true;
  }
  const StridedCopy copy(layout, desc, width);
  if (copy.run_bytes() < kLeastRun) {
    return false;
  }
  add_kernel_step(
      building, {from}, to, desc,
      [copy](std::span<void* const> in, std::span<void* const> out) { copy.run(in[0], out[0]); });
  return true;
}

}  // namespace

void add_copy(Building& building, Id from, Id to, const TensorDesc& desc) {
  if (add_kernel_copy(building, from, to, desc)) {
    return;
  }
  const auto src = memory_desc(building.type(from), building.desc(from));
  const auto dst = memory_desc(building.type(to), desc);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc reorder(engine(), src, engine(), dst, attr);
  using Argument = PrimitiveStep::Argument;
  auto step = std::make_unique<PrimitiveStep>(reorder, std::vector<Argument>{{DNNL_ARG_FROM, src}},
                                              std::vector<Argument>{{DNNL_ARG_TO, dst}},
                                              std::vector<Argument>{});
  step->inputs = {from};
  step->outputs = {to};
  step->output_descs = {desc};
  building.add(std::move(step));
}

Id with_layout(Building& building, Id id, const TensorDesc& desc) {
  if (same_layout(building.desc(id), desc)) {
    return id;
  }
  const Id copy = building.new_value(building.type(id));
  add_copy(building, id, copy, desc);
  return copy;
}

}  // namespace cpuaccel::plan
