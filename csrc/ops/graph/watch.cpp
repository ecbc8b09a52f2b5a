#include "ops/graph/watch.h"

#include <cstring>

namespace cpuaccel::ops {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPage = kLine * WatchedTensor::kPhases;
// Each line is on a page of its own: its address has to be looked up as well as its bytes.
constexpr size_t kAhead = 16 * kPage;

int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? -1 : static_cast<int64_t>(tensor._version());
}

// Multiplying after each word makes the order count; the multiplier is that of FNV-1a.
uint64_t mix(uint64_t sum, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, from + at, std::min(sizeof(word), bytes - at));
    sum = (sum ^ word) * 0x100000001b3ULL;
  }
  return sum;
}

}  // namespace

WatchedTensor::WatchedTensor(const at::Tensor& tensor)
    : storage_(tensor.storage().getWeakStorageImpl()),
      identity_(identity_of(tensor)),
      data_(static_cast<const std::byte*>(tensor.const_data_ptr())),
      bytes_(static_cast<size_t>(tensor.numel()) * tensor.element_size()),
      version_(version_of(tensor)) {
  for (int phase = 0; phase < kPhases; ++phase) {
    sums_[static_cast<size_t>(phase)] = phase_sum(phase);
    if (bytes_ <= kPage) {
      break;
    }
  }
}

bool WatchedTensor::is(const at::Tensor& tensor) const {
  return !storage_.expired() && tensor.const_data_ptr() == data_ &&
         version_of(tensor) == version_ && identity_of(tensor) == identity_;
}

bool WatchedTensor::unchanged(uint64_t look) const {
  const int phase = bytes_ <= kPage ? 0 : static_cast<int>(look % kPhases);
  return phase_sum(phase) == sums_[static_cast<size_t>(phase)];
}

uint64_t WatchedTensor::phase_sum(int phase) const {
  uint64_t sum = 0xcbf29ce484222325ULL;
  if (bytes_ <= kPage) {
    return mix(sum, data_, bytes_);
  }
  // Four sums, so that a line is not waited for before the next is asked for.
  std::array<uint64_t, 4> sums{sum, sum, sum, sum};
  size_t lane = 0;
  for (size_t at = static_cast<size_t>(phase) * kLine; at < bytes_; at += kPage) {
    __builtin_prefetch(data_ + std::min(at + kAhead, bytes_ - 1));
    sums[lane] = mix(sums[lane], data_ + at, std::min(kLine, bytes_ - at));
    lane = (lane + 1) % sums.size();
  }
  for (const uint64_t each : sums) {
    sum = (sum ^ each) * 0x100000001b3ULL;
  }
  return sum;
}

}  // namespace cpuaccel::ops
