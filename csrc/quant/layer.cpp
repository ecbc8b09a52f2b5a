#include "quant/layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "base/isa.h"
#include "base/log.h"
#include "base/scratch.h"
#include "kernels/minmax/minmax.h"
#include "kernels/quantize/quantize.h"
#include "quant/cpuaccel_kernel.h"
#include "quant/external_provider.h"
#include "quant/kernel_range.h"
#include "quant/pair_sums.h"
#include "quant/providers.h"
#include "quant/source.h"

#ifdef CPUACCEL_HAS_ONEDNN
#include "quant/onednn_kernel.h"
#include "quant/provider_tuning.h"
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

// The profiler's name for a call: "cpuaccel::conv2d.onednn". The strings are never destroyed,
// because the profiler keeps pointers to them.
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

// An upper bound of |result| / src_scale of the layer, without bias.
double largest_real(const LayerWeight& layer) {
  const LayerShape& shape = layer.shape;
  const int64_t terms = shape.IC / shape.groups * shape.taps();
  const int64_t accumulator = 255 * (layer.symmetric() ? 128 : 255) * terms;
  float largest = 0.0f;
  for (const float scale : layer.scales) {
    largest = std::max(largest, std::abs(scale));
  }
  return static_cast<double>(largest) * static_cast<double>(accumulator);
}

}  // namespace

bool libraries_are_exact(const LayerShape& shape) {
  const auto* fbgemm = external_provider(Provider::fbgemm);
  bool exact = has_vnni() && (fbgemm == nullptr || fbgemm->is_exact(shape));
#ifdef CPUACCEL_HAS_ONEDNN
  exact = exact && onednn_has_vnni();
#endif
  return exact;
}

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

std::unique_ptr<Layer> Layer::create(LayerWeight weight, std::string& reason,
                                     const LayerOptions& options) {
  std::unique_ptr<Layer> layer(new Layer(std::move(weight)));
  const bool cpuaccel_only = options.without_vnni == WithoutVnni::cpuaccel_kernel && !has_vnni() &&
                             cpuaccel_unsupported_reason(layer->weight_) == nullptr;
  layer->forced_ = cpuaccel_only ? std::optional(Provider::cpuaccel) : forced_provider();
  const LayerWeight& taken = layer->weight_;
  const Int8Weights plain = std::exchange(layer->weight_.values, {});
  const auto has_exact = [&] { return exact_unsupported_reason(taken, plain) == nullptr; };
  const char* why = no_provider_reason(taken, {layer->forced_, std::nullopt});
  why = why == nullptr ? no_provider_reason_by_values(taken, plain) : why;
  if (why != nullptr && !layer->forced_ && has_exact()) {
    why = nullptr;
  }
  if (why != nullptr && options.has_fallback) {
    reason = why;
    return nullptr;
  }
  layer->only_forced_ = cpuaccel_only && cpuaccel_unsupported_reason(taken, plain) == nullptr;
  if (!layer->only_forced_) {
    layer->forced_ = forced_provider();
  }
  layer->largest_real_ = largest_real(taken);
  if (!sums_fit_int32(taken, plain)) {
    layer->in_float_ = "sums could overflow int32; computed in float";
  } else if (why != nullptr) {
    layer->in_float_ =
        taken.shape.kind == LayerKind::conv_transpose
            ? "torch's kernel for this transposed convolution is wrong; computed in float"
            : "no kernel supports the zero points of the weight; computed in float";
  } else if (options.without_vnni == WithoutVnni::cpuaccel_kernel &&
             !libraries_are_exact(taken.shape) && !has_exact()) {
    layer->in_float_ = "no exact kernel supports these weights; computed in float";
  }
  layer->plain_ = plain;
  packed_weight_bytes() += layer->plain_.count;
  return layer;
}

