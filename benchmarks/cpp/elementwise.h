// Cases of elementwise families, whose rows take any range of a tensor.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "bench.h"
#include "data.h"

namespace cpuaccel::bench {

// A small operand, an activation of mobilenet_v2 (56x56x144), and one that exceeds every cache.
inline constexpr int64_t kElementCounts[] = {1000, 451584, 16777216};
inline constexpr int64_t kElementGrain = 32768;

// Operands and result; `Result` is the type of one element of the result.
template <typename Result>
struct ElementwiseData {
  explicit ElementwiseData(int64_t count)
      : a(uniform_u8(count)), b(uniform_u8(count)), dst(static_cast<size_t>(count)) {}
  std::vector<uint8_t> a, b;
  std::vector<Result> dst;
};

// `run(function, data, begin, end)` computes elements [begin, end), and reads `operands` bytes for
// each.
template <typename Result, typename Function, typename Run>
Case elementwise_case(const std::string& what, int64_t count, int operands,
                      std::span<const kernels::KernelRow<Function>> rows, Run run) {
  Case item;
  item.shape = what + std::to_string(count) + " bytes";
  item.bytes_read = static_cast<double>(operands * count);
  item.bytes_written = static_cast<double>(count) * sizeof(Result);
  item.prepare = [=] {
    const auto data = std::make_shared<ElementwiseData<Result>>(count);
    return candidates(rows, [=](auto* function) {
      return [=] {
        parallel_for(0, count, kElementGrain,
                     [&](int64_t begin, int64_t end) { run(function, *data, begin, end); });
      };
    });
  };
  return item;
}

}  // namespace cpuaccel::bench
