#include "graph/slice_scatter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/parallel.h"
#include "graph/function_step.h"
#include "graph/names.h"

namespace cpuaccel::graph {
namespace {

constexpr int64_t kGrainBytes = 65536;

// Numbers of `width` bytes between tensors of one size that lie as their strides say.
struct StridedCopy {
  Sizes sizes, from_strides, to_strides;
  int64_t width;

  void run(const void* from, void* to) const {
    const auto* const src = static_cast<const std::byte*>(from);
    auto* const dst = static_cast<std::byte*>(to);
    const size_t rank = sizes.size();
    const int64_t numbers = sizes[rank - 1];
    const bool whole_rows =
        numbers == 1 || (from_strides[rank - 1] == 1 && to_strides[rank - 1] == 1);
    const int64_t rows = count_of(sizes) / numbers;
    parallel_for(0, rows, std::max<int64_t>(1, kGrainBytes / (numbers * width)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const auto [at, there] = offsets(row);
                     if (whole_rows) {
                       copy(dst + there * width, src + at * width, numbers);
                       continue;
                     }
                     for (int64_t i = 0; i < numbers; ++i) {
                       copy(dst + (there + i * to_strides[rank - 1]) * width,
                            src + (at + i * from_strides[rank - 1]) * width, 1);
                     }
                   }
                 });
  }

 private:
  void copy(std::byte* to, const std::byte* from, int64_t numbers) const {
    std::memcpy(to, from, static_cast<size_t>(numbers * width));
  }
  // Of a row's first number, in both.
  std::pair<int64_t, int64_t> offsets(int64_t row) const {
    int64_t from = 0, to = 0;
    for (size_t dim = sizes.size() - 1; dim-- > 0; row /= sizes[dim]) {
      const int64_t at = row % sizes[dim];
      from += at * from_strides[dim];
      to += at * to_strides[dim];
    }
    return {from, to};
  }
};

void copy_bytes(const void* from, void* to, size_t bytes) {
  parallel_for(0, static_cast<int64_t>(bytes), kGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

}  // namespace

void add_slice_scatter(Building& building, const Program&, const Operation& operation) {
  const Id whole = operation.inputs[0], part = operation.inputs[1], to = operation.outputs[0];
  const auto desc = building.desc(whole), slice = building.desc(part);
  const auto axis = attribute(operation.attributes, "axis", int64_t{0});
  const auto min = attribute(operation.attributes, "min", int64_t{0});
  auto sizes = desc.sizes;
  if (axis < 0 || static_cast<size_t>(axis) >= sizes.size() || min < 0 ||
      min >= sizes[static_cast<size_t>(axis)]) {
    throw std::runtime_error("slice_scatter: a place that is not there");
  }
  auto& size = sizes[static_cast<size_t>(axis)];
  size = std::min(attribute(operation.attributes, "max", int64_t{0}), size) - min;
  if (sizes != slice.sizes || building.type(whole) != building.type(part)) {
    throw std::runtime_error("slice_scatter: a slice of other sizes, or of another type");
  }
  const size_t width = bytes_of(building.type(whole));
  const StridedCopy copy{sizes, slice.strides, desc.strides, static_cast<int64_t>(width)};
  const auto offset = static_cast<size_t>(min * desc.strides[static_cast<size_t>(axis)]) * width;
  add_function(building, {whole, part}, to, desc,
               [copy, offset, bytes = span_of(desc) * width](std::span<void* const> in,
                                                             std::span<void* const> out) {
                 if (in[0] != out[0]) {
                   copy_bytes(in[0], out[0], bytes);
                 }
                 copy.run(in[1], static_cast<std::byte*>(out[0]) + offset);
               });
}

bool may_be_in_place(const Program& program, Id dst, Id whole) {
  bool is_made = false;
  for (const auto& partition : program.partitions) {
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
  return is_made && std::none_of(program.outputs.begin(), program.outputs.end(),
                                 [&](const Output& output) { return output.id == whole; });
}

}  // namespace cpuaccel::graph
