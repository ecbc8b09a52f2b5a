// Partitions that are a convolution or a product of matrices, and what is done with its result
// number by number.
#pragma once

#include <optional>
#include <vector>

#include "graph/program.h"

namespace cpuaccel::graph {

struct PostOp {
  dnnl::algorithm algorithm;
  float alpha = 0, beta = 0;       // of functions of one number
  std::optional<Id> operand = {};  // of operations on two: the second
};

struct Layer {
  enum class Kind { convolution, matmul };
  Kind kind;
  const Operation* operation;  // in the program that it was found in
  Id src, weights, dst;
  std::optional<Id> bias;
  std::vector<PostOp> post_ops;
};

// Whether it combines two values number by number.
bool is_binary(const Operation& operation);

// Whether a convolution reads one pixel for each that it writes; its weights have `sizes`.
bool is_pixelwise(const Layer& layer, const Sizes& sizes);

// `partition` as a layer; nothing if it is something else, or has what no primitive can do.
std::optional<Layer> as_layer(const Partition& partition);

}  // namespace cpuaccel::graph
