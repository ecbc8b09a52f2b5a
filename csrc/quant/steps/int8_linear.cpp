// The plan step int8_linear: the linear layers of cpuaccel::int8_linear and packed_int8_linear
// (ops/int8_linear.h, ops/packed_int8_linear.h).
//
//   op int8_linear in SRC WEIGHTS SCALES [ZERO_POINTS] [BIAS] [GIVEN [GIVEN_ZERO_POINTS]] out DST
//     quantize=s: none, row, tensor or given; symmetric=b: low=i: high=i:
//     zero_points=b: bias=b: given=b: given_zero_points=b: which operands there are
//     function=s: a name of base/activations.inc
//     packed=b: WEIGHTS are a block of kernels/qgemm/block.h, of out_features=i rows
//
// SRC and DST are f32 or bf16. WEIGHTS are s8, or u8 if they are packed, zero points s32, and the
// other operands f32; all of them are constants. Layers that quantize the same SRC in the same way
// share one quantized copy. Packed WEIGHTS are read where they lie; others are packed once for
// plans of all sizes.

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/qgemm/block.h"
#include "kernels/qgemm/qgemm.h"
#include "plan/eltwise.h"
#include "quant/steps/constants.h"
#include "quant/steps/quantize_rows.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

// The weights as family qgemm reads them. Plans for all sizes share them.
struct PackedInt8 {
  kernels::QgemmWeights weights;
  int64_t bytes() const { return weights.bytes; }
};

// What both kinds of products have. If weights are not packed here, they are the last input.
class ProductStep : public plan::Step {
 public:
  std::shared_ptr<const PackedInt8> packed;  // null: an input
  int64_t packed_bytes = 0;                  // of that input
  int64_t M = 0, N = 0, K = 0;
  DataType type = DataType::f32;
  std::vector<float> scales, bias;
  Activation function = Activation::none;

  bool fits_team() const override { return true; }

 protected:
  const float* bias_data() const { return bias.empty() ? nullptr : bias.data(); }

  // Calls multiply(weights).
  template <typename Multiply>
  void with_weights(Pointers in, const Multiply& multiply) const {
    if (packed) {
      multiply(packed->weights);
    } else {
      const auto* block = static_cast<const std::byte*>(in[inputs.size() - 1]);
      multiply(kernels::qgemm_weights_in(block, packed_bytes));
    }
  }
};

class Int8ProductStep : public ProductStep {
 public:
  Op counted = Op::linear_dynamic;

  void run(Pointers in, Pointers out) const override {
    kernels::QgemmCall call;
    call.M = M;
    call.src = {.data = in[0],
                .type = kernels::QgemmSrcType::s8,
                .row_stride = K,
                .zero_points = static_cast<const int32_t*>(in[2]),
                .scales = static_cast<const float*>(in[1])};
    call.dst = {.data = out[0],
                .type = type,
                .row_stride = N,
                .scales = scales.data(),
                .bias = bias_data(),
                .activation = function};
    with_weights(in, [&](const kernels::QgemmWeights& weights) {
      call.weights = &weights;
      if (const char* const reason = kernels::qgemm(call)) {
        throw std::runtime_error(std::string("int8_linear: ") + reason);
      }
    });
    calls().add(counted, Provider::cpuaccel);
  }
  std::string kernel() const override {
    return std::string("cpuaccel qgemm:") + kernels::first_usable(kernels::qgemm_kernels()).name;
  }
};

class FloatProductStep : public ProductStep {
 public:
  kernels::GemmW8Function* row = nullptr;

  void run(Pointers in, Pointers out) const override {
    kernels::GemmW8Call call;
    call.M = M;
    call.src = in[0];
    call.src_type = call.dst_type = type;
    call.src_stride = K;
    call.dst = out[0];
    call.scales = scales.data();
    call.bias = bias_data();
    with_weights(in, [&](const kernels::QgemmWeights& weights) {
      call.weights = &weights;
      kernels::gemm_w8(call, row);
    });
    if (function != Activation::none) {
      plan::apply_eltwise(function, type, out[0], M * N);
    }
    calls().add(Op::packed_linear, Provider::cpuaccel);
  }
  std::string kernel() const override { return "cpuaccel gemm_w8"; }
};