Layer::~Layer() {
  if (plain_.defined()) {
    packed_weight_bytes() -= plain_.count;
  }
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
    if (!results_fit_int32(call)) {
      return run_through_floats(op, call, kernel);
    }
    if (const uint8_t largest = kernel->largest_source(); largest < 255) {
      if (sources_above(weight_.shape, call, largest)) {
        return run_exactly(op, call, kernel);
      }
      calls_above_.store(0, std::memory_order_relaxed);
    }
    const char* why = run_kernel(op, call, *kernel);
    if (why == nullptr) {
      return true;
    }
    kernel = pack(kernel, call, why);
  }
  return false;
}

const char* Layer::run_kernel(Op op, const QuantCall& call, Kernel& kernel) {
  const char* why = nullptr;
  const auto run = [&] { why = run_with_byte_post_ops(kernel, weight_.shape, call); };
  kernel_range()(profiler_name(op, kernel.provider()), std::cref(run));
  if (why == nullptr) {
    calls().add(op, kernel.provider());
    runs_.fetch_add(1, std::memory_order_relaxed);
  }
  return why;
}

bool Layer::run_exactly(Op op, const QuantCall& call, const std::shared_ptr<Kernel>& kernel) {
  const auto exact = exact_kernel();
  if (!exact || run_kernel(op, call, *exact) != nullptr) {
    return false;
  }
  // The model's activations use all 8 bits: the other kernel's packed weights would never be read.
  constexpr int kCallsInARow = 16;
  if (calls_above_.fetch_add(1, std::memory_order_relaxed) + 1 == kCallsInARow && !forced_) {
    const std::scoped_lock lock(mutex_);
    if (kernel_.load() == kernel) {
      kernel_.store(exact);
      exact_.store(nullptr);
      reason_ = "8-bit activations on a CPU without VNNI: the exact kernel";
    }
  }
  return true;
}

bool Layer::results_fit_int32(const QuantCall& call) const {
  if (call.f32_dst) {
    return true;
  }
  float largest_bias = 0.0f;
  if (const float* bias = weight_.bias_data()) {
    const auto [low, high] = kernels::minmax(bias, weight_.shape.OC);
    largest_bias = std::max(-low, high);
  }
  const bool adds = call.post == PostOp::sum || call.post == PostOp::sum_relu;
  const double real = static_cast<double>(call.src_scale) * largest_real_ + largest_bias +
                      (adds ? 255.0 * static_cast<double>(call.sum_scale) : 0.0);
  // Half of int32's range, to stay away from values that kernels round differently.
  return real < static_cast<double>(1 << 30) * static_cast<double>(call.dst_scale);
}

bool Layer::run_through_floats(Op op, const QuantCall& call,
                               const std::shared_ptr<Kernel>& kernel) {
  const auto exact = kernel->provider() == Provider::cpuaccel ? kernel : exact_kernel();
  if (!exact) {
    return false;
  }
  const int64_t count = dst_count(weight_.shape, call);
  const AlignedBlock real = aligned_block(static_cast<size_t>(count) * sizeof(float));
  QuantCall to_floats = call;
  to_floats.dst = real.get();
  to_floats.f32_dst = true;
  to_floats.byte_post_ops = nullptr;
  if (run_kernel(op, to_floats, *exact) != nullptr) {
    return false;
  }
  const auto* from = reinterpret_cast<const float*>(real.get());
  if (call.s8) {
    kernels::quantize_s8(from, static_cast<int8_t*>(call.dst), count, call.dst_scale,
                         call.dst_zero_point);
  } else {
    kernels::quantize_u8(from, static_cast<uint8_t*>(call.dst), count, call.dst_scale,
                         call.dst_zero_point);
  }
  if (call.byte_post_ops != nullptr) {
    apply_byte_post_ops(*call.byte_post_ops, static_cast<uint8_t*>(call.dst), count);
  }
  return true;
}

