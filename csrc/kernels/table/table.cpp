#include "kernels/table/table.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<TableFunction>, name, table_##name)
#include "kernels/table/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 65536;  // bytes; a few microseconds, the cost of waking a thread

}  // namespace

std::span<const KernelRow<TableFunction>> table_kernels() { return kRows; }

void table_u8(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  const auto function = first_usable(table_kernels()).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(src + begin, dst + begin, end - begin, table);
  });
}

}  // namespace cpuaccel::kernels
