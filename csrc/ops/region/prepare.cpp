#include "ops/region/prepare.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <string_view>
#include <unordered_map>

namespace cpuaccel::ops {
namespace {

using plan::Id;
using plan::Preparation;
using TensorsById = std::unordered_map<Id, at::Tensor>;

// weight, [bias,] gamma, beta, mean, var -> weight, bias of the convolution with the norm folded
// in:
//   (w x + b - mean) gamma / sqrt(var + eps) + beta
// in f32, each rounded once to its type. Not for transposed convolutions, whose output channels are
// second.
void fold_batch_norm(const plan::Region& region, const Preparation& preparation,
                     TensorsById& tensors) {
  const auto& in = preparation.inputs;
  auto get = [&](size_t i) { return tensors.at(in[i]).to(at::kFloat); };
  const size_t norm = in.size() - 4;
  const at::Tensor weight = get(0);
  const at::Tensor gamma = get(norm), beta = get(norm + 1), mean = get(norm + 2);
  const at::Tensor bias = norm == 2 ? get(1) : at::zeros_like(mean);
  const auto epsilon = plan::attribute(preparation.attributes, "epsilon", 0.0f);
  const at::Tensor scale = gamma * at::rsqrt(get(norm + 3) + epsilon);
  at::DimVector sizes(static_cast<size_t>(weight.dim()), 1);
  sizes[0] = weight.size(0);
  const auto& out = preparation.outputs;
  auto put = [&](size_t i, const at::Tensor& made) {
    tensors.insert_or_assign(out[i], made.to(scalar_type(region.value(out[i]).type)));
  };
  put(0, weight * scale.view(sizes));
  put(1, (bias - mean) * scale + beta);
}

void cast(const plan::Region& region, const Preparation& preparation, TensorsById& tensors) {
  const Id to = preparation.outputs[0];
  tensors.insert_or_assign(
      to, tensors.at(preparation.inputs[0]).to(scalar_type(region.value(to).type)));
}

// gamma, beta, mean, var -> factor, offset of a batch norm between quantizers:
//   factor = gamma / sqrt(var + eps) * src_scale / dst_scale
//   offset = (beta - mean gamma / sqrt(var + eps)) / dst_scale
void fold_channel_affine(const plan::Region& /*region*/, const Preparation& preparation,
                         TensorsById& tensors) {
  const auto& in = preparation.inputs;
  const auto get = [&](size_t i) { return tensors.at(in[i]).to(at::kFloat); };
  const auto number = [&](const char* name) {
    return static_cast<double>(plan::attribute(preparation.attributes, name, 0.0f));
  };
  const double src_scale = number("src_scale"), dst_scale = number("dst_scale");
  const at::Tensor scale = get(0) / at::sqrt(get(3) + number("epsilon"));
  const auto& out = preparation.outputs;
  tensors.insert_or_assign(out[0], scale * (src_scale / dst_scale));
  tensors.insert_or_assign(out[1], (get(1) - get(2) * scale) / dst_scale);
}

// q, scales, zero_points -> (q - zero_points) * scales, for each index along `axis`.
void dequantize(const plan::Region& region, const Preparation& preparation, TensorsById& tensors) {
  const auto& in = preparation.inputs;
  const at::Tensor& q = tensors.at(in[0]);
  at::DimVector sizes(static_cast<size_t>(q.dim()), 1);
  const auto axis = plan::attribute(preparation.attributes, "axis", int64_t{0});
  sizes[static_cast<size_t>(axis)] = q.size(axis);
  const auto along = [&](size_t i) { return tensors.at(in[i]).to(at::kFloat).view(sizes); };
  const Id to = preparation.outputs[0];
  tensors.insert_or_assign(
      to, ((q.to(at::kFloat) - along(2)) * along(1)).to(scalar_type(region.value(to).type)));
}

struct Row {
  std::string_view name;
  void (*run)(const plan::Region&, const Preparation&, TensorsById&);
};

constexpr std::array kPreparations{
    Row{"batch_norm", fold_batch_norm},
    Row{"cast", cast},
    Row{"channel_affine", fold_channel_affine},
    Row{"dequantize", dequantize},
};

}  // namespace

at::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::bf16:
      return at::kBFloat16;
    case DataType::f16:
      return at::kHalf;
    case DataType::u8:
      return at::kByte;
    case DataType::s8:
      return at::kChar;
    case DataType::s32:
      return at::kInt;
    default:
      return at::kFloat;
  }
}

std::vector<at::Tensor> prepare_constants(const plan::Region& region,
                                          const std::vector<at::Tensor>& given) {
  TensorsById tensors;
  for (size_t i = 0; i < given.size(); ++i) {
    tensors.emplace(region.constants[i], given[i]);
  }
  for (const auto& preparation : region.preparations) {
    const auto row = std::find_if(kPreparations.begin(), kPreparations.end(),
                                  [&](const Row& each) { return each.name == preparation.name; });
    TORCH_CHECK(row != kPreparations.end(),
                "graph: prepare: expected batch_norm, cast, channel_affine or dequantize, got ",
                preparation.name);
    row->run(region, preparation, tensors);
  }
  std::vector<at::Tensor> result;
  for (const Id id : region.all_constants()) {
    const auto& tensor = tensors.at(id);
    result.push_back(tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous());
  }
  return result;
}

}  // namespace cpuaccel::ops