// The inputs of an op by name.
struct Int8Operands {
  Id src, weights, scales;
  std::optional<Id> zero_points, bias, given, given_zero_points;
};

Int8Operands int8_operands_of(const Operation& operation) {
  const auto& in = operation.inputs;
  Int8Operands result{in.at(0), in.at(1), in.at(2), {}, {}, {}, {}};
  size_t next = 3;
  const auto read = [&](const char* name, std::optional<Id>& operand) {
    if (attribute(operation.attributes, name, false)) {
      operand = in.at(next++);
    }
  };
  read("zero_points", result.zero_points);
  read("bias", result.bias);
  read("given", result.given);
  read("given_zero_points", result.given_zero_points);
  return result;
}

// A vector of `count` elements, of which the constant may have only one.
template <typename T>
std::vector<T> constant_of(const Building& building, Id id, const char* name, int64_t count) {
  auto values = constant<T>(building, id);
  if (values.size() == 1) {
    values.resize(static_cast<size_t>(count), values[0]);
  }
  if (static_cast<int64_t>(values.size()) != count) {
    throw std::runtime_error("int8_linear: " + std::string(name) + ": expected 1 or " +
                             std::to_string(count) + " elements, got " +
                             std::to_string(values.size()));
  }
  return values;
}

// Null in a dry run, which has no weights.
std::shared_ptr<const PackedInt8> pack(Building& building, Id weights, Id dst) {
  const auto* data = static_cast<const int8_t*>(building.constant(weights));
  if (data == nullptr) {
    return nullptr;
  }
  const auto& desc = building.desc(weights);
  return building.packed().cached<PackedInt8>(dst, DataType::s8, [&] {
    const kernels::QgemmPlain plain{.data = data,
                                    .K = desc.sizes[1],
                                    .N = desc.sizes[0],
                                    .k_stride = desc.strides[1],
                                    .n_stride = desc.strides[0]};
    return std::make_shared<PackedInt8>(kernels::qgemm_pack(plain));
  });
}

// The weights of the step: packed here, or, after a look at them, its last input. Returns null in a
// dry run, which has no weights.
const kernels::QgemmWeights* take_weights(ProductStep& step, Building& building,
                                          const Operation& operation, Id weights,
                                          kernels::QgemmWeights& in_block) {
  if (!attribute(operation.attributes, "packed", false)) {
    step.packed = pack(building, weights, operation.outputs[0]);
    return step.packed ? &step.packed->weights : nullptr;
  }
  step.inputs.push_back(weights);
  step.packed_bytes = count_of(building.desc(weights).sizes);
  // Watched for changes, so that runs find what was checked here.
  const auto* block = static_cast<const std::byte*>(building.constant(weights));
  if (block == nullptr) {
    return nullptr;
  }
  in_block = kernels::qgemm_weights_in(block, step.packed_bytes);
  if (in_block.N != step.N || in_block.K != step.K) {
    throw std::runtime_error("int8_linear: WEIGHTS: expected " + std::to_string(step.N) + " x " +
                             std::to_string(step.K) + ", got " + std::to_string(in_block.N) +
                             " x " + std::to_string(in_block.K));
  }
  if (in_block.row == nullptr) {
    throw std::runtime_error("int8_linear: the weight was packed for another CPU");
  }
  return &in_block;
}

kernels::RowScales row_scales(const std::string& quantize) {
  if (quantize == "row") {
    return kernels::RowScales::of_each_row;
  }
  if (quantize == "tensor") {
    return kernels::RowScales::of_all_rows;
  }
  if (quantize == "given") {
    return kernels::RowScales::given;
  }
  throw std::runtime_error("int8_linear: quantize: expected none, row, tensor or given, got '" +
                           quantize + "'");
}

