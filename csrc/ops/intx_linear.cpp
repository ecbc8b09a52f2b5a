#include "ops/intx_linear.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/DimVector.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "base/parallel.h"
#include "base/plugin.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/qgemm_wq/qgemm_wq.h"
#include "kernels/quantize_by_row/quantize_by_row.h"
#include "ops/data_type.h"
#include "ops/packed_weight_cache.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kCounted = "intx_linear";

bool is_plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.layout() == at::kStrided && !tensor.is_neg();
}
// As the cache can watch it.
bool is_dense(const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.is_non_overlapping_and_dense();
}

const char* fallback_reason(const IntxLinear& call) {
  if (!plugin_on()) {
    return reasons::kOff;
  }
  if (!is_gemm_type(call.input.scalar_type()) || !is_gemm_type(call.scale.scalar_type())) {
    return reasons::kDtype;
  }
  if (!is_plain(call.input) || !is_dense(call.codes) || !is_dense(call.scale) ||
      (call.zero_point && !is_dense(*call.zero_point))) {
    return reasons::kLayout;
  }
  if (call.codes.numel() == 0) {
    return reasons::kEmpty;
  }
  if (call.group() != call.codes.size(1) && call.group() % 8 != 0) {
    return "the group size is no multiple of 8";
  }
  return nullptr;
}

// Packs a panel at a time, so that no copy of the whole weight is made.
class Packing {
 public:
  explicit Packing(const IntxLinear& call)
      : bits_(call.bits),
        N_(call.codes.size(0)),
        K_(call.codes.size(1)),
        groups_(call.scale.size(1)),
        has_reals_(call.zero_point && call.zero_point->is_floating_point()),
        codes_(call.codes.detach().contiguous()),
        scales_(call.scale.detach().to(at::kFloat).contiguous()),
        zeros_(call.zero_point ? call.zero_point->detach().to(at::kFloat).contiguous()
                               : at::Tensor()) {
    kernels::WqFormat format;
    format.bits = call.bits;
    format.group = call.group();
    format.scales = data_type(call.scale.scalar_type());
    if (has_reals_) {
      // -zero * scale, of which a type of 16 bits would lose digits.
      format.scales = DataType::f32;
      format.zeros = kernels::WqZeros::reals;
    } else if (zeros_.defined() && zeros_.count_nonzero().item<int64_t>() != 0) {
      format.zeros = kernels::WqZeros::integers;
    }
    weights_ = std::make_shared<kernels::WqWeights>(format, N_, K_);
  }

  // Null if a code or a zero point is out of range.
  std::shared_ptr<const kernels::WqWeights> run() {
    parallel_for(0, weights_->panels(), 1, [&](int64_t begin, int64_t end) {
      Panel panel(static_cast<size_t>(kernels::kWqColumns * K_),
                  static_cast<size_t>(kernels::kWqColumns * groups_));
      for (int64_t index = begin; index < end; ++index) {
        fill(panel, index * kernels::kWqColumns);
        weights_->set_panel(index, {.codes = panel.codes.data(),
                                    .code_stride = K_,
                                    .scales = panel.scales.data(),
                                    .integers = panel.integers.data(),
                                    .reals = panel.reals.data(),
                                    .scale_stride = groups_});
      }
    });
    return fits_.load() ? weights_ : nullptr;
  }

 private:
  struct Panel {
    std::vector<int8_t> codes, integers;
    std::vector<float> scales, reals;
    Panel(size_t count, size_t of_groups)
        : codes(count), integers(of_groups), scales(of_groups), reals(of_groups) {}
  };

  int8_t in_range(float code) {
    const float low = bits_ == 4 ? -8.0f : -128.0f;
    if (!(code >= low && code <= -low - 1.0f)) {
      fits_.store(false);
      return 0;
    }
    // WqWeights counts codes of 4 bits from 0.
    return static_cast<int8_t>(code + (bits_ == 4 ? 8.0f : 0.0f));
  }

  void fill(Panel& panel, int64_t first) {
    const int64_t count = std::min(kernels::kWqColumns, N_ - first);
    const auto* codes = codes_.const_data_ptr<int8_t>() + first * K_;
    std::transform(codes, codes + count * K_, panel.codes.begin(),
                   [&](int8_t code) { return in_range(code); });
    const auto* scales = scales_.const_data_ptr<float>() + first * groups_;
    std::copy_n(scales, count * groups_, panel.scales.begin());
    if (!zeros_.defined()) {
      return;
    }
    const auto* zeros = zeros_.const_data_ptr<float>() + first * groups_;
    for (int64_t i = 0; i < count * groups_; ++i) {
      const auto at = static_cast<size_t>(i);
      if (has_reals_) {
        panel.reals[at] = -zeros[i] * scales[i];
      } else {
        panel.integers[at] = in_range(zeros[i]);
      }
    }
  }

