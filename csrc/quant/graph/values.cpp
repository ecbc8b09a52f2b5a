#include "quant/graph/values.h"

#include <functional>
#include <numeric>

#include "graph/function_step.h"
#include "kernels/transpose/transpose.h"

namespace cpuaccel::quant {

using graph::Building;
using graph::Id;
using graph::Order;

Order order_to_have(const graph::TensorDesc& desc) {
  return graph::order_of(desc).value_or(Order::contiguous);
}

namespace {

// Transposes u8 images between contiguous and channels last, because oneDNN's reorder copies them
// byte by byte. Returns false for any other copy.
bool add_transpose(Building& building, Id from, Id to, const graph::TensorDesc& desc,
                   const graph::TensorDesc& wanted) {
  const auto planes = graph::dense(desc.sizes, Order::contiguous);
  const auto last = graph::dense(desc.sizes, Order::channels_last);
  const bool to_last = graph::same_places(desc, planes) && wanted == last;
  const bool from_last = graph::same_places(desc, last) && wanted == planes;
  if (building.type(from) != graph::DataType::u8 || desc.sizes.size() < 3 ||
      !(to_last || from_last)) {
    return false;
  }
  const int64_t N = desc.sizes[0], C = desc.sizes[1], pixels = count_of(desc.sizes) / (N * C);
  const int64_t M = to_last ? C : pixels, K = to_last ? pixels : C;
  const kernels::Transpose shape{N, C * pixels, C * pixels, M, K, K, M};
  graph::add_function(building, {from}, to, wanted, [shape](auto in, auto out) {
    kernels::transpose_bytes(shape, u8(in[0]), u8(out[0]));
  });
  return true;
}

}  // namespace

Id in_order(Building& building, Id id, Order order) {
  const auto desc = building.desc(id);
  const auto wanted = graph::dense(desc.sizes, order);
  if (graph::same_places(desc, wanted)) {
    return id;
  }
  const Id copy = building.new_value(building.type(id));
  if (!add_transpose(building, id, copy, desc, wanted)) {
    graph::add_copy(building, id, copy, wanted);
  }
  return copy;
}

Id without_gaps(Building& building, Id id) {
  return in_order(building, id, order_to_have(building.desc(id)));
}

}  // namespace cpuaccel::quant
