#include "ops/graph/watch.h"

#include <algorithm>
#include <cstring>

namespace cpuaccel::ops {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kSmall = 1024;
constexpr size_t kShare = 8;
constexpr size_t kFarthest = 65536;
// Tensors whose lines are asked for before they are read.
constexpr size_t kAhead = 2;

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference()
             ? -1
             : static_cast<int64_t>(
                   tensor.unsafeGetTensorImpl()->version_counter().current_version());
}

// A sum of bytes, of which their order is a part: FNV-1a's multiplier behind each word. Eight of
// them side by side, so that none waits for the multiplication before.
class Sum {
 public:
  // At most kLine bytes; behind them there are zeros.
  void add(const std::byte* from, size_t bytes) {
    Line words{};
    std::memcpy(words.data(), from, bytes);
    for (size_t i = 0; i < words.size(); ++i) {
      lanes_[i] = (lanes_[i] ^ words[i]) * kFactor;
    }
  }

  uint64_t value() const {
    uint64_t sum = kStart;
    for (const uint64_t each : lanes_) {
      sum = (sum ^ each) * kFactor;
    }
    return sum;
  }

 private:
  using Line = std::array<uint64_t, kLine / sizeof(uint64_t)>;
  static constexpr uint64_t kStart = 0xcbf29ce484222325ULL;
  static constexpr uint64_t kFactor = 0x100000001b3ULL;

  Line lanes_{kStart, kStart, kStart, kStart, kStart, kStart, kStart, kStart};
};

// Calls each(offset, size) for lines that lie `stride` apart, from `begin` to `end`.
template <class Each>
inline void for_lines(size_t begin, size_t end, size_t stride, Each each) {
  size_t at = begin;
  for (; at + kLine <= end; at += stride) {
    each(at, kLine);
  }
  if (at < end) {
    each(at, end - at);
  }
}

// The lines of a look, of `bytes` bytes.
template <class Each>
inline void for_lines_of_look(size_t bytes, size_t phase, Each each) {
  if (bytes <= kSmall) {
    for_lines(0, bytes, kLine, each);
    return;
  }
  const size_t stride = std::clamp(bytes / kShare, 2 * kSmall, kFarthest);
  const size_t first = phase * stride / WatchedTensors::kPhases / kLine * kLine;
  for_lines(first, bytes, stride, each);
  const size_t piece = (bytes / WatchedTensors::kPhases / kLine + 1) * kLine;
  for_lines(std::min(phase * piece, bytes), std::min((phase + 1) * piece, bytes), kLine, each);
}

}  // namespace

WatchedTensors::WatchedTensors(at::TensorList tensors) {
  watched_.reserve(tensors.size());
  bytes_.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    watched_.push_back({tensor.storage().getWeakStorageImpl(), identity_of(tensor),
                        tensor.const_data_ptr(), version_of(tensor)});
    bytes_.push_back({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  for (size_t phase = 0; phase < sums_.size(); ++phase) {
    sums_[phase] = sum_of(phase);
  }
}

bool WatchedTensors::Watched::is(const at::Tensor& tensor) const {
  return is_identical(identity, tensor) && tensor.const_data_ptr() == data &&
         version_of(tensor) == version;
}

bool WatchedTensors::are(at::TensorList tensors) const {
  return std::equal(watched_.begin(), watched_.end(), tensors.begin(), tensors.end(),
                    [](const auto& was, const auto& now) { return was.is(now); });
}

bool WatchedTensors::were(at::TensorList tensors) const {
  return !watched_.empty() &&
         std::equal(watched_.begin(), watched_.end(), tensors.begin(), tensors.end(),
                    [](const auto& was, const auto& now) {
                      return now.storage().unsafeGetStorageImpl() == was.identity.storage;
                    });
}

bool WatchedTensors::unchanged() {
  const uint64_t look = looks_.fetch_add(1, std::memory_order_relaxed);
  const size_t phase = static_cast<size_t>(look % kPhases);
  return sum_of(phase) == sums_[phase];
}

bool WatchedTensors::expired() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const auto& each) { return each.storage.expired(); });
}

uint64_t WatchedTensors::sum_of(size_t phase) const {
  Sum sum;
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (i + kAhead < bytes_.size()) {
      const auto& next = bytes_[i + kAhead];
      for_lines_of_look(next.count, phase,
                        [&](size_t at, size_t) { __builtin_prefetch(next.data + at); });
    }
    const auto& now = bytes_[i];
    for_lines_of_look(now.count, phase,
                      [&](size_t at, size_t size) { sum.add(now.data + at, size); });
  }
  return sum.value();
}

}  // namespace cpuaccel::ops