std::shared_ptr<Kernel> Layer::exact_kernel() {
  if (auto exact = exact_.load(std::memory_order_acquire)) {
    return exact;
  }
  if (no_exact_.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const DeferredLogs deferred;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  if (auto exact = exact_.load()) {
    return exact;  // another thread was faster
  }
  const auto current = kernel_.load();
  if (current->provider() == Provider::cpuaccel) {
    return current;  // another thread has made the exact kernel the only one
  }
  const Int8Weights plain = current->unpack();
  if (exact_unsupported_reason(weight_, plain) != nullptr) {
    no_exact_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  const std::shared_ptr<Kernel> exact = make_exact_kernel(weight_, plain);
  exact_.store(exact, std::memory_order_release);
  prepacks().add(op(), exact->provider());
  if (log_enabled()) {
    log_decision(weight_.shape.to_string() + " -> " + provider_name(exact->provider()) +
                 ": for calls whose sums could saturate on the chosen kernel");
  }
  return exact;
}

bool Layer::run_slices(const char* title, Op op, QuantCall call, int64_t N) {
  const int64_t src_size = weight_.shape.IC * volume(call.src_dims);
  const int64_t dst_size = weight_.shape.OC * volume(call.dst_dims);
  const int64_t dst_bytes = dst_size * (call.f32_dst ? 4 : 1);
  const int64_t most = slices_below_int32(title, src_size, dst_size);
  BytePostOps byte_post_ops;
  if (call.byte_post_ops != nullptr) {
    byte_post_ops = *call.byte_post_ops;
    call.byte_post_ops = &byte_post_ops;
  }
  for (int64_t done = 0; done < N; done += most) {
    call.N = std::min(most, N - done);
    if (!run(op, call)) {
      return false;
    }
    call.src = call.src != nullptr ? call.src + call.N * src_size : nullptr;
    call.src_f32 = call.src_f32 != nullptr ? call.src_f32 + call.N * src_size : nullptr;
    if (byte_post_ops.other != nullptr) {
      byte_post_ops.other += call.N * dst_size;
    }
    call.dst = static_cast<std::byte*>(call.dst) + call.N * dst_bytes;
  }
  return true;
}

std::shared_ptr<Kernel> Layer::pack(const std::shared_ptr<Kernel>& failed, const QuantCall& call,
                                    const char* why) {
  const DeferredLogs deferred;  // ends after the lock
  const std::scoped_lock lock(mutex_);
  if (auto current = kernel_.load();
      current != failed && current->unsupported_reason(call) == nullptr) {
    return current;  // another thread was faster
  }
  const auto current = kernel_.load();
  if (current && (only_forced_ ||
                  no_provider_reason(weight_, {std::nullopt, current->provider()}) != nullptr)) {
    return nullptr;
  }
  const Int8Weights plain = current ? current->unpack() : plain_;
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
    packed_weight_bytes() -= plain_.count;
    plain_ = {};
  }
  prepacks().add(op(), kernel->provider());
  if (log_enabled()) {
    log_decision(weight_.shape.to_string() + " -> " + provider_name(kernel->provider()) + ": " +
                 reason_);
  }
  return kernel;
}

Int8Weights Layer::unpack() const {
  const std::scoped_lock lock(mutex_);
  const auto kernel = kernel_.load();
  return kernel ? kernel->unpack() : plain_;
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
  const int largest = kernel ? kernel->largest_source() : 255;
  const auto exact = exact_.load();
  std::string note;
  if (largest < 255) {
    note = "calls with activations above " + std::to_string(largest) +
           " run on cpuaccel's exact kernel (no VNNI)";
    note += exact ? ": " + exact->implementation() : "";
  }
  const char* provider = in_float_ != nullptr ? "torch"
                         : kernel             ? provider_name(kernel->provider())
                                              : "pending";
  return "{\"provider\": " + json_string(provider) +
         ", \"kernel\": " + json_string(kernel ? kernel->implementation() : "") +
         ", \"reason\": " + json_string(in_float_ == nullptr ? reason_ : in_float_) +
         ", \"problem\": " +
         json_string(weight_.shape.to_string() +
                     (weight_.per_channel ? " per_channel" : " per_tensor")) +
         ", \"packed_bytes\": " +
         std::to_string((kernel ? kernel->bytes() : plain_.count) + (exact ? exact->bytes() : 0)) +
         ", \"calls\": " + std::to_string(runs_.load()) + ", \"note\": " + json_string(note) + "}";
}

}  // namespace cpuaccel::quant
