#include "kernels/transpose/transpose.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<TransposeFunction>, name, transpose_##name)
#include "kernels/transpose/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrainBytes = 65536;  // a few microseconds, the cost of waking a thread
constexpr int64_t kColumns = 64;        // a cache line of src

}  // namespace

std::span<const KernelRow<TransposeFunction>> transpose_kernels() { return kRows; }

void transpose_bytes(const Transpose& shape, const uint8_t* src, uint8_t* dst) {
  const auto function = first_usable(transpose_kernels()).function;
  if (shape.B * shape.M * shape.K <= kGrainBytes) {
    function(shape, src, dst);
    return;
  }
  // Work is split into slices of kColumns columns. If a matrix is one slice, several matrices go to
  // the kernel in one call.
  const int64_t slices = (shape.K + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(kGrainBytes * slices / (shape.M * shape.K), 1);
  parallel_for(0, shape.B * slices, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t b = begin / slices;
      const int64_t first = begin % slices;
      const int64_t last = std::min(first + end - begin, slices);
      Transpose part = shape;
      part.B = slices == 1 ? end - begin : 1;
      part.K = std::min(shape.K, last * kColumns) - first * kColumns;
      function(part, src + b * shape.src_batch + first * kColumns,
               dst + b * shape.dst_batch + first * kColumns * shape.dst_stride);
      begin += slices == 1 ? part.B : last - first;
    }
  });
}

}  // namespace cpuaccel::kernels
