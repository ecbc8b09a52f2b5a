#include "elementwise.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::bench {

Family bench_lookup_table() {
  Family family{"lookup_table", {}};
  for (const int64_t count : kElementCounts) {
    family.cases.push_back(elementwise_case<uint8_t>(
        "", count, 1, kernels::lookup_table_kernels(),
        [](auto* function, auto& data, int64_t begin, int64_t end) {
          function(&data.a[begin], &data.dst[begin], end - begin, data.b.data());
        }));
  }
  return family;
}

}  // namespace cpuaccel::bench
