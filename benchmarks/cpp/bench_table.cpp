#include "elementwise.h"
#include "kernels/table/table.h"

namespace cpuaccel::bench {

Family bench_table() {
  Family family{"table", {}};
  for (const int64_t count : kElementCounts) {
    family.cases.push_back(elementwise_case<uint8_t>(
        "", count, 1, kernels::table_kernels(),
        [](auto* function, auto& data, int64_t begin, int64_t end) {
          function(&data.a[begin], &data.dst[begin], end - begin, data.b.data());
        }));
  }
  return family;
}

}  // namespace cpuaccel::bench