  const int64_t bits_, N_, K_, groups_;
  const bool has_reals_;
  const at::Tensor codes_, scales_, zeros_;  // an undefined zeros_ means none
  std::shared_ptr<kernels::WqWeights> weights_;
  std::atomic<bool> fits_{true};
};

std::shared_ptr<const kernels::WqWeights> packed(const IntxLinear& call) {
  std::vector<at::Tensor> made_of{call.codes, call.scale};
  if (call.zero_point) {
    made_of.push_back(*call.zero_point);
  }
  const auto form = call.bits == 4 ? WeightForm::groups4 : WeightForm::groups8;
  return PackedWeightCache::instance()
      .get(made_of, form,
           [&] {
             CachedPackedWeight result;
             result.groups = Packing(call).run();
             return result;
           })
      .groups;
}

struct Rows {
  at::Tensor values, scales, zero_points;

  explicit Rows(const at::Tensor& src)
      : values(at::detail::empty_cpu(src.sizes(), at::kChar)),
        scales(at::detail::empty_cpu({src.size(0)}, at::kFloat)),
        zero_points(at::detail::empty_cpu({src.size(0)}, at::kInt)) {
    kernels::QuantizeByRow quantize;
    quantize.src = src.const_data_ptr();
    quantize.type = data_type(src.scalar_type());
    quantize.M = src.size(0);
    quantize.K = quantize.row_stride = src.size(1);
    quantize.symmetric = false;
    quantize.dst = values.mutable_data_ptr<int8_t>();
    quantize.scales = scales.mutable_data_ptr<float>();
    quantize.zero_points = zero_points.mutable_data_ptr<int32_t>();
    kernels::quantize_by_row(quantize);
  }
};

void multiply(const IntxLinear& call, const kernels::WqWeights& weights, const at::Tensor& src,
              const at::Tensor& bias, const at::Tensor& result) {
  const auto type = data_type(src.scalar_type());
  const float* bias_data = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  if (!call.quantize) {
    kernels::gemm_wq({.weights = &weights,
                      .M = src.size(0),
                      .src = src.const_data_ptr(),
                      .src_type = type,
                      .src_stride = src.size(1),
                      .dst = result.mutable_data_ptr(),
                      .dst_type = type,
                      .dst_stride = weights.N(),
                      .bias = bias_data});
    return;
  }
  const Rows rows(src);
  kernels::qgemm_wq({.weights = &weights,
                     .M = src.size(0),
                     .src = rows.values.const_data_ptr<int8_t>(),
                     .scales = rows.scales.const_data_ptr<float>(),
                     .zero_points = rows.zero_points.const_data_ptr<int32_t>(),
                     .dst = result.mutable_data_ptr(),
                     .dst_type = type,
                     .dst_stride = weights.N(),
                     .bias = bias_data});
}

// Undefined if a code is out of range.
at::Tensor by_kernel(const IntxLinear& call) {
  const int64_t N = call.codes.size(0), K = call.codes.size(1);
  at::DimVector sizes(call.input.sizes());
  sizes.back() = N;
  at::Tensor result = at::detail::empty_cpu(sizes, call.input.scalar_type());
  if (result.numel() == 0) {
    return result;
  }
  const auto weights = packed(call);
  if (weights == nullptr) {
    return {};
  }
  const bool biased = call.bias && call.bias->defined();
  const at::Tensor bias = biased ? call.bias->detach().to(at::kFloat).contiguous() : at::Tensor();
  multiply(call, *weights, call.input.contiguous().view({-1, K}), bias, result);
  return result;
}

at::Tensor intx_linear(const at::Tensor& input, const at::Tensor& codes, const at::Tensor& scale,
                       const std::optional<at::Tensor>& zero_point,
                       const std::optional<at::Tensor>& bias, int64_t bits, bool quantize) {
  const IntxLinear call{input, codes, scale, zero_point, bias, bits, quantize};
  check(call);
  const char* reason = fallback_reason(call);
  if (reason == nullptr) {
    const at::Tensor result = by_kernel(call);
    if (result.defined()) {
      calls().add(quantize ? Op::linear_dynamic : Op::packed_linear, Provider::cpuaccel);
      return result;
    }
    reason = "a code or a zero point out of range";
  }
  report_fallback(kCounted, reason);
  return intx_linear_by_torch(call);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "intx_linear(Tensor input, Tensor codes, Tensor scale, Tensor? zero_point, Tensor? bias, int "
      "bits, bool quantize) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("intx_linear", intx_linear); }

}  // namespace cpuaccel::ops
