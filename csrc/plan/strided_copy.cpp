#include "plan/strided_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/parallel.h"

namespace cpuaccel::plan {
namespace {

constexpr int64_t kGrainBytes = 65536;

// Runs up to this many bytes are copied in pieces of kPiece bytes, without a call of memcpy, if the
// pieces fill them.
constexpr size_t kPiece = 32, kMostBytes = 512;

void copy_run(std::byte* dst, const std::byte* src, size_t bytes) {
  if (bytes % kPiece != 0 || bytes > kMostBytes) {
    std::memcpy(dst, src, bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += kPiece) {
    std::memcpy(dst + at, src + at, kPiece);
  }
}

}  // namespace

StridedCopy::StridedCopy(const TensorDesc& from, const TensorDesc& to, int64_t width)
    : width_(width) {
  std::vector<size_t> dims(from.sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::erase_if(dims, [&](size_t dim) { return from.sizes[dim] == 1; });
  std::stable_sort(dims.begin(), dims.end(),
                   [&](size_t a, size_t b) { return to.strides[a] > to.strides[b]; });
  for (const size_t dim : dims) {
    const int64_t size = from.sizes[dim];
    if (!sizes_.empty() && from_strides_.back() == size * from.strides[dim] &&
        to_strides_.back() == size * to.strides[dim]) {
      sizes_.back() *= size;
      from_strides_.back() = from.strides[dim];
      to_strides_.back() = to.strides[dim];
    } else {
      sizes_.push_back(size);
      from_strides_.push_back(from.strides[dim]);
      to_strides_.push_back(to.strides[dim]);
    }
  }
  if (!sizes_.empty() && from_strides_.back() == 1 && to_strides_.back() == 1) {
    run_ = sizes_.back();
    sizes_.pop_back();
    from_strides_.pop_back();
    to_strides_.pop_back();
  }
}

void StridedCopy::run(const void* from, void* to) const {
  const auto* const src = static_cast<const std::byte*>(from);
  auto* const dst = static_cast<std::byte*>(to);
  const auto bytes = static_cast<size_t>(run_ * width_);
  const auto offsets = [&](int64_t number) {
    int64_t here = 0, there = 0;
    for (size_t dim = sizes_.size(); dim-- > 0; number /= sizes_[dim]) {
      const int64_t at = number % sizes_[dim];
      here += at * from_strides_[dim];
      there += at * to_strides_[dim];
    }
    return std::pair(here * width_, there * width_);
  };
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / static_cast<int64_t>(bytes));
  // Runs along the last dimension are evenly spaced, so their offsets are not computed anew for
  // each.
  const size_t dims = sizes_.size();
  const int64_t row = dims > 0 ? sizes_[dims - 1] : 1;
  const int64_t here_step = dims > 0 ? from_strides_[dims - 1] * width_ : 0;
  const int64_t there_step = dims > 0 ? to_strides_[dims - 1] * width_ : 0;
  parallel_for(0, count_of(sizes_), grain, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end;) {
      auto [here, there] = offsets(number);
      const int64_t behind = std::min(end, (number / row + 1) * row);
      for (; number < behind; ++number, here += here_step, there += there_step) {
        copy_run(dst + there, src + here, bytes);
      }
    }
  });
}

}  // namespace cpuaccel::plan
