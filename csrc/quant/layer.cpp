#include "quant/layer.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/isa.h"
#include "base/log.h"
#include "ops/engine.h"
#include "quant/activations.h"
#include "quant/providers.h"

#ifdef CPUACCEL_HAS_FBGEMM
#include "quant/fbgemm_kernel.h"
#endif
#ifdef CPUACCEL_HAS_ONEDNN
#include "quant/provider_trial.h"
#endif

namespace cpuaccel::quant {
namespace {

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + "\"";
}

// Names for the profiler: "cpuaccel::conv2d.onednn", kept for ever because it keeps pointers.
const char* profiler_name(Op op, Provider provider) {
  constexpr auto kOps = static_cast<size_t>(Op::count_);
  constexpr auto kProviders = static_cast<size_t>(Provider::count_);
  static const auto names = [] {
    std::array<std::string, kOps * kProviders> result;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = std::string("cpuaccel::") + op_name(static_cast<Op>(i / kProviders)) + "." +
                  provider_name(static_cast<Provider>(i % kProviders));
    }
    return result;
  }();
  return names[static_cast<size_t>(op) * kProviders + static_cast<size_t>(provider)].c_str();
}

}  // namespace

Op Layer::op() const {
  const auto& shape = weight_.shape;
  switch (shape.kind) {
    case LayerKind::linear:
      return Op::linear;
    case LayerKind::conv:
      return shape.spatial == 2 ? Op::conv2d : Op::conv3d;
    case LayerKind::conv_transpose:
      return shape.spatial == 2 ? Op::conv_transpose2d : Op::conv_transpose3d;
  }
  return Op::linear;
}

std::unique_ptr<Layer> Layer::create(LayerWeight weight, std::string& reason, Sums sums) {
  std::unique_ptr<Layer> layer(new Layer(std::move(weight)));
  layer->only_forced_ = sums == Sums::exact && !has_vnni();
  layer->forced_ = layer->only_forced_ ? std::optional(Provider::own) : forced_provider();
  const bool torchs = torch_takes(layer->weight_);
  const char* why = all_refuse(layer->weight_, {layer->forced_, std::nullopt});
  if (why != nullptr && torchs) {
    reason = why;
    return nullptr;
  }
  const at::Tensor plain = layer->weight_.tensor.int_repr().contiguous();
  if (!sums_fit_int32(layer->weight_, plain)) {
    layer->in_float_ = "sums could leave int32; computed in float";
  } else if (why != nullptr || (why = all_refuse_values(layer->weight_, plain)) != nullptr) {
    if (torchs) {
      reason = why;
      return nullptr;
    }
    layer->in_float_ = layer->weight_.shape.kind == LayerKind::conv_transpose
                           ? "a transposed convolution that torch gets wrong; computed in float"
                           : "weights with zero points that no kernel takes; computed in float";
  }
  layer->plain_ = plain;
  layer->weight_.tensor.reset();
  packed_weight_bytes() += layer->plain_.numel();
  return layer;
}

Layer::~Layer() {
  if (plain_.defined()) {
    packed_weight_bytes() -= plain_.numel();
  }
}

bool Layer::torch_takes(const LayerWeight& weight) {
#ifdef CPUACCEL_HAS_FBGEMM
  if (fbgemm_gets_wrong(weight.shape)) {
    return false;
  }
#endif
  const auto& engine = ops::kOurEngine;
  return (engine.weight_zero_points || weight.symmetric()) &&
         (engine.transposed_convolutions || weight.shape.kind != LayerKind::conv_transpose);
}

