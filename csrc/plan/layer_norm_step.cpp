#include "plan/layer_norm_step.h"

#include <memory>
#include <optional>
#include <utility>

#include "kernels/layer_norm/layer_norm.h"
#include "plan/value_quantizer.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using Kind = dnnl::graph::op::kind;

bool is_norm(const Partition& partition) {
  return partition.operations.size() == 1 && partition.operations[0].kind == Kind::LayerNorm;
}

// Whether cpuaccel's kernel supports `norm` of an input with the layout `src`.
bool takes(const Building& building, const Operation& norm, const TensorDesc& src) {
  if (attribute(norm.attributes, "keep_stats", true) || src.sizes.empty() ||
      attribute(norm.attributes, "begin_norm_axis", int64_t{-1}) != -1 ||
      !same_layout(src, dense(src.sizes, MemoryFormat::contiguous))) {
    return false;
  }
  const DataType type = building.type(norm.inputs[0]);
  if (!is_f32_or_half(type) || building.type(norm.outputs[0]) != type) {
    return false;
  }
  for (size_t i = 1; i < norm.inputs.size(); ++i) {
    const auto& desc = building.desc(norm.inputs[i]);
    if (building.type(norm.inputs[i]) != DataType::f32 || desc.sizes != Sizes{src.sizes.back()} ||
        desc.strides != Sizes{1}) {
      return false;
    }
  }
  return norm.inputs.size() == 1 || norm.inputs.size() == 3;
}

class LayerNormStep : public Step {
 public:
  kernels::LayerNormCall call;  // without pointers
  bool add = false, affine = false, writes_norm = true, writes_sum = false, writes_bytes = false;

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto now = call;
    size_t next = 0;
    now.src = in[next++];
    now.addend = add ? in[next++] : nullptr;
    if (affine) {
      now.gamma = static_cast<const float*>(in[next]);
      now.beta = static_cast<const float*>(in[next + 1]);
    }
    next = 0;
    now.dst = writes_norm ? out[next++] : nullptr;
    now.sum = writes_sum ? out[next++] : nullptr;
    now.bytes = writes_bytes ? static_cast<uint8_t*>(out[next++]) : nullptr;
    kernels::layer_norm(now);
  }
  std::string kernel() const override {
    return std::string("cpuaccel layer_norm:") +
           kernels::first_usable(kernels::layer_norm_kernels()).name;
  }
  bool fits_team() const override { return true; }
};

// A layer norm, the operations fused with it, and which intermediate results are written as well.
struct FusedNorm {
  const Operation* sum = nullptr;
  const Operation* norm = nullptr;
  const Operation* quantize = nullptr;
  bool writes_sum = false, writes_norm = true;

  // All of its operations.
  Partition partition() const {
    Partition all;
    for (const Operation* const operation : {sum, norm, quantize}) {
      if (operation != nullptr) {
        all.operations.push_back(*operation);
      }
    }
    return all;
  }
};

// Whether `partition` is a single layer norm that cpuaccel's kernel supports.
bool is_supported(const Building& building, const Partition& partition) {
  return is_norm(partition) &&
         takes(building, partition.operations[0], building.desc(partition.operations[0].inputs[0]));
}

// Whether `operation` quantizes the f32 result of `norm`, which cpuaccel's kernel can do in the
// same call.
bool quantizes(const Building& building, const Operation& operation, const Operation& norm) {
  return !operation.kind && operation.name == "quantize" && operation.inputs.size() == 1 &&
         operation.inputs[0] == norm.outputs[0] && building.type(norm.outputs[0]) == DataType::f32;
}

// Fuses the operation that quantizes the norm's result, and returns its partition; nullopt if there
// is none.
std::optional<size_t> fuse_quantize(const StepRequest& request, FusedNorm& fused) {
  const auto& all = request.region.partitions;
  for (size_t i = request.number + 1; i < all.size(); ++i) {
    const auto& operation = all[i].operations[0];
    if (quantizes(request.building, operation, *fused.norm)) {
      fused.quantize = &operation;
      fused.writes_norm = request.region.is_read_outside(fused.norm->outputs[0], i);
      return i;
    }
  }
  return std::nullopt;
}

void add_layer_norm(Building& building, const FusedNorm& fused) {
  const auto& [sum, norm, quantize, writes_sum, writes_norm] = fused;
  auto step = std::make_unique<LayerNormStep>();
  const Id src = sum != nullptr ? sum->inputs[0] : norm->inputs[0];
  const auto desc = dense(building.desc(src).sizes, MemoryFormat::contiguous);
  step->inputs = {src};
  if (sum != nullptr) {
    step->add = true;
    step->inputs.push_back(sum->inputs[1]);
  }
  step->affine = norm->inputs.size() == 3;
  step->inputs.insert(step->inputs.end(), norm->inputs.begin() + 1, norm->inputs.end());
  auto& call = step->call;
  call.columns = desc.sizes.back();
  call.rows = count_of(desc.sizes) / call.columns;
  call.type = building.type(src);
  call.epsilon = attribute(norm->attributes, "epsilon", 1e-5f);
  const auto write = [&](Id id) {
    step->outputs.push_back(id);
    step->output_descs.push_back(desc);
    return true;
  };
  step->writes_norm = writes_norm && write(norm->outputs[0]);
  step->writes_sum = writes_sum && write(sum->outputs[0]);
  if (quantize != nullptr) {
    step->writes_bytes = write(quantize->outputs[0]);
    const auto q = value_quantizer(*quantize, "to");
    call.scale = q.scale;
    call.zero_point = q.zero_point;
  }
  building.add(std::move(step));
}

}  // namespace

bool is_sum_before_norm(const Building& building, const Region& region, size_t number) {
  if (number + 1 >= region.partitions.size()) {
    return false;
  }
  const auto &partition = region.partitions[number], &next = region.partitions[number + 1];
  const auto& sum = partition.operations[0];
  if (partition.operations.size() != 1 || sum.kind != Kind::Add || !is_norm(next) ||
      next.operations[0].inputs[0] != sum.outputs[0]) {
    return false;
  }
  const Id a = sum.inputs[0], b = sum.inputs[1];
  const DataType type = building.type(sum.outputs[0]);
  return building.type(a) == type && building.type(b) == type &&
         same_layout(building.desc(a), building.desc(b)) &&
         takes(building, next.operations[0], building.desc(a));
}

DeclineReason make_layer_norm(StepRequest& request) {
  const auto& region = request.region;
  const size_t number = request.number;
  const bool after_sum = number > 0 && is_sum_before_norm(request.building, region, number - 1);
  if (!after_sum && !is_supported(request.building, request.partition())) {
    return "not a layer norm of contiguous rows of f32, bf16 or f16";
  }
  FusedNorm fused;
  fused.norm = &request.first();
  if (after_sum) {
    fused.sum = &region.partitions[number - 1].operations[0];
    fused.writes_sum = region.is_read_outside(fused.sum->outputs[0], number);
  }
  request.fused = fuse_quantize(request, fused);
  add_layer_norm(request.building, fused);
  request.computed = fused.partition();
  return kAdded;
}

}  // namespace cpuaccel::plan
