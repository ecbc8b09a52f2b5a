#include "plan/slice_scatter.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include "plan/kernel_step.h"
#include "plan/strided_copy.h"

namespace cpuaccel::plan {

void add_slice_scatter(Building& building, const Region&, const Operation& operation) {
  const Id whole = operation.inputs[0], part = operation.inputs[1], to = operation.outputs[0];
  const auto desc = building.desc(whole), slice = building.desc(part);
  const auto axis = attribute(operation.attributes, "axis", int64_t{0});
  const auto min = attribute(operation.attributes, "min", int64_t{0});
  auto sizes = desc.sizes;
  if (axis < 0 || static_cast<size_t>(axis) >= sizes.size() || min < 0 ||
      min >= sizes[static_cast<size_t>(axis)]) {
    throw std::runtime_error("slice_scatter: the slice begins outside of the tensor");
  }
  auto& size = sizes[static_cast<size_t>(axis)];
  size = std::min(attribute(operation.attributes, "max", int64_t{0}), size) - min;
  if (sizes != slice.sizes || building.type(whole) != building.type(part)) {
    throw std::runtime_error(
        "slice_scatter: the slice and the range that it replaces differ in sizes or dtype");
  }
  const auto width = data_type_size(building.type(whole));
  const StridedCopy of_whole(desc, desc, width), of_part(slice, {sizes, desc.strides}, width);
  const int64_t offset = min * desc.strides[static_cast<size_t>(axis)] * width;
  add_kernel_step(building, {whole, part}, to, desc,
                  [=](std::span<void* const> in, std::span<void* const> out) {
                    if (in[0] != out[0]) {
                      of_whole.run(in[0], out[0]);
                    }
                    of_part.run(in[1], static_cast<std::byte*>(out[0]) + offset);
                  });
}

bool may_be_in_place(const Region& region, Id dst, Id whole) {
  bool is_made = false;
  for (const auto& partition : region.partitions) {
    for (const auto& operation : partition.operations) {
      const auto reads = std::count(operation.inputs.begin(), operation.inputs.end(), whole);
      if (reads == 1 && operation.name == "slice_scatter" && operation.inputs[0] == whole &&
          operation.outputs[0] == dst) {
        is_made = true;
      } else if (reads > 0) {
        return false;
      }
    }
  }
  return is_made && std::none_of(region.outputs.begin(), region.outputs.end(),
                                 [&](const Output& output) { return output.id == whole; });
}

}  // namespace cpuaccel::plan