bool Layer::run(Op op, const QuantCall& call) {
  if (in_float_ != nullptr) {
    return false;
  }
  auto kernel = kernel_.load(std::memory_order_acquire);
  if (!kernel) {
    kernel = pack(nullptr, call, nullptr);
  }
  while (kernel) {
    const char* why = nullptr;
    {
      RECORD_FUNCTION(profiler_name(op, kernel->provider()), c10::ArrayRef<const c10::IValue>{});
      why = run_with_epilogue(*kernel, weight_.shape, call);
    }
    if (why == nullptr) {
      calls().add(op, kernel->provider());
      runs_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
    kernel = pack(kernel, call, why);
  }
  return false;
}

bool Layer::run_slices(const char* title, Op op, QuantCall call, int64_t N) {
  const int64_t src_size = weight_.shape.IC * volume(call.src_dims);
  const int64_t dst_size = weight_.shape.OC * volume(call.dst_dims);
  const int64_t dst_bytes = dst_size * (call.f32_dst ? 4 : 1);
  const int64_t most = slices_below_int32(title, src_size, dst_size);
  Epilogue epilogue;
  if (call.epilogue != nullptr) {
    epilogue = *call.epilogue;
    call.epilogue = &epilogue;
  }
  for (int64_t done = 0; done < N; done += most) {
    call.N = std::min(most, N - done);
    if (!run(op, call)) {
      return false;
    }
    call.src = call.src != nullptr ? call.src + call.N * src_size : nullptr;
    call.src_f32 = call.src_f32 != nullptr ? call.src_f32 + call.N * src_size : nullptr;
    if (epilogue.other != nullptr) {
      epilogue.other += call.N * dst_size;
    }
    call.dst = static_cast<std::byte*>(call.dst) + call.N * dst_bytes;
  }
  return true;
}

std::shared_ptr<Kernel> Layer::pack(const std::shared_ptr<Kernel>& refusing, const QuantCall& call,
                                    const char* why) {
  const DeferredLogs deferred;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  if (auto current = kernel_.load(); current != refusing && current->refuses(call) == nullptr) {
    return current;  // another thread was faster
  }
  const auto current = kernel_.load();
  if (current &&
      (only_forced_ || all_refuse(weight_, {std::nullopt, current->provider()}) != nullptr)) {
    return nullptr;
  }
  const at::Tensor plain = current ? current->unpack() : plain_;
  ProviderLimits limits;
  if (current) {
    limits.except = current->provider();
  } else {
    limits.only = forced_;
  }
  auto choice = choose_kernel(weight_, plain, call, limits);
  if (!choice.kernel && limits.only &&
      !only_forced_) {  // a forced provider that can't run the call gives way
    choice = choose_kernel(weight_, plain, call, {std::nullopt, limits.only});
  }
  if (!choice.kernel) {
    return nullptr;
  }
#ifdef CPUACCEL_HAS_ONEDNN
  if (!current && !limits.only) {
    choice = fastest_choice(weight_, plain, call, std::move(choice));
  }
#endif
  const std::shared_ptr<Kernel> kernel = std::move(choice.kernel);
  reason_ = std::move(choice.reason);
  if (why != nullptr) {
    reason_ = std::string(why) + " (was " + provider_name(current->provider()) + ")";
  }
  kernel_.store(kernel);
  if (plain_.defined()) {
    packed_weight_bytes() -= plain_.numel();
    plain_.reset();
  }
  prepacks().add(op(), kernel->provider());
  if (log_enabled()) {
    log_decision(weight_.shape.to_string() + " -> " + provider_name(kernel->provider()) + ": " +
                 reason_);
  }
  return kernel;
}

std::tuple<at::Tensor, std::optional<at::Tensor>> Layer::unpack() const {
  const std::scoped_lock lock(mutex_);
  const auto kernel = kernel_.load();
  const at::Tensor values = kernel ? kernel->unpack() : plain_;
  return {weight_.requantized(values.contiguous(weight_.unpacked_format)), weight_.bias};
}

std::string Layer::kernel_name() const {
  const auto kernel = kernel_.load();
  if (!kernel) {
    return {};
  }
  std::string name = provider_name(kernel->provider());
  name += ' ';
  return name += kernel->implementation();
}

bool Layer::fits_team() const {
  const auto kernel = kernel_.load();
  return kernel && kernel->fits_team();
}

std::string Layer::describe() const {
  const std::scoped_lock lock(mutex_);
  const auto kernel = kernel_.load();
  const bool saturates = kernel && kernel->provider() != Provider::own && !has_vnni();
  const char* note =
      saturates ? "may saturate if activations use all 8 bits (no VNNI; reduce_range avoids it)"
                : "";
  const char* provider = in_float_ != nullptr ? "torch"
                         : kernel             ? provider_name(kernel->provider())
                                              : "pending";
  return "{\"provider\": " + json_string(provider) +
         ", \"kernel\": " + json_string(kernel ? kernel->implementation() : "") +
         ", \"reason\": " + json_string(in_float_ == nullptr ? reason_ : in_float_) +
         ", \"problem\": " +
         json_string(weight_.shape.to_string() +
                     (weight_.per_channel ? " per_channel" : " per_tensor")) +
         ", \"packed_bytes\": " + std::to_string(kernel ? kernel->bytes() : plain_.numel()) +
         ", \"calls\": " + std::to_string(runs_.load()) + ", \"note\": " + json_string(note) + "}";
}

}  // namespace cpuaccel::quant
