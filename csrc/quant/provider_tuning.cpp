#include "quant/provider_tuning.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "base/isa.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/tuning.h"
#include "dnnl/tuning_cache.h"
#include "kernels/checksum/checksum.h"

namespace cpuaccel::quant {
namespace {

constexpr double kSeconds = 0.03;  // for all rounds, approximately
constexpr uint64_t kSeed = 1;
constexpr double kMostRelative = 1e-5;

// With few pixels, reading weights takes most of the time.
constexpr int64_t kFewPixels = 64;
bool reads_cold_weights(const QuantCall& call) {
  return call.N * volume(call.dst_dims) <= kFewPixels;
}

constexpr Provider kProviders[] = {Provider::cpuaccel, Provider::fbgemm, Provider::onednn};

// Whether both providers round a call alike. oneDNN rounds one byte in 50,000 differently from
// cpuaccel's kernels and FBGEMM, and a plan must compute what eager mode does. An f32 dst is
// rounded behind the layer.
bool may_replace(Provider from, Provider to, const QuantCall& call) {
  return call.f32_dst || (from != Provider::onednn && to != Provider::onednn);
}

// The number of a post-op in keys of the tuning cache. Files of earlier versions have these
// numbers: relu's is 1, then come the post-ops that are not activations, then other activations.
int key_number(PostOp post) {
  const int number = static_cast<int>(post), first = static_cast<int>(PostOp::leaky_relu);
  return number >= first ? number - first + 2 : number > 1 ? number + 4 : number;
}

// The key in the tuning cache: everything about a call that decides how long a provider takes.
std::string tuning_key(const LayerWeight& layer, const QuantCall& call) {
  std::ostringstream text;
  text << "provider " << layer.shape.to_string() << " n" << call.N;
  for (const int64_t size : call.src_dims) {
    text << ' ' << size;
  }
  text << " post" << key_number(call.post) << (call.src_f32 != nullptr ? " f32_src" : "")
       << (call.f32_dst ? " f32_dst" : "") << (call.src_zero_point != 0 ? " src_zp" : "")
       << (layer.symmetric() ? "" : " weights_zp") << (reads_cold_weights(call) ? " cold" : "");
  if (call.byte_post_ops != nullptr) {
    text << (call.byte_post_ops->clamps             ? " clamp"
             : call.byte_post_ops->table != nullptr ? " table"
                                                    : "")
         << (call.byte_post_ops->binary ? " binary" : "");
  }
  text << " t" << parallel_threads() << " i" << static_cast<int>(max_isa());
  return text.str();
}

// The memory that all timed providers read and write.
class Data {
 public:
  Data(const LayerShape& shape, const QuantCall& call) : call_(call), shape_(shape) {
    const auto src_count = static_cast<size_t>(call.N * shape.IC * volume(call.src_dims));
    dst_count_ = static_cast<size_t>(dst_count(shape, call));
    fill(call.src_f32 != nullptr ? 0 : src_count, src_);
    fill(call.f32_dst ? dst_count_ * sizeof(float) : dst_count_, before_);
    if (call.src_f32 != nullptr) {
      std::vector<uint8_t> bytes;
      fill(src_count, bytes);
      src_f32_.resize(src_count);
      std::ranges::transform(bytes, src_f32_.begin(), [&](uint8_t byte) {
        return call.src_scale * static_cast<float>(byte - call.src_zero_point);
      });
    }
    if (call.f32_dst) {
      std::ranges::fill(before_, uint8_t{0});
    }
    if (call.byte_post_ops != nullptr) {
      byte_post_ops_ = *call.byte_post_ops;
      if (byte_post_ops_.binary) {
        fill(dst_count_, other_);
        byte_post_ops_.other = other_.data();
      }
      call_.byte_post_ops = &byte_post_ops_;
    }
    between_.resize(reads_cold_weights(call) ? size_t{kReadBetween} : 0);
    call_.src = src_.data();
    call_.src_f32 = call.src_f32 != nullptr ? src_f32_.data() : nullptr;
  }

  // Returns the seconds of one run, whose results are then in dst(), or nullopt if the kernel
  // does not support the call.
  std::optional<double> run(Kernel& kernel) {
    if (!between_.empty()) {
      read(between_);
      read(src_);
      read(src_f32_);
    }
    dst_ = before_;
    call_.dst = dst_.data();
    const char* reason = nullptr;
    const double seconds =
        seconds_of([&] { reason = run_with_byte_post_ops(kernel, shape_, call_); });
    return reason == nullptr ? std::optional(seconds) : std::nullopt;
  }

  const std::vector<uint8_t>& dst() const { return dst_; }

