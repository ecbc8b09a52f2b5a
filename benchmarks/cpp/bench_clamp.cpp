#include "elementwise.h"
#include "kernels/clamp/clamp.h"

namespace cpuaccel::bench {

Family bench_clamp() {
  Family family{"clamp", {}};
  for (const int64_t count : kElementCounts) {
    family.cases.push_back(elementwise_case<uint8_t>(
        "", count, 1, kernels::clamp_kernels(),
        [](auto* function, auto& data, int64_t begin, int64_t end) {
          function(&data.a[begin], &data.dst[begin], end - begin, {10, 200});
        }));
  }
  return family;
}

}  // namespace cpuaccel::bench
