#include <memory>

#include "base/parallel.h"
#include "bench.h"
#include "data.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::bench {
namespace {

constexpr int64_t kGrain = 16384;

Case quantize_case(int64_t count) {
  Case item;
  item.shape = std::to_string(count) + " floats";
  item.bytes_read = 4.0 * static_cast<double>(count);
  item.bytes_written = static_cast<double>(count);
  item.prepare = [count] {
    const auto src = std::make_shared<const std::vector<float>>(normal_floats(count));
    const auto dst = std::make_shared<std::vector<uint8_t>>(src->size());
    return candidates(kernels::quantize_kernels(), [=](auto* function) {
      return [=] {
        parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
          function(src->data() + begin, dst->data() + begin, end - begin, {33.0f, 0.0f, 57, 0});
        });
      };
    });
  };
  return item;
}

}  // namespace

Family bench_quantize() {
  Family family{"quantize", {}};
  for (const int64_t count : {1000, 4096, 150528, 16777216}) {
    family.cases.push_back(quantize_case(count));
  }
  return family;
}

}  // namespace cpuaccel::bench
