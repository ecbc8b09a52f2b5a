#include "kernels/lstm_cell/lstm_cell.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<LstmCellFunction>, name, lstm_cell_##name)
#include "kernels/lstm_cell/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 4096;  // elements

}  // namespace

std::span<const KernelRow<LstmCellFunction>> lstm_cell_kernels() { return kRows; }

void lstm_cells(const LstmCell& first, int64_t batch, const LstmCellStrides& strides) {
  const auto function = first_usable(lstm_cell_kernels()).function;
  const int64_t grain = first.size < kGrain ? kGrain / (first.size + 1) + 1 : 1;
  parallel_for(0, batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      function({first.size, first.gates + b * strides.gates, first.c + b * strides.c,
                first.h + b * strides.h});
    }
  });
}

}  // namespace cpuaccel::kernels
