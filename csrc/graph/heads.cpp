#include "graph/heads.h"

#include <stdexcept>
#include <utility>

namespace cpuaccel::graph {

TensorDesc laid_out_as(const TensorDesc& query, Sizes sizes) {
  auto result = dense(std::move(sizes), Order::contiguous);
  const size_t rank = result.sizes.size(), heads = rank - 3, positions = rank - 2;
  if (query.strides[heads] < query.strides[positions]) {
    result.strides[heads] = result.sizes[rank - 1];
    result.strides[positions] = result.sizes[heads] * result.sizes[rank - 1];
  }
  return result;
}

Sizes broadcast_strides(const TensorDesc& mask, const Sizes& scores) {
  const auto& [sizes, strides] = mask;
  if (sizes.size() > scores.size()) {
    throw std::runtime_error("attention: a mask of more dimensions than scores");
  }
  Sizes result(scores.size());
  const size_t first = scores.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != scores[first + i] && sizes[i] != 1) {
      throw std::runtime_error("attention: a mask of other sizes than scores");
    }
    result[first + i] = sizes[i] == 1 ? 0 : strides[i];
  }
  return result;
}

}  // namespace cpuaccel::graph
