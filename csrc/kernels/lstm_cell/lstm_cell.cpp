#include "kernels/lstm_cell/lstm_cell.h"

#include <array>

#include "base/parallel.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<LstmCellFunction>{#name, isa, lstm_cell_##name},
constexpr std::array kRows{CPUACCEL_LSTM_CELL_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

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
