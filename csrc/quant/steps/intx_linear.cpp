// The plan step intx_linear: the linear layers of cpuaccel::intx_linear and packed_intx_linear
// (ops/intx_linear.h, ops/packed_intx_linear.h).
//
//   op intx_linear in SRC CODES SCALES [ZEROS] [BIAS] [TIMES] [PLUS] out DST     packed=false
//     bits=i; scales=s: f32, bf16 or f16; zeros=s: none, integers or reals
//   op intx_linear in SRC PACKED [BIAS] [TIMES] [PLUS] out DST                   packed=true
//     quantize=b; out_features=i; bias=b times=b plus=b: which operands there are
//     function=s: a name of base/activations.inc
//
//   DST = function(layer(SRC)) * TIMES + PLUS
//
// SRC, TIMES, PLUS and DST are f32 or bf16, the last three of the same shape. CODES are s8, PACKED
// is u8, the other operands are f32, and all of these are constants. Layers that quantize the same
// SRC share one quantized copy. PACKED is read where it lies; CODES are packed once for plans of
// all sizes.

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/gemm_wq/header.h"
#include "kernels/gemm_wq/pack.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "plan/names.h"
#include "quant/steps/constants.h"
#include "quant/steps/quantize_rows.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

struct PackedIntx {
  kernels::WqWeights weights;
  int64_t bytes() const { return static_cast<int64_t>(weights.bytes()); }
};

// The inputs of an op by name.
struct IntxOperands {
  Id src, weights;  // CODES or PACKED
  std::optional<Id> scales, zeros, bias, times, plus;
};

IntxOperands intx_operands_of(const Operation& operation) {
  const auto& in = operation.inputs;
  IntxOperands result{in.at(0), in.at(1), {}, {}, {}, {}, {}};
  size_t next = 2;
  if (!attribute(operation.attributes, "packed", false)) {
    result.scales = in.at(next++);
    if (attribute(operation.attributes, "zeros", std::string("none")) != "none") {
      result.zeros = in.at(next++);
    }
  }
  const auto read = [&](const char* name, std::optional<Id>& operand) {
    if (attribute(operation.attributes, name, false)) {
      operand = in.at(next++);
    }
  };
  read("bias", result.bias);
  read("times", result.times);
  read("plus", result.plus);
  return result;
}

// A step's inputs are SRC, or its integers, scales and zero points, then PACKED if weights are not
// packed here, then TIMES and PLUS.
class IntxLinearStep : public plan::Step {
 public:
  std::shared_ptr<const PackedIntx> packed;  // null: an input
  int64_t packed_bytes = 0;                  // of that input
  int64_t M = 0, N = 0;
  DataType type = DataType::f32;
  bool quantize = false, times = false, plus = false;
  std::vector<float> bias;
  Activation function = Activation::none;

  void run(Pointers in, Pointers out) const override {
    size_t next = quantize ? 3 : 1;
    if (packed) {
      multiply(packed->weights, in, next, out[0]);
    } else {
      auto* const data = static_cast<std::byte*>(in[next]);
      multiply(kernels::weights_behind_header(data, packed_bytes), in, next + 1, out[0]);
    }
    calls().add(quantize ? Op::linear_dynamic : Op::packed_linear, Provider::cpuaccel);
  }
  std::string kernel() const override {
    return quantize ? std::string("cpuaccel qgemm_wq:") +
                          kernels::first_usable(kernels::qgemm_wq_kernels()).name
                    : std::string("cpuaccel gemm_wq:") +
                          kernels::first_usable(kernels::gemm_wq_kernels()).name;
  }
  bool fits_team() const override { return true; }

 private:
  void multiply(const kernels::WqWeights& weights, Pointers in, size_t next, void* out) const {
    kernels::WqDst dst{.data = out, .type = type, .stride = N};
    if (function != Activation::none) {
      dst.function = {kernels::eltwise_f32_of, &function};
    }
    dst.times = times ? in[next++] : nullptr;
    dst.plus = plus ? in[next] : nullptr;
    const float* bias_data = bias.empty() ? nullptr : bias.data();
    if (quantize) {
      kernels::qgemm_wq({.weights = &weights,
                         .M = M,
                         .src = static_cast<const int8_t*>(in[0]),
                         .scales = static_cast<const float*>(in[1]),
                         .zero_points = static_cast<const int32_t*>(in[2]),
                         .dst = dst,
                         .bias = bias_data});
    } else {
      kernels::gemm_wq({.weights = &weights,
                        .M = M,
                        .src = in[0],
                        .src_type = type,
                        .src_stride = weights.K(),
                        .dst = dst,
                        .bias = bias_data});
    }
  }
};

kernels::WqFormat format_of(const Operation& operation, int64_t K, int64_t groups) {
  const auto type = attribute(operation.attributes, "scales", std::string("f32"));
  const auto found = plan::type_of(type);
  if (!found) {
    throw std::runtime_error("intx_linear: scales: expected f32, bf16 or f16, got '" + type + "'");
  }
  const auto zeros = attribute(operation.attributes, "zeros", std::string("none"));
  return {.bits = attribute(operation.attributes, "bits", int64_t{8}),
          .group = K / std::max<int64_t>(groups, 1),
          .scales = *found,
          .zeros = zeros == "integers" ? kernels::WqZeros::integers
                   : zeros == "reals"  ? kernels::WqZeros::reals
                                       : kernels::WqZeros::none};
}

