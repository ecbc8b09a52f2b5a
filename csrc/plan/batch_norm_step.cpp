#include "plan/batch_norm_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/batch_norm/batch_norm.h"
#include "plan/pixel_stride.h"

namespace cpuaccel::plan {
namespace {

using Kind = dnnl::graph::op::kind;
using kernels::BatchNorm;

class BatchNormStep : public Step {
 public:
  BatchNormStep(BatchNorm affine, DataType type, int64_t pixels, int64_t src_stride,
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
    return std::string("cpuaccel batch_norm:") +
           kernels::first_usable(kernels::batch_norm_kernels()).name;
  }
  bool fits_team() const override { return true; }

 private:
  template <typename T>
  void run_as(const void* src, void* dst) const {
    affine_.run(kernels::BatchNormRows<T>{static_cast<const T*>(src), static_cast<T*>(dst), pixels_,
                                          src_stride_, dst_stride_});
  }

  BatchNorm affine_;
  DataType type_;
  int64_t pixels_, src_stride_, dst_stride_;
};

// Whether a value is a dense f32 constant with one element for each channel, as many as `channels`
// has.
bool is_of_channels(const Building& building, Id id, Id channels) {
  return building.is_constant(id) && building.type(id) == DataType::f32 &&
         building.desc(id).sizes.size() == 1 &&
         building.desc(id).sizes == building.desc(channels).sizes &&
         same_layout(building.desc(id), dense(building.desc(id).sizes, MemoryFormat::contiguous));
}

// The elements of a constant, one for each channel; ones if steps are only tried.
std::vector<float> channel_floats(const Building& building, Id id) {
  std::vector<float> floats(static_cast<size_t>(building.desc(id).sizes[0]), 1.0f);
  if (const auto* const data = static_cast<const float*>(building.constant(id))) {
    std::copy_n(data, floats.size(), floats.begin());
  }
  return floats;
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta, as x * scale + shift.
BatchNorm affine_of(const Building& building, const Operation& norm, bool relu, bool bf16) {
  const auto gamma = channel_floats(building, norm.inputs[1]);
  const auto beta = channel_floats(building, norm.inputs[2]);
  const auto mean = channel_floats(building, norm.inputs[3]);
  const auto variance = channel_floats(building, norm.inputs[4]);
  const double epsilon = attribute(norm.attributes, "epsilon", 0.0f);
  std::vector<float> scale, shift;
  for (size_t c = 0; c < gamma.size(); ++c) {
    const double factor = gamma[c] / std::sqrt(variance[c] + epsilon);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(beta[c] - mean[c] * factor));
  }
  const float lowest = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  return BatchNorm(scale, shift, lowest, bf16);
}

}  // namespace

bool is_batch_norm_step(const Building& building, const Partition& partition) {
  const auto& operations = partition.operations;
  const auto& norm = operations[0];
  const bool relu = operations.size() == 2 && operations[1].kind == Kind::ReLU;
  if (norm.kind != Kind::BatchNormInference || (operations.size() > 1 && !relu) ||
      norm.inputs.size() != 5 ||
      attribute(norm.attributes, "data_format", std::string("NXC")) != "NCX") {
    return false;
  }
  const auto type = building.type(norm.inputs[0]);
  return is_f32_or_bf16(type) && building.type(operations.back().outputs[0]) == type &&
         std::all_of(norm.inputs.begin() + 1, norm.inputs.end(),
                     [&](Id id) { return is_of_channels(building, id, norm.inputs[1]); });
}

DeclineReason make_batch_norm(StepRequest& request) {
  auto& building = request.building;
  if (!is_batch_norm_step(building, request.partition())) {
    return "not a batch norm of f32 or bf16 with constants of f32";
  }
  const auto& operations = request.partition().operations;
  const auto& norm = operations[0];
  const Id src = norm.inputs[0], dst = operations.back().outputs[0];
  const auto& desc = building.desc(src);
  const auto stride = pixel_stride(desc);
  if (!stride || desc.sizes[1] != building.desc(norm.inputs[1]).sizes[0]) {
    return "the channels of a pixel are not contiguous";
  }
  const auto type = building.type(src);
  const int64_t channels = desc.sizes[1];
  const auto result = dense(desc.sizes, MemoryFormat::channels_last);
  auto step = std::make_unique<BatchNormStep>(
      affine_of(building, norm, operations.size() > 1, type == DataType::bf16), type,
      count_of(desc.sizes) / channels, *stride, channels);
  step->inputs = {src};
  step->outputs = {dst};
  step->output_descs = {result};
  if (same_layout(desc, result) && building.may_overwrite(dst, src)) {
    step->overwritten = src;
  }
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
