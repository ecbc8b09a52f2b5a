// Recognizes layers: partitions that are a convolution or a matrix product with elementwise
// post-ops.
#pragma once

#include <optional>
#include <vector>

#include "plan/region.h"

namespace cpuaccel::plan {

// Post-op of a float layer, as oneDNN's primitives apply it.
struct FloatPostOp {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;       // of unary post-ops
  std::optional<Id> operand = {};  // second operand of binary post-ops
};

struct Layer {
  enum class Kind { convolution, matmul };
  Kind kind;
  const Operation* operation;  // in the partition that it was found in
  Id src, weights, dst;
  std::optional<Id> bias;
  std::vector<FloatPostOp> post_ops;
};

// Whether it is an elementwise operation on two values.
bool is_binary(const Operation& operation);

// Whether each output pixel of a convolution is made of the one input pixel at its place (1x1,
// stride 1, no padding). Its weights have `sizes`.
bool is_pixelwise(const Layer& layer, const Sizes& sizes);

// `partition` as a layer; nullopt if it is something else or has an operation that no primitive can
// do.
std::optional<Layer> as_layer(const Partition& partition);

}  // namespace cpuaccel::plan
