#include "plan/norm_step.h"

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "plan/attention_layout.h"
#include "plan/value_quantizer.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using Kind = dnnl::graph::op::kind;

bool is_rms_norm(const Operation& operation) {
  return !operation.kind && operation.name == "rms_norm";
}

bool is_norm(const Partition& partition) {
  const auto& first = partition.operations[0];
  return partition.operations.size() == 1 && (first.kind == Kind::LayerNorm || is_rms_norm(first));
}

// Whether cpuaccel's kernel reads an input with the layout `src`, and which types it has.
bool takes_rows(const Operation& norm, const TensorDesc& src, DataType type) {
  if (src.sizes.empty()) {
    return false;
  }
  if (is_rms_norm(norm)) {  // rows without gaps, in any order
    return is_f32_or_half(type) && same_layout(src, laid_out_as(src, src.sizes));
  }
  return is_f32_or_half(type) && same_layout(src, dense(src.sizes, MemoryFormat::contiguous)) &&
         !attribute(norm.attributes, "keep_stats", true) &&
         attribute(norm.attributes, "begin_norm_axis", int64_t{-1}) == -1;
}

// Whether cpuaccel's kernel supports `norm` of an input with the layout `src`.
bool takes(const Building& building, const Operation& norm, const TensorDesc& src) {
  const DataType type = building.type(norm.inputs[0]);
  if (!takes_rows(norm, src, type) || building.type(norm.outputs[0]) != type) {
    return false;
  }
  for (size_t i = 1; i < norm.inputs.size(); ++i) {
    const auto& desc = building.desc(norm.inputs[i]);
    if (building.type(norm.inputs[i]) != DataType::f32 || desc.sizes != Sizes{src.sizes.back()} ||
        desc.strides != Sizes{1}) {
      return false;
    }
  }
  return norm.inputs.size() == 1 || norm.inputs.size() == (is_rms_norm(norm) ? 2 : 3);
}

// What differs between the two kinds of norms.

void run_norm(const kernels::LayerNormCall& call) { kernels::layer_norm(call); }
void run_norm(const kernels::RmsNormCall& call) { kernels::rms_norm(call); }

void set_weights(kernels::LayerNormCall& call, std::span<void* const> weights) {
  call.gamma = static_cast<const float*>(weights[0]);
  call.beta = static_cast<const float*>(weights[1]);
}
void set_weights(kernels::RmsNormCall& call, std::span<void* const> weights) {
  call.weights = static_cast<const float*>(weights[0]);
}

std::string kernel_of(const kernels::LayerNormCall& /*call*/) {
  return std::string("layer_norm:") + kernels::first_usable(kernels::layer_norm_kernels()).name;
}
std::string kernel_of(const kernels::RmsNormCall& /*call*/) {
  return std::string("rms_norm:") + kernels::first_usable(kernels::rms_norm_kernels()).name;
}

template <typename Call>
class NormStep : public Step {
 public:
  explicit NormStep(Call without_pointers) : call_(std::move(without_pointers)) {}

  bool add = false, writes_norm = true, writes_sum = false, writes_bytes = false;

  void run(std::span<void* const> in, std::span<void* const> out) const override {
    auto now = call_;
    size_t next = 0;
    now.src = in[next++];
    now.addend = add ? in[next++] : nullptr;
    if (next < in.size()) {
      set_weights(now, in.subspan(next));
    }
    next = 0;
    now.dst = writes_norm ? out[next++] : nullptr;
    now.sum = writes_sum ? out[next++] : nullptr;
    now.bytes = writes_bytes ? static_cast<uint8_t*>(out[next++]) : nullptr;
    run_norm(now);
  }
  std::string kernel() const override { return "cpuaccel " + kernel_of(call_); }
  bool fits_team() const override { return true; }

 private:
  Call call_;
};

// A norm, the operations fused with it, and which intermediate results are written as well.
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

// Whether `partition` is a single norm that cpuaccel's kernel supports.
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

template <typename Call>
void add_norm_step(Building& building, const FusedNorm& fused, Call call) {
  const auto& [sum, norm, quantize, writes_sum, writes_norm] = fused;
  const Id src = sum != nullptr ? sum->inputs[0] : norm->inputs[0];
  const auto desc = laid_out_as(building.desc(src), building.desc(src).sizes);
  call.columns = desc.sizes.back();
  call.rows = count_of(desc.sizes) / call.columns;
  call.type = building.type(src);
  if (quantize != nullptr) {
    const auto q = value_quantizer(*quantize, "to");
    call.scale = q.scale;
    call.zero_point = q.zero_point;
  }
  auto step = std::make_unique<NormStep<Call>>(call);
  step->inputs = {src};
  if (sum != nullptr) {
    step->add = true;
    step->inputs.push_back(sum->inputs[1]);
  }
  step->inputs.insert(step->inputs.end(), norm->inputs.begin() + 1, norm->inputs.end());
  const auto write = [&](Id id) {
    step->outputs.push_back(id);
    step->output_descs.push_back(desc);
    return true;
  };
  step->writes_norm = writes_norm && write(norm->outputs[0]);
  step->writes_sum = writes_sum && write(sum->outputs[0]);
  step->writes_bytes = quantize != nullptr && write(quantize->outputs[0]);
  building.add(std::move(step));
}

void add_norm(Building& building, const FusedNorm& fused) {
  const auto& attributes = fused.norm->attributes;
  if (is_rms_norm(*fused.norm)) {
    kernels::RmsNormCall call;
    call.epsilon = attribute(attributes, "epsilon", 1e-6f);
    call.weight_offset = attribute(attributes, "weight_offset", 0.0f);
    add_norm_step(building, fused, call);
  } else {
    kernels::LayerNormCall call;
    call.epsilon = attribute(attributes, "epsilon", 1e-5f);
    add_norm_step(building, fused, call);
  }
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

void add_rms_norm(Building&, const Region&, const Operation&) {
  throw std::runtime_error("rms_norm: expected f32, bf16 or f16, and f32 weights of a row");
}

DeclineReason make_norm(StepRequest& request) {
  const auto& region = request.region;
  auto& building = request.building;
  const size_t number = request.number;
  const bool after_sum = number > 0 && is_sum_before_norm(building, region, number - 1);
  Operation norm = request.first();
  if (!after_sum && !is_supported(building, request.partition())) {
    const auto src = dense(building.desc(norm.inputs[0]).sizes, MemoryFormat::contiguous);
    if (!is_norm(request.partition()) || !takes(building, norm, src)) {
      return "not a norm of rows of floats";
    }
    // oneDNN Graph reads rows with gaps number by number: 130 ms for 1024 rows of 768 numbers.
    norm.inputs[0] = with_layout(building, norm.inputs[0], src);
  }
  FusedNorm fused;
  fused.norm = &norm;
  if (after_sum) {
    fused.sum = &region.partitions[number - 1].operations[0];
    fused.writes_sum = region.is_read_outside(fused.sum->outputs[0], number);
  }
  request.fused = fuse_quantize(request, fused);
  add_norm(building, fused);
  fused.norm = &request.first();
  request.computed = fused.partition();
  return kAdded;
}

}  // namespace cpuaccel::plan
