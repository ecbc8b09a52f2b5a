#include "ops/region/watch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"
#include "kernels/checksum/checksum.h"

namespace cpuaccel::ops {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kSmall = 1024;
constexpr size_t kShare = 8;
constexpr size_t kFarthest = 65536;
// Lines that are prefetched before they are read.
constexpr size_t kAhead = 16;
// What a look costs, in bytes read one after the other: 40 us a thread, a line far from the one
// before, and a tensor.
constexpr int64_t kGrain = 1 << 18, kLineCost = 256, kTensorCost = 512;
// Tensors whose metadata is prefetched before it is compared.
constexpr size_t kTensorsAhead = 8;

// An order-dependent checksum: FNV-1a's multiplier after each word. Eight lanes, so that none waits
// for the multiplication before.
class Sum {
 public:
  // At most kLine bytes, padded with zeros.
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

// The bytes that a look reads: a line every `stride` bytes from `first` on, and the look's piece.
struct Look {
  size_t first, stride, piece, piece_end;
};

Look look_of(size_t bytes, size_t phase, size_t phases) {
  if (bytes <= kSmall) {
    return {0, kLine, bytes, bytes};
  }
  const size_t stride = std::clamp(bytes / kShare, 2 * kSmall, kFarthest);
  const size_t piece = (bytes / phases / kLine + 1) * kLine;
  return {phase * stride / phases / kLine * kLine, stride, std::min(phase * piece, bytes),
          std::min((phase + 1) * piece, bytes)};
}

int64_t cost_of(size_t bytes, size_t phases) {
  const auto look = look_of(bytes, 0, phases);
  return kTensorCost + static_cast<int64_t>(look.piece_end - look.piece) +
         static_cast<int64_t>(bytes / look.stride) * kLineCost;
}

// Adds the lines from `begin` to `end`.
void add_lines(Sum& sum, const std::byte* data, size_t begin, size_t end, size_t stride) {
  for (; begin + kLine <= end; begin += stride) {
    __builtin_prefetch(data + std::min(begin + kAhead * stride, end));
    sum.add(data + begin, kLine);
  }
  if (begin < end) {
    sum.add(data + begin, end - begin);
  }
}

// Prefetches the first lines that a look reads.
void prefetch(const std::byte* data, size_t bytes, size_t begin, size_t stride) {
  for (size_t i = 0; i < kAhead && begin < bytes; ++i, begin += stride) {
    __builtin_prefetch(data + begin);
  }
}

const std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

}  // namespace

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference()
             ? -1
             : static_cast<int64_t>(
                   tensor.unsafeGetTensorImpl()->version_counter().current_version());
}

WatchedTensors::WatchedTensors(at::TensorList tensors, bool look_at_all)
    : hidden_writes_(tensors), bytes_(tensors.size()), looked_at_(tensors.size()) {
  watched_.reserve(tensors.size());
  size_t all = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    watched_.push_back(
        {tensor.storage().getWeakStorageImpl(), identity_of(tensor), version_of(tensor)});
    bytes_[i].data.store(data_of(tensor));
    bytes_[i].count = tensor.nbytes();
    all += bytes_[i].count;
  }
  phases_ = all > kManyBytes ? kPhasesOfMany : kPhases;
  costs_.push_back(0);
  for (const auto& each : bytes_) {
    costs_.push_back(costs_.back() + cost_of(each.count, phases_));
  }
  sums_.resize(phases_ * bytes_.size());
  for (size_t i = 0; i < bytes_.size(); ++i) {
    for (size_t phase = 0; phase < phases_; ++phase) {
      sums_[phase * bytes_.size() + i] = sum_of(i, phase);
    }
    looked_at_[i].store(look_at_all);
  }
}

void WatchedTensors::look_at(size_t number) { looked_at_[number].store(true); }

bool WatchedTensors::Watched::is(const at::Tensor& tensor) const {
  return is_identical(identity, tensor) && version_of(tensor) == version;
}