// Null in a dry run, which has no weights.
std::shared_ptr<const PackedIntx> pack_intx(Building& building, const Operation& operation,
                                            const IntxOperands& operands) {
  const auto* data = static_cast<const int8_t*>(building.constant(operands.weights));
  if (data == nullptr) {
    return nullptr;
  }
  const auto& desc = building.desc(operands.weights);
  const auto& scale_sizes = building.desc(*operands.scales).sizes;
  return building.packed().cached<PackedIntx>(operation.outputs[0], DataType::s8, [&] {
    const auto scales = constant<float>(building, *operands.scales);
    const auto zeros =
        operands.zeros ? constant<float>(building, *operands.zeros) : std::vector<float>();
    auto format = format_of(operation, desc.sizes[1], scale_sizes.at(1));
    if (format.zeros == kernels::WqZeros::integers &&
        std::ranges::all_of(zeros, [](float zero) { return zero == 0.0f; })) {
      format.zeros = kernels::WqZeros::none;
    }
    auto made = std::make_shared<PackedIntx>(
        PackedIntx{kernels::WqWeights(format, desc.sizes[0], desc.sizes[1])});
    if (!kernels::pack_plain({.codes = data,
                              .n_stride = desc.strides[0],
                              .k_stride = desc.strides[1],
                              .scales = scales.data(),
                              .zeros = zeros.data()},
                             made->weights)) {
      throw std::runtime_error("intx_linear: a code or a zero point out of range");
    }
    return made;
  });
}

// Of SRC, TIMES and PLUS.
double bytes_of_rows(const Building& building, const IntxOperands& operands) {
  const auto bytes = [&](Id id) {
    return static_cast<double>(count_of(building.desc(id).sizes) *
                               data_type_size(building.type(id)));
  };
  double result = bytes(operands.src);
  for (const auto& operand : {operands.times, operands.plus}) {
    result += operand ? bytes(*operand) : 0.0;
  }
  return result;
}

// Sets what the step reads at each run, if its weights are packed already.
void read_packed(IntxLinearStep& step, Building& building, Id weights, int64_t K) {
  step.inputs.push_back(weights);
  step.packed_bytes = count_of(building.desc(weights).sizes);
  // Watched for changes, so that runs find what was checked here.
  auto* const data = static_cast<std::byte*>(const_cast<void*>(building.constant(weights)));
  if (data == nullptr) {
    return;
  }
  const auto found = kernels::weights_behind_header(data, step.packed_bytes);
  if (found.N() != step.N || found.K() != K) {
    throw std::runtime_error("intx_linear: PACKED: expected " + std::to_string(step.N) + " x " +
                             std::to_string(K) + ", got " + std::to_string(found.N()) + " x " +
                             std::to_string(found.K()));
  }
}

void add_intx_linear(Building& building, const Region&, const Operation& operation) {
  const auto operands = intx_operands_of(operation);
  const Id src = in_format(building, operands.src, MemoryFormat::contiguous);
  const Id dst = operation.outputs[0];
  auto sizes = building.desc(src).sizes;
  const int64_t K = sizes.back();
  auto step = std::make_unique<IntxLinearStep>();
  step->N = attribute(operation.attributes, "out_features", int64_t{0});
  step->M = count_of(sizes) / K;
  step->type = building.type(dst);
  step->quantize = attribute(operation.attributes, "quantize", false);
  step->function = function_of(operation);
  if (operands.bias) {
    step->bias = constant<float>(building, *operands.bias);
  }
  if (step->quantize) {
    RowRounding rounding;
    rounding.call.symmetric = false;
    step->inputs = quantized_rows(building, src, K, std::move(rounding));
    step->arithmetic = DataType::s8;
  } else {
    step->inputs = {src};
  }
  if (operands.scales) {
    step->packed = pack_intx(building, operation, operands);
    if (step->packed) {
      const auto packed_bytes = static_cast<double>(step->packed->bytes());
      step->read_bytes = packed_bytes + bytes_of_rows(building, operands);
    }
  } else {
    read_packed(*step, building, operands.weights, K);
  }
  sizes.back() = step->N;
  for (const auto& [operand, present] :
       {std::pair{operands.times, &step->times}, std::pair{operands.plus, &step->plus}}) {
    if (operand) {
      if (building.desc(*operand).sizes != sizes) {
        throw std::runtime_error("intx_linear: TIMES and PLUS must have the result's sizes");
      }
      step->inputs.push_back(in_format(building, *operand, MemoryFormat::contiguous));
      *present = true;
    }
  }
  step->outputs = {dst};
  step->output_descs = {plan::dense(sizes, MemoryFormat::contiguous)};
  building.add(std::move(step));
}

const RegisterStep kIntxLinear("intx_linear", add_intx_linear);

}  // namespace
}  // namespace cpuaccel::quant