// How the M rows of the source become integers.
RowRounding row_rounding(const Building& building, const Operation& operation,
                         const Int8Operands& operands, int64_t M) {
  const auto& attributes = operation.attributes;
  RowRounding result;
  auto& call = result.call;
  call.mode = row_scales(attribute(attributes, "quantize", std::string()));
  call.symmetric = attribute(attributes, "symmetric", true);
  call.low = static_cast<int32_t>(attribute(attributes, "low", int64_t{-128}));
  call.high = static_cast<int32_t>(attribute(attributes, "high", int64_t{127}));
  if (call.mode != kernels::RowScales::given) {
    return result;
  }
  if (!operands.given) {
    throw std::runtime_error("int8_linear: quantize=given needs the operand GIVEN");
  }
  result.scales = constant<float>(building, *operands.given);
  const auto given = static_cast<int64_t>(result.scales.size());
  if (given != 1 && given != M) {
    throw std::runtime_error("int8_linear: GIVEN: expected 1 scale or " + std::to_string(M) +
                             ", one for each row, got " + std::to_string(given));
  }
  if (operands.given_zero_points) {
    result.zero_points =
        constant_of<int32_t>(building, *operands.given_zero_points, "GIVEN_ZERO_POINTS", given);
  }
  return result;
}

void set_constants(ProductStep& step, const Building& building, const Operation& operation,
                   const Int8Operands& operands) {
  step.scales = constant_of<float>(building, operands.scales, "SCALES", step.N);
  if (operands.bias) {
    step.bias = constant_of<float>(building, *operands.bias, "BIAS", step.N);
  }
  if (operands.zero_points && building.constant(*operands.zero_points) != nullptr) {
    const auto zeros = constant<int32_t>(building, *operands.zero_points);
    if (std::ranges::any_of(zeros, [](int32_t value) { return value != 0; })) {
      throw std::runtime_error("int8_linear: the weight has zero points");
    }
  }
  step.function = function_of(operation);
}

void add_int8_linear(Building& building, const Region&, const Operation& operation) {
  const auto operands = int8_operands_of(operation);
  auto sizes = building.desc(operands.src).sizes;
  auto weight_sizes = building.desc(operands.weights).sizes;
  if (attribute(operation.attributes, "packed", false) && !sizes.empty()) {
    weight_sizes = {attribute(operation.attributes, "out_features", int64_t{0}), sizes.back()};
  }
  if (weight_sizes.size() != 2 || sizes.empty() || sizes.back() != weight_sizes[1]) {
    throw std::runtime_error("int8_linear: the source has other columns than the weights");
  }
  const Id dst = operation.outputs[0];
  const int64_t N = weight_sizes[0], K = weight_sizes[1];
  const Id src = in_format(building, operands.src, MemoryFormat::contiguous);
  const auto quantize = attribute(operation.attributes, "quantize", std::string());
  const auto prepared = [&](auto step) {
    step->N = N;
    step->K = K;
    step->M = count_of(sizes) / K;
    step->type = building.type(dst);
    set_constants(*step, building, operation, operands);
    return step;
  };
  std::unique_ptr<ProductStep> step;
  kernels::QgemmWeights in_block;
  if (quantize == "none") {
    auto product = prepared(std::make_unique<FloatProductStep>());
    product->inputs = {src};
    if (const auto* weights =
            take_weights(*product, building, operation, operands.weights, in_block)) {
      product->row = kernels::gemm_w8_row(*weights);
      if (product->row == nullptr) {
        throw std::runtime_error("no kernel of this CPU for products of floats by int8");
      }
    }
    step = std::move(product);
  } else {
    auto product = prepared(std::make_unique<Int8ProductStep>());
    product->counted = quantize == "given" ? Op::linear : Op::linear_dynamic;
    product->arithmetic = DataType::s8;
    const int64_t M = count_of(sizes) / K;
    product->inputs =
        quantized_rows(building, src, K, row_rounding(building, operation, operands, M));
    take_weights(*product, building, operation, operands.weights, in_block);
    step = std::move(product);
  }
  sizes.back() = N;
  step->outputs = {dst};
  step->output_descs = {plan::dense(sizes, MemoryFormat::contiguous)};
  building.add(std::move(step));
}

const RegisterStep kInt8Linear("int8_linear", add_int8_linear);

}  // namespace
}  // namespace cpuaccel::quant
