// aten::_dyn_quant_pack_4bit_weight and aten::_dyn_quant_matmul_4bit: float rows, rounded to int8
// as they come, times int4 weights with a scale for each group of k (A8W4).
//
//   result[m,n] = bias[n] + sum over k of x[m,k] * (code[n,k] - 8) * scale[n, k / block_size]
//   x[m,k] = step[m] * (q[m,k] - zero_point[m])
//
// inp M x K (in_features) of f32, or of bf16 if the group is the whole row, as the result. A row's
// step and q are those of kernels/quantize_by_row, asymmetric, from the row's values in f32: q
// rounds half to even, and |x - inp| is at most half a step, (max(0, row) - min(0, row)) / 255 / 2.
//
// The packed tensor is torch's, because torch's own kernel reads it too when cpuaccel is off: a
// vector of floats, which are the bytes of codes (N x ceil(K / 2); k even in the low half), the
// scales (N x groups) and the bias (N), if there is one. cpuaccel's kernels read panels that the
// weight cache makes of it. On Arm, torch packs with KleidiAI where that has a kernel, to a vector
// of uint8; torch multiplies by it.
//
// torch's kernel for the vector of floats is a plain loop. It rounds halves away from zero, drops
// the bias for bf16, truncates bf16 results, and reads inp as if it were a contiguous matrix. Wrong
// sizes make it read past the end, and groups of 0 end the process.

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <memory>
#include <optional>
#include <vector>

#include "base/counters.h"
#include "base/parallel.h"
#include "base/plugin.h"
#include "ops/data_type.h"
#include "ops/intx_product.h"
#include "ops/override.h"
#include "ops/packed_weight_cache.h"
#include "ops/plain_tensor.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kDynQuantPack = "_dyn_quant_pack_4bit_weight";
constexpr auto kDynQuantMatmul = "_dyn_quant_matmul_4bit";

// The sizes in the arguments, which both ops have.
struct DynQuantSizes {
  int64_t group, K, N;

  int64_t row_bytes() const { return (K + 1) / 2; }
  int64_t groups() const { return K / group; }
  int64_t code_bytes() const { return N * row_bytes(); }
  int64_t scales() const { return N * groups(); }
  int64_t bias_offset() const { return code_bytes() + scales(); }
};

void check_sizes(const char* op, const DynQuantSizes& sizes) {
  constexpr int64_t kMost = int64_t{1} << 31;  // so that their product fits int64
  TORCH_CHECK(sizes.K > 0 && sizes.K < kMost, op,
              ": expected in_features to be positive and below 2^31, but got ", sizes.K);
  TORCH_CHECK(sizes.N >= 0 && sizes.N < kMost, op,
              ": expected out_features to be from 0 to 2^31 - 1, but got ", sizes.N);
  const bool divides = sizes.group > 0 && sizes.group % 32 == 0 && sizes.K % sizes.group == 0;
  TORCH_CHECK(sizes.group == sizes.K || divides, op,
              ": expected block_size to be in_features, or a multiple of 32 that divides it, but "
              "got block_size ",
              sizes.group, " and in_features ", sizes.K);
}

// ---- Packing

void check_parts(const at::Tensor& weights, const at::Tensor& scales,
                 const std::optional<at::Tensor>& bias, const DynQuantSizes& sizes) {
  check_sizes(kDynQuantPack, sizes);
  TORCH_CHECK(weights.scalar_type() == at::kByte && weights.numel() == sizes.code_bytes(),
              kDynQuantPack, ": expected weights to be uint8 with two codes in a byte, ", sizes.N,
              " rows (out_features) of ", sizes.row_bytes(), " bytes, but got ",
              weights.scalar_type(), " of shape ", weights.sizes());
  TORCH_CHECK(scales.is_floating_point() && scales.numel() == sizes.scales(), kDynQuantPack,
              ": expected scales_zeros to be ", sizes.scales(), " floats, for ", sizes.N,
              " rows (out_features) a scale for each ", sizes.group,
              " columns (block_size), but got ", scales.scalar_type(), " of shape ",
              scales.sizes());
  TORCH_CHECK(!bias || (bias->is_floating_point() && bias->numel() == sizes.N), kDynQuantPack,
              ": expected bias to be ", sizes.N, " floats (out_features), but got ",
              bias ? bias->scalar_type() : at::kFloat, " of shape ",
              bias ? bias->sizes() : at::IntArrayRef());
}

