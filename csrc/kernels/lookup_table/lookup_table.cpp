#include "kernels/lookup_table/lookup_table.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<LookupTableFunction>, name, lookup_table_##name)
#include "kernels/lookup_table/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 65536;  // bytes; a few microseconds, the cost of waking a thread

}  // namespace

std::span<const KernelRow<LookupTableFunction>> lookup_table_kernels() { return kRows; }

void lookup_table_u8(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  const auto function = first_usable(lookup_table_kernels()).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, table);
  });
}

}  // namespace cpuaccel::kernels
