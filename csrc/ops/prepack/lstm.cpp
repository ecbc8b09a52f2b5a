// cpuaccel::packed_lstm: one direction of one LSTM layer with packed weights.
//
//   gates[t] = input[t] W_ih^T + bias_ih + h W_hh^T + bias_hh, then the cell of kernels/lstm_cell
//
// input: time x batch x features; h and c: batch x hidden; all float32. `reverse` runs from the
// last time step to the first. Returns (the h of each step, the last h, the last c). One product
// covers all inputs, before the first step; each step's product reads W_hh once. There is no
// derivative: calls that need one run torch's LSTM on the unpacked weights.

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/lstm.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/lstm_cell/lstm_cell.h"
#include "ops/kernel_call.h"
#include "ops/prepack/packed_weight.h"
#include "ops/registered_op.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kPackedLstm = "cpuaccel::packed_lstm";

using OptionalTensor = std::optional<at::Tensor>;
using LstmResults = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check_floats(const char* name, const at::Tensor& x, at::IntArrayRef sizes) {
  TORCH_CHECK(x.device().is_cpu() && x.layout() == at::kStrided && !x.is_neg() &&
                  x.scalar_type() == at::kFloat && x.sizes() == sizes,
              kPackedLstm, ": expected ", name, " to be a dense float32 tensor of shape ", sizes,
              " on the CPU, but got ", x.scalar_type(), " of shape ", x.sizes());
}

LstmResults packed_lstm_by_torch(const at::Tensor& input, const at::Tensor& weight_ih,
                                 const at::Tensor& weight_hh, const OptionalTensor& bias_ih,
                                 const OptionalTensor& bias_hh, const at::Tensor& h,
                                 const at::Tensor& c, bool reverse) {
  std::vector<at::Tensor> weights{weight_ih, weight_hh};
  if (bias_ih) {
    weights.push_back(*bias_ih);
    weights.push_back(*bias_hh);
  }
  auto [output, last_h, last_c] =
      at::lstm(reverse ? input.flip(0) : input, {h.unsqueeze(0), c.unsqueeze(0)}, weights,
               bias_ih.has_value(), 1, 0.0, false, false, false);
  // No result is a view, as for the kernel.
  return {reverse ? output.flip(0) : output.contiguous(), last_h.squeeze(0).clone(),
          last_c.squeeze(0).clone()};
}

// src and dst are dense rows of floats.
kernels::GemmCall gates_product(const float* src, int64_t rows, int64_t columns,
                                const PackedView& weights, float* dst) {
  constexpr auto kType = DataType::f32;
  return weights.product(rows, {src, kType, columns, 1, 0}, dst, kType);
}