template <OpName kName>
at::Tensor pack_4bit_weight(const at::Tensor& weights, const at::Tensor& scales,
                            const std::optional<at::Tensor>& bias_or_undefined, int64_t group,
                            int64_t in_features, int64_t out_features) {
  const bool biased = bias_or_undefined && bias_or_undefined->defined();
  const std::optional<at::Tensor> bias = biased ? bias_or_undefined : std::nullopt;
  if (!plugin_on()) {
    report_fallback(kDynQuantPack, reasons::kOff);
    return call_torch(kName.text, weights, scales, bias, group, in_features, out_features)
        .toTensor();
  }
  const DynQuantSizes sizes{.group = group, .K = in_features, .N = out_features};
  check_parts(weights, scales, bias, sizes);
  if (at::hasKleidiAI()) {
    report_fallback(kDynQuantPack, "torch packs for KleidiAI");
    // It reads the memory as if it were contiguous, and the bias as if it were f32.
    c10::IValue floats;
    if (biased) {
      floats = bias->to(at::kFloat).contiguous();
    }
    return call_torch(kName.text, weights.contiguous(), scales.contiguous(), floats, group,
                      in_features, out_features)
        .toTensor();
  }
  const int64_t count = sizes.bias_offset() + (biased ? sizes.N : 0);
  at::Tensor packed = at::detail::empty_cpu({count}, at::kFloat);
  packed.narrow(0, 0, sizes.code_bytes()).copy_(weights.reshape(-1));
  packed.narrow(0, sizes.code_bytes(), sizes.scales()).copy_(scales.reshape(-1));
  if (biased) {
    packed.narrow(0, sizes.bias_offset(), sizes.N).copy_(bias->reshape(-1));
  }
  return packed;
}

// ---- Products

// The parts of the packed tensor.
struct DynQuantWeights {
  at::Tensor codes, scales, bias;  // an undefined bias means none
  DynQuantSizes sizes;

  DynQuantWeights(const at::Tensor& packed, const DynQuantSizes& of)
      : codes(packed.narrow(0, 0, of.code_bytes()).view({of.N, of.row_bytes()})),
        scales(packed.narrow(0, of.code_bytes(), of.scales()).view({of.N, of.groups()})),
        sizes(of) {
    if (packed.numel() > of.bias_offset()) {
      bias = packed.narrow(0, of.bias_offset(), of.N);
    }
  }
};

bool fit_bf16(const float* values, int64_t count) {
  return std::all_of(values, values + count,
                     [](float value) { return (std::bit_cast<uint32_t>(value) & 0xffff) == 0; });
}

std::shared_ptr<const kernels::WqWeights> panels_of(const DynQuantWeights& from) {
  const auto& [group, K, N] = from.sizes;
  const int64_t groups = from.sizes.groups(), row_bytes = from.sizes.row_bytes();
  const at::Tensor bytes = from.codes.to(at::kFloat), scales = from.scales.to(at::kFloat);
  const auto* values = bytes.const_data_ptr<float>();
  const auto* of_groups = scales.const_data_ptr<float>();
  // Scales of a packed bf16 tensor, such as torchao's for groups, are read in half the bytes.
  const auto type = fit_bf16(of_groups, scales.numel()) ? DataType::bf16 : DataType::f32;
  auto weights = std::make_shared<kernels::WqWeights>(
      kernels::WqFormat{.bits = 4, .group = group, .scales = type}, N, K);
  std::atomic<int64_t> wrong{-1};
  parallel_for(0, weights->panels(), 1, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(static_cast<size_t>(kernels::kWqColumns * 2 * row_bytes));
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * kernels::kWqColumns;
      const int64_t count = std::min(kernels::kWqColumns, N - first) * row_bytes;
      for (int64_t i = 0; i < count; ++i) {
        const float value = values[first * row_bytes + i];
        if (!(value >= 0.0f && value < 256.0f)) {
          wrong.store(first * row_bytes + i);
          return;
        }
        const auto byte = static_cast<uint8_t>(value);
        codes[static_cast<size_t>(2 * i)] = static_cast<int8_t>(byte & 0xf);
        codes[static_cast<size_t>(2 * i + 1)] = static_cast<int8_t>(byte >> 4);
      }
      weights->set_panel(panel, {.codes = codes.data(),
                                 .code_stride = 2 * row_bytes,
                                 .scales = of_groups + first * groups,
                                 .integers = nullptr,
                                 .reals = nullptr,
                                 .scale_stride = groups});
    }
  });
  TORCH_CHECK(wrong.load() < 0, kDynQuantMatmul, ": expected packed_weights to begin with ",
              from.sizes.code_bytes(),
              " bytes, as _dyn_quant_pack_4bit_weight makes them for out_features ", N,
              " and in_features ", K, ", but element ", wrong.load(), " is ",
              values[std::max<int64_t>(wrong.load(), 0)]);
  return weights;
}

