#include "quant/layer.h"

#include <ATen/record_function.h>

#include <array>
#include <utility>

#include "base/isa.h"
#include "base/log.h"
#include "quant/providers.h"

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

// Names for the profiler: "cpuaccel::conv2d.onednn". Literals, because the profiler keeps pointers.
template <Provider kProvider>
const char* profiler_name(Op op) {
  static const auto names = [] {
    std::array<std::string, static_cast<size_t>(Op::count_)> result;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = std::string("cpuaccel::") + op_name(static_cast<Op>(i)) + "." +
                  provider_name(kProvider);
    }
    return result;
  }();
  return names[static_cast<size_t>(op)].c_str();
}

const char* profiler_name(Op op, Provider provider) {
  return provider == Provider::onednn ? profiler_name<Provider::onednn>(op)
                                      : profiler_name<Provider::fbgemm>(op);
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

std::unique_ptr<Layer> Layer::create(LayerWeight weight, std::string& reason) {
  std::unique_ptr<Layer> layer(new Layer(std::move(weight)));
  const at::Tensor values = layer->weight_.tensor.int_repr();
  layer->weight_.tensor.reset();
  auto choice = choose_kernel(layer->weight_, values);
  reason = choice.reason;
  if (!choice.kernel) {
    return nullptr;
  }
  prepacks().add(layer->op(), choice.kernel->provider());
  if (log_enabled()) {
    log_decision("prepack " + layer->shape().to_string() + " -> " +
                 provider_name(choice.kernel->provider()) + ": " + choice.reason);
  }
  layer->reason_ = std::move(choice.reason);
  layer->kernel_.store(std::move(choice.kernel));
  return layer;
}

bool Layer::run(Op op, const QuantCall& call) {
  auto kernel = kernel_.load(std::memory_order_acquire);
  while (const char* why = kernel->refuses(call)) {
    kernel = repack(kernel, call, why);
    if (!kernel) {
      return false;
    }
  }
  calls().add(op, kernel->provider());
  runs_.fetch_add(1, std::memory_order_relaxed);
  RECORD_FUNCTION(profiler_name(op, kernel->provider()), c10::ArrayRef<const c10::IValue>{});
  kernel->run(call);
  return true;
}

std::shared_ptr<Kernel> Layer::repack(const std::shared_ptr<Kernel>& refusing,
                                      const QuantCall& call, const char* why) {
  const std::scoped_lock lock(mutex_);
  if (auto current = kernel_.load(); current != refusing) {
    return current;  // another thread was faster
  }
  auto choice = choose_kernel(weight_, refusing->unpack(), refusing->provider());
  if (!choice.kernel || choice.kernel->refuses(call) != nullptr) {
    return nullptr;
  }
  reason_ = std::string(why) + " (was " + provider_name(refusing->provider()) + ")";
  std::shared_ptr<Kernel> kernel = std::move(choice.kernel);
  kernel_.store(kernel);
  return kernel;
}

std::tuple<at::Tensor, std::optional<at::Tensor>> Layer::unpack() const {
  return {weight_.requantized(kernel_.load()->unpack()), weight_.bias};
}

std::string Layer::describe() const {
  const auto kernel = kernel_.load();
  std::string reason;
  {
    const std::scoped_lock lock(mutex_);
    reason = reason_;
  }
  const char* note =
      has_vnni() ? "" : "may saturate if activations use all 8 bits (no VNNI; reduce_range avoids it)";
  return "{\"provider\": " + json_string(provider_name(kernel->provider())) +
         ", \"kernel\": " + json_string(kernel->implementation()) + ", \"reason\": " + json_string(reason) +
         ", \"problem\": " +
         json_string(weight_.shape.to_string() + (weight_.per_channel ? " per_channel" : " per_tensor")) +
         ", \"packed_bytes\": " + std::to_string(kernel->bytes()) +
         ", \"calls\": " + std::to_string(runs_.load()) + ", \"note\": " + json_string(note) + "}";
}

}  // namespace cpuaccel::quant
