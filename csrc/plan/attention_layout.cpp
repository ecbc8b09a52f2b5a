#include "plan/attention_layout.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace cpuaccel::plan {

TensorDesc laid_out_as(const TensorDesc& query, Sizes sizes) {
  auto result = dense(std::move(sizes), MemoryFormat::contiguous);
  const size_t outer = result.sizes.size() - 1;
  std::vector<size_t> order(outer);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto repeats = [&](size_t dim) { return query.strides[dim] == 0 && query.sizes[dim] > 1; };
  if (std::any_of(order.begin(), order.end(), repeats)) {
    return result;
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return query.strides[a] > query.strides[b]; });
  int64_t stride = result.sizes[outer];
  for (size_t i = outer; i-- > 0;) {
    result.strides[order[i]] = stride;
    stride *= result.sizes[order[i]];
  }
  return result;
}

Sizes broadcast_strides(const TensorDesc& mask, const Sizes& scores) {
  const auto& [sizes, strides] = mask;
  if (sizes.size() > scores.size()) {
    throw std::runtime_error("attention: the mask has more dimensions than the scores");
  }
  Sizes result(scores.size());
  const size_t first = scores.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != scores[first + i] && sizes[i] != 1) {
      throw std::runtime_error("attention: the mask does not broadcast to the scores");
    }
    result[first + i] = sizes[i] == 1 ? 0 : strides[i];
  }
  return result;
}

}  // namespace cpuaccel::plan