bool WatchedTensors::are(at::TensorList tensors) const {
  if (tensors.size() != watched_.size()) {
    return false;
  }
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (i + kTensorsAhead < watched_.size()) {
      __builtin_prefetch(watched_[i + kTensorsAhead].identity.storage);
      const auto* impl =
          reinterpret_cast<const std::byte*>(tensors[i + kTensorsAhead].unsafeGetTensorImpl());
      for (size_t line = 0; line < sizeof(c10::TensorImpl); line += kLine) {
        __builtin_prefetch(impl + line);
      }
    }
    if (!watched_[i].is(tensors[i])) {
      return false;
    }
  }
  return true;
}

bool WatchedTensors::were(at::TensorList tensors) const {
  return !watched_.empty() &&
         std::equal(watched_.begin(), watched_.end(), tensors.begin(), tensors.end(),
                    [](const auto& was, const auto& now) {
                      return now.storage().unsafeGetStorageImpl() == was.identity.storage;
                    });
}

bool WatchedTensors::moved_and_written_are_unchanged(at::TensorList tensors) {
  const uint64_t total = HiddenWriteCounts::total();
  const bool all_seen = hidden_writes_.all_seen(total);
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const auto* const data = data_of(tensors[i]);
    const uint64_t writes = all_seen ? 0 : hidden_writes_.count(i);
    const bool moved = data != bytes_[i].data.load(std::memory_order_relaxed);
    if (!moved && (all_seen || hidden_writes_.is_seen(i, writes))) {
      continue;
    }
    bytes_[i].data.store(data);
    for (size_t phase = 0; looked_at_[i].load() && phase < phases_; ++phase) {
      if (sum_of(i, phase) != sums_[phase * bytes_.size() + i]) {
        return false;
      }
    }
    if (!all_seen) {
      hidden_writes_.set_seen(i, writes);
    }
  }
  hidden_writes_.set_all_seen(total);
  return true;
}

bool WatchedTensors::unchanged(at::TensorList tensors) {
  if (!moved_and_written_are_unchanged(tensors)) {
    return false;
  }
  const uint64_t look = looks_.fetch_add(1, std::memory_order_relaxed);
  const size_t phase = static_cast<size_t>(look % phases_);
  // Threads get tensors of the same cost: those that begin in the thread's range of costs.
  const auto first_from = [&](int64_t cost) {
    return static_cast<size_t>(std::lower_bound(costs_.begin(), costs_.end() - 1, cost) -
                               costs_.begin());
  };
  std::atomic<bool> same{true};
  parallel_for(0, costs_.back(), kGrain, [&](int64_t begin, int64_t end) {
    if (!range_is_unchanged(first_from(begin), first_from(end), phase)) {
      same.store(false, std::memory_order_relaxed);
    }
  });
  return same.load();
}

// Looks at the tensors with numbers from `begin` to `end`.
bool WatchedTensors::range_is_unchanged(size_t begin, size_t end, size_t phase) const {
  const uint64_t* sums = sums_.data() + phase * bytes_.size();
  const auto next_of = [&](size_t i) {
    while (i < end && !looked_at_[i].load()) {
      ++i;
    }
    return i;
  };
  for (size_t i = next_of(begin); i < end;) {
    const size_t next = next_of(i + 1);
    if (next < end) {
      const auto* const data = bytes_[next].data.load(std::memory_order_relaxed);
      const size_t count = bytes_[next].count;
      const auto its = look_of(count, phase, phases_);
      prefetch(data, count, its.first, its.stride);
      prefetch(data, its.piece_end, its.piece, kLine);
    }
    if (sum_of(i, phase) != sums[i]) {
      return false;
    }
    i = next;
  }
  return true;
}

bool WatchedTensors::expired() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const auto& each) { return each.storage.expired(); });
}

uint64_t WatchedTensors::sum_of(size_t number, size_t phase) const {
  Sum sum;
  const auto* const data = bytes_[number].data.load(std::memory_order_relaxed);
  const size_t count = bytes_[number].count;
  const auto look = look_of(count, phase, phases_);
  add_lines(sum, data, look.first, count, look.stride);
  if (const size_t piece = look.piece_end - look.piece; piece > 0) {
    const uint64_t its = kernels::checksum(data + look.piece, static_cast<int64_t>(piece));
    sum.add(reinterpret_cast<const std::byte*>(&its), sizeof(its));
  }
  return sum.value();
}

}  // namespace cpuaccel::ops
