#include "graph/batch_norm_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/gemm_type.h"
#include "graph/pixel_rows.h"
#include "kernels/column_affine/column_affine.h"

namespace cpuaccel::graph {
namespace {

using Kind = dnnl::graph::op::kind;
using kernels::ColumnAffine;

class BatchNormStep : public Step {
 public:
  BatchNormStep(ColumnAffine affine, DataType type, int64_t pixels, int64_t src_stride,
                int64_t dst_stride)
      : affine_(std::move(affine)),
        type_(type),
        pixels_(pixels),
        src_stride_(src_stride),
        dst_stride_(dst_stride) {}

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    type_ == DataType::bf16 ? run_as<uint16_t>(in[0], out[0]) : run_as<float>(in[0], out[0]);
  }
  std::string kernel() const override {
    return std::string("cpuaccel column_affine:") +
           kernels::first_usable(kernels::column_affine_kernels()).name;
  }
  bool fits_team() const override { return true; }

 private:
  template <typename T>
  void run_as(const void* src, void* dst) const {
    affine_.run(kernels::ColumnAffineRows<T>{static_cast<const T*>(src), static_cast<T*>(dst),
                                             pixels_, src_stride_, dst_stride_});
  }

  ColumnAffine affine_;
  DataType type_;
  int64_t pixels_, src_stride_, dst_stride_;
};

// The channels' numbers of a constant, ones where steps are only tried; nothing of what is none, or
// of another type.
std::optional<std::vector<float>> floats_of(const Building& building, Id id, int64_t channels) {
  if (!building.is_constant(id) || building.type(id) != DataType::f32 ||
      !same_places(building.desc(id), {{channels}, {1}})) {
    return std::nullopt;
  }
  std::vector<float> floats(static_cast<size_t>(channels), 1.0f);
  if (const auto* const data = static_cast<const float*>(building.constant(id))) {
    std::copy_n(data, floats.size(), floats.begin());
  }
  return floats;
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, as x * scale + shift.
std::optional<ColumnAffine> affine_of(const Building& building, const Operation& norm, bool relu,
                                      int64_t channels, bool bf16) {
  std::vector<std::vector<float>> numbers;
  for (size_t i = 1; i < norm.inputs.size(); ++i) {
    auto found = floats_of(building, norm.inputs[i], channels);
    if (!found) {
      return std::nullopt;
    }
    numbers.push_back(std::move(*found));
  }
  if (numbers.size() != 4) {
    return std::nullopt;
  }
  const auto &gamma = numbers[0], &beta = numbers[1], &mean = numbers[2], &variance = numbers[3];
  const double epsilon = attribute(norm.attributes, "epsilon", 0.0f);
  std::vector<float> scale, shift;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const double factor = gamma[c] / std::sqrt(variance[c] + epsilon);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(beta[c] - mean[c] * factor));
  }
  const float lowest = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  return ColumnAffine(scale, shift, lowest, bf16);
}

}  // namespace

bool add_batch_norm(Building& building, const Partition& partition) {
  const auto& operations = partition.operations;
  const auto& norm = operations[0];
  const bool relu = operations.size() == 2 && operations[1].kind == Kind::ReLU;
  if (norm.kind != Kind::BatchNormInference || (operations.size() > 1 && !relu) ||
      attribute(norm.attributes, "data_format", std::string("NXC")) != "NCX") {
    return false;
  }
  const Id src = norm.inputs[0], dst = operations.back().outputs[0];
  const auto type = building.type(src);
  const auto& desc = building.desc(src);
  const auto stride = pixel_stride(desc);
  if (!stride || !gemm_type(type) || building.type(dst) != type) {
    return false;
  }
  const int64_t channels = desc.sizes[1];
  auto affine = affine_of(building, norm, relu, channels, type == DataType::bf16);
  if (!affine) {
    return false;
  }
  const auto result = dense(desc.sizes, Order::channels_last);
  auto step = std::make_unique<BatchNormStep>(
      std::move(*affine), type, count_of(desc.sizes) / channels, *stride, channels);
  step->inputs = {src};
  step->outputs = {dst};
  step->output_descs = {result};
  if (same_places(desc, result) && building.may_be_over(dst, src)) {
    step->over = src;
  }
  building.add(std::move(step));
  return true;
}

}  // namespace cpuaccel::graph
