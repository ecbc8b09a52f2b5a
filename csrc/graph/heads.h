// How the operands of attention lie: heads beside each other within a position, as a linear layer
// leaves them, or one after the other.
#pragma once

#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

// A result of these sizes whose dimensions but the last are inside of each other as those of
// `query` are: where its heads are inside of positions, what puts them side by side again copies
// nothing. Dimensions are [batch x] heads x positions x elements.
TensorDesc laid_out_as(const TensorDesc& query, Sizes sizes);

// The strides of a mask that broadcasts to `scores`, 0 where it does. Throws std::runtime_error
// where it does not.
Sizes broadcast_strides(const TensorDesc& mask, const Sizes& scores);

}  // namespace cpuaccel::graph