  bool agree(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) const {
    return call_.f32_dst ? floats_agree(a, b) : a == b;
  }

 private:
  static void fill(size_t count, std::vector<uint8_t>& bytes) {
    std::mt19937_64 random(kSeed + count);
    bytes.resize(count);
    for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
      const uint64_t eight = random();
      std::memcpy(bytes.data() + i, &eight, std::min(sizeof(eight), count - i));
    }
  }

  template <typename Element>
  static void read(const std::vector<Element>& memory) {
    kernels::checksum(memory.data(), static_cast<int64_t>(memory.size() * sizeof(Element)));
  }

  bool floats_agree(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) const {
    std::vector<float> x(dst_count_), y(dst_count_);
    std::memcpy(x.data(), a.data(), a.size());
    std::memcpy(y.data(), b.data(), b.size());
    float largest = 0;
    for (const float value : x) {
      largest = std::max(largest, std::abs(value));
    }
    for (size_t i = 0; i < dst_count_; ++i) {
      if (!(std::abs(x[i] - y[i]) <= kMostRelative * largest)) {
        return false;
      }
    }
    return true;
  }

  QuantCall call_;
  const LayerShape& shape_;
  BytePostOps byte_post_ops_;
  size_t dst_count_ = 0;
  std::vector<uint8_t> src_, other_, before_, dst_, between_;
  std::vector<float> src_f32_;
};

std::string shown(const ProviderTiming& timing) {
  return std::string(provider_name(timing.choice.kernel->provider())) + " " +
         in_microseconds(timing.seconds) + (timing.is_same ? "" : ", different results");
}

std::string shown(const std::vector<ProviderTiming>& timings) {
  std::string text = "timed here: ";
  for (const auto& timing : timings) {
    text += (&timing == timings.data() ? "" : ", ") + shown(timing);
  }
  return text;
}

Choice tuned_choice(const LayerWeight& layer, const Int8Weights& values, const QuantCall& call,
                    Choice choice, const std::string& key) {
  auto timings = time_providers(layer, values, call, std::move(choice));
  auto& best = clearly_fastest(timings);
  const std::string text = shown(timings);
  log_decision(key + " " + text);
  if (timings.size() > 1) {
    best.choice.reason = text;
  }
  dnnl_layer::cache_tuning_result(key, static_cast<int>(best.choice.kernel->provider()));
  return std::move(best.choice);
}

}  // namespace

Choice fastest_choice(const LayerWeight& layer, const Int8Weights& values, const QuantCall& call,
                      Choice choice) {
  if (!call.may_tune || !choice.kernel || !dnnl_layer::tuning_enabled() || !has_vnni()) {
    return choice;
  }
  const std::string key = tuning_key(layer, call);
  auto result = dnnl_layer::cached_tuning_result(key);
  result = result ? result : dnnl_layer::similar_tuning_result(key);
  if (!result) {
    return tuned_choice(layer, values, call, std::move(choice), key);
  }
  if (*result == static_cast<int>(choice.kernel->provider())) {
    return choice;
  }
  for (const Provider provider : kProviders) {
    if (*result == static_cast<int>(provider) &&
        may_replace(choice.kernel->provider(), provider, call)) {
      auto other = choose_kernel(layer, values, call, {provider, std::nullopt});
      if (other.kernel) {
        other.reason = "the fastest when providers were timed on this CPU";
        return other;
      }
    }
  }
  return choice;  // the tuning cache names a provider that is not available
}

std::vector<ProviderTiming> time_providers(const LayerWeight& layer, const Int8Weights& values,
                                           const QuantCall& call, Choice choice) {
  std::vector<ProviderTiming> timings;
  timings.push_back({std::move(choice)});
  for (const Provider provider : kProviders) {
    const Provider first = timings.front().choice.kernel->provider();
    if (provider != first && may_replace(first, provider, call) && provider_available(provider)) {
      auto other = choose_kernel(layer, values, call, {provider, std::nullopt});
      if (other.kernel) {
        timings.push_back({std::move(other)});
      }
    }
  }
  if (timings.size() < 2) {
    return timings;
  }
  Data data(layer.shape, call);
  std::vector<uint8_t> expected;
  for (auto& timing : timings) {
    const bool runs = data.run(*timing.choice.kernel).has_value();
    if (expected.empty()) {
      expected = data.dst();
    }
    timing.is_same = runs && data.agree(expected, data.dst());
  }
  time_candidates(timings, std::identity{}, kSeconds, [&](ProviderTiming& timing) {
    return data.run(*timing.choice.kernel).value_or(timing.seconds);
  });
  return timings;
}

}  // namespace cpuaccel::quant
