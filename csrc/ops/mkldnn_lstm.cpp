// aten::mkldnn_rnn_layer, a layer of nn.LSTM, in bf16 and fp16 on CPUs for which oneDNN has no such
// LSTM: bf16 without AVX-512, fp16 without AVX512-FP16. torch checks the type of nn.LSTM's input
// for what oneDNN takes, but CPU autocast casts it afterwards, and the call fails with "could not
// create a primitive descriptor". Here the layer is computed in f32, and its results are rounded.

#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <tuple>

#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using at::Tensor;
using Results = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

bool is_half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

// Whether oneDNN has rejected a type before, in inference or in training. A backward uses the same
// type as its forward, because the workspace that it reads has that type.
std::atomic<bool>& rejected(at::ScalarType type, bool train) {
  static std::array<std::atomic<bool>, 4> flags{};
  return flags[(type == at::kHalf ? 2U : 0U) + (train ? 1U : 0U)];
}

Tensor wide(const Tensor& x) {
  return x.defined() && is_half(x.scalar_type()) ? x.to(at::kFloat) : x;
}

std::optional<Tensor> wide(const std::optional<Tensor>& x) {
  return x ? std::optional(wide(*x)) : x;
}

Tensor rounded(const Tensor& x, at::ScalarType type) { return x.defined() ? x.to(type) : x; }

template <OpName kName>
Results lstm_layer(const Tensor& input, const Tensor& weight0, const Tensor& weight1,
                   const Tensor& weight2, const Tensor& weight3, const Tensor& hx, const Tensor& cx,
                   bool reverse, at::IntArrayRef batch_sizes, int64_t mode, int64_t hidden_size,
                   int64_t num_layers, bool has_biases, bool bidirectional, bool batch_first,
                   bool train) {
  const auto by_torch = [&](const auto& as) {
    return at::cpu::mkldnn_rnn_layer(as(input), as(weight0), as(weight1), as(weight2), as(weight3),
                                     as(hx), as(cx), reverse, batch_sizes, mode, hidden_size,
                                     num_layers, has_biases, bidirectional, batch_first, train);
  };
  const auto as_it_is = [](const Tensor& x) { return x; };
  const auto type = input.scalar_type();
  if (!is_half(type) || weight0.layout() != at::kStrided) {
    return by_torch(as_it_is);
  }
  if (!rejected(type, train)) {
    try {
      return by_torch(as_it_is);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): f32 raises what is left
    }
  }
  auto [output, hy, cy, workspace] = by_torch([](const Tensor& x) { return wide(x); });
  rejected(type, train) = true;
  report_fallback(kName.text,
                  "oneDNN has no LSTM of this dtype on this CPU, so it is computed in float32");
  return {rounded(output, type), rounded(hy, type), rounded(cy, type), workspace};
}

template <OpName>
Gradients lstm_layer_backward(const Tensor& input, const Tensor& weight1, const Tensor& weight2,
                              const Tensor& weight3, const Tensor& weight4, const Tensor& hx,
                              const Tensor& cx, const Tensor& output, const Tensor& hy,
                              const Tensor& cy, const std::optional<Tensor>& grad_output,
                              const std::optional<Tensor>& grad_hy,
                              const std::optional<Tensor>& grad_cy, bool reverse, int64_t mode,
                              int64_t hidden_size, int64_t num_layers, bool has_biases, bool train,
                              bool bidirectional, at::IntArrayRef batch_sizes, bool batch_first,
                              const Tensor& workspace) {
  const auto by_torch = [&](const auto& as) {
    return at::cpu::mkldnn_rnn_layer_backward(
        as(input), as(weight1), as(weight2), as(weight3), as(weight4), as(hx), as(cx), as(output),
        as(hy), as(cy), as(grad_output), as(grad_hy), as(grad_cy), reverse, mode, hidden_size,
        num_layers, has_biases, train, bidirectional, batch_sizes, batch_first, workspace);
  };
  const auto type = input.scalar_type();
  if (!is_half(type) || !rejected(type, train)) {
    return by_torch([](const auto& x) { return x; });
  }
  auto gradients = by_torch([](const auto& x) { return wide(x); });
  std::apply([&](auto&... each) { ((each = rounded(each, type)), ...); }, gradients);
  return gradients;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::mkldnn_rnn_layer", c10::DispatchKey::CPU, lstm_layer),
    CPUACCEL_OVERRIDE("aten::mkldnn_rnn_layer_backward", c10::DispatchKey::CPU,
                      lstm_layer_backward),
};

}  // namespace

}  // namespace cpuaccel::ops
