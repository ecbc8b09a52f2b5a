#include "plan/layer.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "dnnl/sliced_by.h"

namespace cpuaccel::plan {
namespace {

using Kind = dnnl::graph::op::kind;
using Algorithm = dnnl::algorithm;

// Unary post-ops. `alpha` and `beta` are the names of attributes; without one, the value is
// `alpha_otherwise` or `beta_otherwise`.
struct UnaryRow {
  std::string_view name;
  Algorithm algorithm;
  std::string_view alpha = "", beta = "";
  float alpha_otherwise = 0, beta_otherwise = 0;
};

constexpr std::array kUnary{
    UnaryRow{"Abs", Algorithm::eltwise_abs},
    UnaryRow{"Clamp", Algorithm::eltwise_clip, "min", "max"},
    UnaryRow{"Elu", Algorithm::eltwise_elu, "alpha"},
    UnaryRow{"Exp", Algorithm::eltwise_exp},
    UnaryRow{"GELU", Algorithm::eltwise_gelu_erf},
    UnaryRow{"GELUTanh", Algorithm::eltwise_gelu_tanh},
    UnaryRow{"HardSigmoid", Algorithm::eltwise_hardsigmoid, "alpha", "beta"},
    UnaryRow{"HardSwish", Algorithm::eltwise_hardswish, "", "", 1.0f / 6, 0.5f},
    UnaryRow{"LeakyReLU", Algorithm::eltwise_relu, "alpha"},
    UnaryRow{"Log", Algorithm::eltwise_log},
    UnaryRow{"Mish", Algorithm::eltwise_mish},
    UnaryRow{"ReLU", Algorithm::eltwise_relu},
    UnaryRow{"Round", Algorithm::eltwise_round},
    UnaryRow{"Sigmoid", Algorithm::eltwise_logistic},
    UnaryRow{"SoftPlus", Algorithm::eltwise_soft_relu, "beta", "", 1},
    UnaryRow{"Sqrt", Algorithm::eltwise_sqrt},
    UnaryRow{"Square", Algorithm::eltwise_square},
    UnaryRow{"Tanh", Algorithm::eltwise_tanh},
};

struct BinaryRow {
  Kind kind;
  Algorithm algorithm;
  bool commutes;
};

constexpr std::array kBinary{
    BinaryRow{Kind::Add, Algorithm::binary_add, true},
    BinaryRow{Kind::Multiply, Algorithm::binary_mul, true},
    BinaryRow{Kind::Maximum, Algorithm::binary_max, true},
    BinaryRow{Kind::Minimum, Algorithm::binary_min, true},
    BinaryRow{Kind::Divide, Algorithm::binary_div, false},
    BinaryRow{Kind::Subtract, Algorithm::binary_sub, false},
};

template <class Row, size_t n, class Matches>
const Row* find(const std::array<Row, n>& table, Matches matches) {
  const auto found = std::find_if(table.begin(), table.end(), matches);
  return found == table.end() ? nullptr : &*found;
}

const BinaryRow* binary_row(const Operation& operation) {
  return find(kBinary, [&](const BinaryRow& each) { return each.kind == operation.kind; });
}

float number(const Operation& operation, std::string_view name, float otherwise) {
  return attribute(operation.attributes, name, otherwise);
}

// x * sigmoid(x), where `first` is the sigmoid.
bool is_swish(const Operation& first, const Operation& second, Id x) {
  return first.kind == Kind::Sigmoid && second.kind == Kind::Multiply &&
         reads(second, first.outputs[0]) && reads(second, x);
}

std::optional<FloatPostOp> post_op(const Operation& operation, Id x) {
  if (const auto* row =
          find(kUnary, [&](const UnaryRow& each) { return each.name == operation.name; })) {
    return FloatPostOp{row->algorithm, number(operation, row->alpha, row->alpha_otherwise),
                       number(operation, row->beta, row->beta_otherwise)};
  }
  const auto* row = binary_row(operation);
  if (row == nullptr || operation.inputs[0] == operation.inputs[1] ||
      (operation.inputs[0] != x && !row->commutes)) {
    return std::nullopt;
  }
  return FloatPostOp{row->algorithm, 0, 0, operation.inputs[operation.inputs[0] == x ? 1 : 0]};
}

}  // namespace

bool is_binary(const Operation& operation) { return binary_row(operation) != nullptr; }

bool is_pixelwise(const Layer& layer, const Sizes& sizes) {
  const auto numbers = [&](std::string_view name) {
    return attribute(layer.operation->attributes, name, Sizes{});
  };
  const Sizes strides = numbers("strides"), before = numbers("pads_begin"),
              behind = numbers("pads_end");
  return dnnl_layer::Taps{std::span(sizes).subspan(2), strides, before, behind}.are_pixelwise();
}

std::optional<Layer> as_layer(const Partition& partition) {
  const auto& operations = partition.operations;
  const auto& first = operations[0];
  if (first.kind != Kind::Convolution && first.kind != Kind::MatMul) {
    return std::nullopt;
  }
  Layer layer{first.kind == Kind::Convolution ? Layer::Kind::convolution : Layer::Kind::matmul,
              &first,
              first.inputs[0],
              first.inputs[1],
              first.outputs[0],
              {},
              {}};
  if (first.inputs.size() > 2) {
    layer.bias = first.inputs[2];
  }
  for (size_t i = 1; i < operations.size(); ++i) {
    const auto& operation = operations[i];
    if (!reads(operation, layer.dst)) {
      return std::nullopt;
    }
    if (operation.kind == Kind::BiasAdd && i == 1 && !layer.bias) {
      layer.bias = operation.inputs[1];
    } else if (i + 1 < operations.size() && is_swish(operation, operations[i + 1], layer.dst)) {
      layer.post_ops.push_back({Algorithm::eltwise_swish, 1.0f});
      ++i;
    } else if (const auto found = post_op(operation, layer.dst)) {
      layer.post_ops.push_back(*found);
    } else {
      return std::nullopt;
    }
    layer.dst = operations[i].outputs[0];
  }
  return layer;
}

}  // namespace cpuaccel::plan
