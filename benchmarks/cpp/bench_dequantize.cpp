#include "elementwise.h"
#include "kernels/dequantize/dequantize.h"

namespace cpuaccel::bench {

Family bench_dequantize() {
  Family family{"dequantize", {}};
  for (const int64_t count : kElementCounts) {
    family.cases.push_back(elementwise_case<float>(
        "", count, 1, kernels::dequantize_kernels(),
        [](auto* function, auto& data, int64_t begin, int64_t end) {
          function(&data.a[begin], &data.dst[begin], end - begin, 0.05f, 128, 0);
        }));
  }
  return family;
}

}  // namespace cpuaccel::bench
