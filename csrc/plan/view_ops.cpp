#include "plan/view_ops.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace cpuaccel::plan {
namespace {

struct View {
  TensorDesc desc;
  int64_t offset = 0;
};

// `traced` with the sizes that only a call knows: dimension d has the size of dimension dims[d] of
// `from` unless dims[d] is -1, and dimension `axis` (-1: none) the size that the number of elements
// gives.
Sizes sizes_now(const Sizes& traced, const Sizes& from, const Sizes& dims, int64_t axis) {
  auto result = traced;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    if (dims[dim] >= 0) {
      result.at(dim) = from.at(static_cast<size_t>(dims[dim]));
    }
  }
  const int64_t numbers = count_of(from);
  if (axis >= 0) {
    auto& size = result[static_cast<size_t>(axis)];
    size = 1;
    size = numbers / std::max(count_of(result), int64_t{1});
  }
  if (count_of(result) != numbers) {
    throw std::runtime_error("view: the new sizes have another number of elements than the input");
  }
  return result;
}

// The strides of a view of `from` with other sizes and its elements in the same order; nullopt if
// no strides give that. Dimensions of `from` that can be merged are split anew.
std::optional<TensorDesc> viewed(const TensorDesc& from, const Sizes& sizes) {
  TensorDesc result{sizes, Sizes(sizes.size())};
  size_t dim = sizes.size();
  for (size_t last = from.sizes.size(); last > 0;) {
    // From `last` to the front: the dimensions that can be merged, with `run` elements together.
    int64_t run = 1, stride = 1;
    for (; last > 0; --last) {
      const int64_t size = from.sizes[last - 1], step = from.strides[last - 1];
      if (size != 1 && run != 1 && step != run * stride) {
        break;
      }
      if (size != 1 && run == 1) {
        stride = step;
      }
      run *= size;
    }
    while (dim > 0 && (run > 1 || sizes[dim - 1] == 1)) {
      if (run % sizes[dim - 1] != 0) {
        return std::nullopt;
      }
      result.strides[--dim] = stride;
      stride *= sizes[dim];
      run /= sizes[dim];
    }
    if (run > 1) {
      return std::nullopt;
    }
  }
  return dim == 0 ? std::optional(result) : std::nullopt;
}

View permuted(const TensorDesc& from, const Sizes& order) {
  View result;
  for (const int64_t dim : order) {
    result.desc.sizes.push_back(from.sizes[static_cast<size_t>(dim)]);
    result.desc.strides.push_back(from.strides[static_cast<size_t>(dim)]);
  }
  return result;
}

View sliced(const TensorDesc& from, size_t axis, int64_t begin, int64_t end) {
  View result{from, begin * from.strides[axis]};
  result.desc.sizes[axis] = std::min(end, from.sizes[axis]) - begin;
  return result;
}

}  // namespace

void add_view_op(Building& building, const Region& region, const Operation& operation) {
  Id from = operation.inputs[0];
  const Id to = operation.outputs[0];
  const auto& attributes = operation.attributes;
  View seen;
  if (operation.name == "view") {
    const auto sizes = sizes_now(region.value(to).sizes, building.desc(from).sizes,
                                 attribute(attributes, "dims", Sizes{}),
                                 attribute(attributes, "axis", int64_t{-1}));
    auto found = viewed(building.desc(from), sizes);
    if (!found) {
      // No view is possible. The copy is made so that the result is channels_last where it can be.
      found =
          dense(sizes, sizes.size() > 3 ? MemoryFormat::channels_last : MemoryFormat::contiguous);
      auto before = viewed(*found, building.desc(from).sizes);
      if (!before) {
        found = dense(sizes, MemoryFormat::contiguous);
        before = dense(building.desc(from).sizes, MemoryFormat::contiguous);
      }
      const Id whole = building.new_value(building.type(from));
      add_copy(building, from, whole, *before);
      from = whole;
    }
    seen.desc = *found;
  } else if (operation.name == "permute") {
    seen = permuted(building.desc(from), attribute(attributes, "order", Sizes{}));
  } else {
    seen =
        sliced(building.desc(from), static_cast<size_t>(attribute(attributes, "axis", int64_t{0})),
               attribute(attributes, "min", int64_t{0}), attribute(attributes, "max", int64_t{0}));
  }
  if (building.alias(to, from, seen.desc, seen.offset)) {
    return;
  }
  const Id other = building.new_value(building.type(from));
  if (!building.alias(other, from, seen.desc, seen.offset)) {
    throw std::runtime_error(operation.name + ": the input has no memory that a view could share");
  }
  add_copy(building, other, to, dense(seen.desc.sizes, MemoryFormat::contiguous));
}

}  // namespace cpuaccel::plan
