#include "kernels/gemm_wq/gemm_wq.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm_wq/few_rows.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<GemmWqFunction>, name, gemm_wq_##name)
#include "kernels/gemm_wq/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Packs the right matrix of gemm from the weights: a panel becomes floats where it is used.
struct Unpacked {
  const WqWeights& weights;
  const GemmWqKernels& kernels;

  // Column n and the following ones, up to the next panel of the weights. Returns their number.
  int64_t write_columns(const PanelBlock& block, int64_t n, int64_t most, float* dst) const {
    const int64_t column = n % kWqColumns, columns = std::min(most, kWqColumns - column);
    const int64_t panel = n / kWqColumns;
    if (panel < weights.panels()) {
      kernels.unpack({.panel = weights.panel(panel),
                      .format = &weights.format(),
                      .layout = &weights.layout(),
                      .k0 = block.k0,
                      .depth = block.kc,
                      .column = column,
                      .columns = columns,
                      .nr = block.nr,
                      .dst = dst});
    } else {
      for (int64_t k = 0; k < block.kc; ++k) {
        std::fill_n(dst + k * block.nr, columns, 0.0f);
      }
    }
    return columns;
  }

  static void write(const void* context, const PanelBlock& block) {
    const auto& self = *static_cast<const Unpacked*>(context);
    for (int64_t n = 0; n < block.nc; n += block.nr) {
      float* panel = block.panels + n * block.kc;
      for (int64_t done = 0; done < block.nr;) {
        done += self.write_columns(block, block.n0 + n + done, block.nr - done, panel + done);
      }
    }
  }

  static GemmPrefetch source(const void* context, const PanelBlock& block) {
    const auto& self = *static_cast<const Unpacked*>(context);
    const WqLayout& layout = self.weights.layout();
    const int64_t group = self.weights.format().group;
    const std::byte* from = self.weights.panel(block.n0 / kWqColumns);
    const int64_t per_group = layout.group_bytes();
    const auto* data = reinterpret_cast<const char*>(from + block.k0 * per_group / group);
    return {.data = data, .rows = 1, .bytes = block.kc * per_group / group, .stride = 0};
  }
};

void many_rows(const GemmWqCall& call, const GemmWqKernels& kernels) {
  const Unpacked unpacked{*call.weights, kernels};
  GemmCall multiply;
  multiply.M = call.M;
  multiply.N = call.weights->N();
  multiply.K = call.weights->K();
  multiply.a = {.data = call.src, .type = call.src_type, .row_stride = call.src_stride};
  multiply.dst = {.data = call.dst, .type = call.dst_type, .row_stride = call.dst_stride};
  multiply.pack_b = {Unpacked::write, Unpacked::source, &unpacked};
  multiply.beta = 0.0f;
  if (call.bias != nullptr) {
    multiply.bias = {.data = call.bias, .type = DataType::f32, .axis = GemmBiasAxis::n};
  }
  gemm(multiply);
}

}  // namespace

std::span<const KernelRow<GemmWqFunction>> gemm_wq_kernels() { return kRows; }

void gemm_wq(const GemmWqCall& call, GemmWqFunction* row) {
  if (call.M == 0 || call.weights->N() == 0) {
    return;
  }
  (call.M <= kFewRows ? few_rows : many_rows)(call, row());
}

void gemm_wq(const GemmWqCall& call) { gemm_wq(call, first_usable(gemm_wq_kernels()).function); }

}  // namespace cpuaccel::kernels
