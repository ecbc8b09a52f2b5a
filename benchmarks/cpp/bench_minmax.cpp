#include <algorithm>
#include <memory>

#include "base/parallel.h"
#include "bench.h"
#include "data.h"
#include "kernels/minmax/minmax.h"

namespace cpuaccel::bench {
namespace {

constexpr int64_t kGrain = 16384;

Case minmax_case(int64_t count) {
  Case item;
  item.shape = std::to_string(count) + " floats";
  item.bytes_read = 4.0 * static_cast<double>(count);
  item.prepare = [count] {
    const auto src = std::make_shared<const std::vector<float>>(normal_floats(count));
    return candidates(kernels::minmax_kernels(), [src, count](auto* function) {
      return [src, count, function] {
        parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
          function(src->data() + begin, end - begin);
        });
      };
    });
  };
  // A minimum and a maximum cost as much as one multiply-add each.
  item.bound = [bytes = item.bytes_read](const Peaks& peaks, Isa isa) {
    const double fp32 = peaks.operations(Rate::fp32, isa);
    return fp32 > 0 ? std::max(peaks.moving(bytes, 0), 2 * bytes / 4 / fp32) : 0.0;
  };
  return item;
}

}  // namespace

Family bench_minmax() {
  Family family{"minmax", {}};
  for (const int64_t count : {1000, 16384, 200704, 16777216}) {
    family.cases.push_back(minmax_case(count));
  }
  return family;
}

}  // namespace cpuaccel::bench
