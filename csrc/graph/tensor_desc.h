// Sizes and strides of a tensor, in numbers of its type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "graph/program.h"

namespace cpuaccel::graph {

struct TensorDesc {
  Sizes sizes, strides;
  bool operator==(const TensorDesc&) const = default;
};

// Without gaps. channels_last of fewer than three dimensions is contiguous.
TensorDesc dense(Sizes sizes, Order order);

// Whether the numbers of tensors of these sizes lie in the same places: strides of dimensions of
// size 1 do not matter.
bool same_places(const TensorDesc& a, const TensorDesc& b);

// In which order of ours the numbers lie without gaps, contiguous where both are the same; nothing
// if in neither.
std::optional<Order> order_of(const TensorDesc& desc);

// The same places, with strides of dimensions of size 1 that are those of a tensor without gaps:
// oneDNN 3.2 takes numbers from wrong places where they are others.
TensorDesc with_usual_ones(const TensorDesc& desc);

// The dimensions before the last `from_end` as one; nothing where they are not one run of numbers.
std::optional<TensorDesc> flattened(const TensorDesc& desc, size_t from_end);

// How many numbers there are.
int64_t count_of(const Sizes& sizes);

// From the first number to behind the last.
size_t span_of(const TensorDesc& desc);

}  // namespace cpuaccel::graph