LstmResults packed_lstm(const at::Tensor& input, const at::Tensor& packed_ih,
                        const at::Tensor& packed_hh, int64_t panel, const OptionalTensor& bias_ih,
                        const OptionalTensor& bias_hh, const at::Tensor& h0, const at::Tensor& c0,
                        bool reverse) {
  TORCH_CHECK(input.dim() == 3 && h0.dim() == 2 && input.size(0) > 0 && input.size(1) > 0 &&
                  bias_ih.has_value() == bias_hh.has_value(),
              kPackedLstm,
              ": expected input of 3 dimensions with at least a step and a sequence, h of 2, "
              "and two biases or none");
  const int64_t T = input.size(0), B = input.size(1), I = input.size(2), H = h0.size(1);
  check_floats("input", input, {T, B, I});
  check_floats("h", h0, {B, H});
  check_floats("c", c0, {B, H});
  if (bias_ih) {
    check_floats("bias_ih", *bias_ih, {4 * H});
    check_floats("bias_hh", *bias_hh, {4 * H});
  }
  const PackedView ih(kPackedLstm, packed_ih, {panel, 4 * H, I});
  const PackedView hh(kPackedLstm, packed_hh, {panel, 4 * H, H});
  TORCH_CHECK(packed_ih.scalar_type() == at::kFloat && packed_hh.scalar_type() == at::kFloat,
              kPackedLstm, ": expected packed weights of float32");
  // Both weights have the same panel width, so one check is enough.
  if (const char* reason = ih.fallback_reason()) {
    report_fallback("packed_lstm", reason);
    return packed_lstm_by_torch(input, unpack_linear(packed_ih, panel, 4 * H, I),
                                unpack_linear(packed_hh, panel, 4 * H, H), bias_ih, bias_hh, h0, c0,
                                reverse);
  }
  CPUACCEL_KERNEL_CALL(packed_lstm);
  at::Tensor gates = at::detail::empty_cpu({T, B, 4 * H}, at::kFloat);
  at::Tensor output = at::detail::empty_cpu({T, B, H}, at::kFloat);
  at::Tensor c = c0.clone(at::MemoryFormat::Contiguous);
  const at::Tensor src = input.contiguous(), first = h0.contiguous();
  const at::Tensor bias = bias_ih ? bias_ih->add(*bias_hh) : at::Tensor();
  auto* gate_data = gates.mutable_data_ptr<float>();
  auto* h_data = output.mutable_data_ptr<float>();
  auto* c_data = c.mutable_data_ptr<float>();
  auto all = gates_product(src.const_data_ptr<float>(), T * B, I, ih, gate_data);
  if (bias.defined()) {
    all.bias = {bias.const_data_ptr(), DataType::f32, kernels::GemmBiasAxis::n};
  }
  kernels::gemm(all);
  const float* h = first.const_data_ptr<float>();
  for (int64_t step = 0; step < T; ++step) {
    const int64_t t = reverse ? T - 1 - step : step;
    float* sums = gate_data + t * B * 4 * H;
    auto call = gates_product(h, B, H, hh, sums);
    call.beta = 1.0f;
    kernels::gemm(call);
    float* next = h_data + t * B * H;
    kernels::lstm_cells({H, sums, c_data, next}, B, {4 * H, H, H});
    h = next;
  }
  return {output, output.select(0, reverse ? 0 : T - 1).clone(), c};
}

LstmResults autograd_packed_lstm(const at::Tensor& input, const at::Tensor& packed_ih,
                                 const at::Tensor& packed_hh, int64_t panel,
                                 const OptionalTensor& bias_ih, const OptionalTensor& bias_hh,
                                 const at::Tensor& h, const at::Tensor& c, bool reverse) {
  const auto* ih = pointer_to(bias_ih);
  const auto* hh = pointer_to(bias_hh);
  const bool learns =
      c10::GradMode::is_enabled() &&
      std::ranges::any_of(std::array{&input, &h, &c, ih, hh}, [](const at::Tensor* each) {
        return each != nullptr && each->requires_grad();
      });
  if (!learns && !is_transformed({&input, &h, &c, ih, hh})) {
    using Signature = LstmResults(const at::Tensor&, const at::Tensor&, const at::Tensor&, int64_t,
                                  const OptionalTensor&, const OptionalTensor&, const at::Tensor&,
                                  const at::Tensor&, bool);
    static const auto op = registered_op<Signature>(kPackedLstm);
    const at::AutoDispatchBelowADInplaceOrView below;
    return op.call(input, packed_ih, packed_hh, panel, bias_ih, bias_hh, h, c, reverse);
  }
  report_fallback("packed_lstm", learns ? "gradients are required" : kTransformed);
  using Unpack = at::Tensor(const at::Tensor&, int64_t, int64_t, int64_t);
  static const auto unpack = registered_op<Unpack>("cpuaccel::unpack_linear");
  const int64_t H = h.size(-1);
  return packed_lstm_by_torch(input, unpack.call(packed_ih, panel, 4 * H, input.size(-1)),
                              unpack.call(packed_hh, panel, 4 * H, H), bias_ih, bias_hh, h, c,
                              reverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "packed_lstm(Tensor input, Tensor packed_ih, Tensor packed_hh, int panel, Tensor? bias_ih, "
      "Tensor? bias_hh, Tensor h, Tensor c, bool reverse) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("packed_lstm", packed_lstm); }

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("packed_lstm", autograd_packed_lstm);
}

}  // namespace cpuaccel::ops