std::shared_ptr<const kernels::WqWeights> cached_panels_of(const DynQuantWeights& from) {
  const auto weights = PackedWeightCache::instance()
                           .get({from.codes, from.scales}, WeightForm::torch_dyn_quant_4bit,
                                [&] {
                                  CachedPackedWeight packed;
                                  packed.groups = panels_of(from);
                                  return packed;
                                })
                           .groups;
  // An odd K has the bytes of the next even one.
  return weights->K() == from.sizes.K ? weights : panels_of(from);
}

void check_rows(const at::Tensor& inp, const DynQuantSizes& sizes) {
  check_sizes(kDynQuantMatmul, sizes);
  TORCH_CHECK(inp.dim() == 2 && inp.size(1) == sizes.K, kDynQuantMatmul,
              ": expected inp to be a matrix with ", sizes.K,
              " columns (in_features), but got shape ", inp.sizes());
  const auto type = inp.scalar_type();
  TORCH_CHECK(type == at::kFloat || (type == at::kBFloat16 && sizes.group == sizes.K),
              kDynQuantMatmul,
              ": expected inp to be float32, or bfloat16 with block_size equal to in_features, but "
              "got ",
              type, ", block_size ", sizes.group, " and in_features ", sizes.K);
}

void check_packed(const at::Tensor& packed, const DynQuantSizes& sizes) {
  const int64_t count = packed.numel(), unbiased = sizes.bias_offset();
  TORCH_CHECK(packed.is_floating_point() && packed.dim() == 1 &&
                  (count == unbiased || count == unbiased + sizes.N),
              kDynQuantMatmul, ": expected packed_weights to be a vector of ", unbiased,
              " floats, or ", unbiased + sizes.N,
              " with a bias, as _dyn_quant_pack_4bit_weight makes it for block_size ", sizes.group,
              ", in_features ", sizes.K, " and out_features ", sizes.N, ", but got ",
              packed.scalar_type(), " of shape ", packed.sizes());
}

at::Tensor product(const at::Tensor& inp, const DynQuantWeights& from, bool cached) {
  at::Tensor result = at::detail::empty_cpu({inp.size(0), from.sizes.N}, inp.scalar_type());
  calls().add(Op::linear_dynamic, Provider::cpuaccel);
  if (result.numel() == 0) {
    return result;
  }
  const auto weights = cached ? cached_panels_of(from) : panels_of(from);
  const at::Tensor bias =
      from.bias.defined() ? from.bias.to(at::kFloat).contiguous() : at::Tensor();
  kernels::QuantizeByRow rounding;
  rounding.symmetric = false;
  rounding.smallest_scale = 0x1p-126f;
  const QuantizedRows rows(inp.to(at::kFloat).contiguous(), rounding);
  multiply_rows(rows, *weights, bias.defined() ? bias.const_data_ptr<float>() : nullptr, result);
  return result;
}

template <OpName kName>
at::Tensor matmul_4bit(const at::Tensor& inp, const at::Tensor& packed, int64_t group,
                       int64_t in_features, int64_t out_features) {
  if (!plugin_on()) {
    report_fallback(kDynQuantMatmul, reasons::kOff);
    return call_torch(kName.text, inp, packed, group, in_features, out_features).toTensor();
  }
  const DynQuantSizes sizes{.group = group, .K = in_features, .N = out_features};
  check_rows(inp, sizes);
  if (packed.scalar_type() == at::kByte && at::hasKleidiAI()) {
    report_fallback(kDynQuantMatmul, "KleidiAI packed the weight");
    return call_torch(kName.text, inp.contiguous(), packed.contiguous(), group, in_features,
                      out_features)
        .toTensor();
  }
  check_packed(packed, sizes);
  const bool cached = packed.is_contiguous() && is_plain(packed);
  return product(inp, {cached ? packed : packed.contiguous(), sizes}, cached);
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_dyn_quant_pack_4bit_weight", c10::DispatchKey::CPU, pack_4bit_weight),
    CPUACCEL_OVERRIDE("aten::_dyn_quant_matmul_4bit", c10::DispatchKey::CPU, matmul_4bit),
};

}  // namespace
}  // namespace cpuaccel::ops
