#include "plan/global_pooling.h"

#include <algorithm>

namespace cpuaccel::plan {
namespace {

// The first two dimensions are the batch and the channels.
constexpr int64_t kFirstOfImage = 2;

}  // namespace

bool is_global_pooling(const Operation& operation) {
  if (operation.kind != dnnl::graph::op::kind::AvgPool) {
    return false;
  }
  const auto kernel = attribute(operation.attributes, "kernel", Sizes{});
  return !kernel.empty() && std::ranges::all_of(kernel, [](int64_t size) { return size == 0; });
}

Attributes with_window(const Operation& operation, const Sizes& src) {
  Attributes result = operation.attributes;
  const Sizes image(src.begin() + kFirstOfImage, src.end());
  result["kernel"] = image;
  result["strides"] = image;
  return result;
}

}  // namespace cpuaccel::plan
