#include "kernels/gemm_wq/gemm_wq.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/isa.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_wq/byte_rows.h"
#include "kernels/gemm_wq/few_rows.h"
#include "kernels/round_up.h"

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

  // A whole panel at a time: reading the lines of some of its columns only takes as long or longer.
  static void write(const void* context, const PanelBlock& block) {
    const auto& self = *static_cast<const Unpacked*>(context);
    const int64_t end = round_up(block.nc, block.nr);
    for (int64_t n = 0; n < end;) {
      const int64_t column = (block.n0 + n) % kWqColumns, panel = (block.n0 + n) / kWqColumns;
      const int64_t columns = std::min(end - n, kWqColumns - column);
      if (panel < self.weights.panels()) {
        self.kernels.unpack({.panel = self.weights.panel(panel),
                             .format = &self.weights.format(),
                             .layout = &self.weights.layout(),
                             .k0 = block.k0,
                             .depth = block.kc,
                             .column = column,
                             .columns = columns,
                             .n = n,
                             .nr = block.nr,
                             .panels = block.panels});
      } else {
        clear(block, n, columns);
      }
      n += columns;
    }
  }

  // Columns behind the last panel of the weights.
  static void clear(const PanelBlock& block, int64_t n, int64_t columns) {
    for (int64_t j = n; j < n + columns; ++j) {
      float* to = block.panels + j / block.nr * block.kc * block.nr + j % block.nr;
      for (int64_t k = 0; k < block.kc; ++k) {
        to[k * block.nr] = 0.0f;
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
  multiply.dst = {.data = call.dst.data, .type = call.dst.type, .row_stride = call.dst.stride};
  multiply.after = call.dst.function;
  multiply.pack_b = {Unpacked::write, Unpacked::source, &unpacked, true};
  multiply.beta = 0.0f;
  if (call.bias != nullptr) {
    multiply.bias = {.data = call.bias, .type = DataType::f32, .axis = GemmBiasAxis::n};
  }
  if (call.src_type == DataType::bf16 && has_bf16_arithmetic()) {
    gemm_bf16(multiply);
  } else {
    gemm(multiply);
  }
  apply_operands(call.dst, multiply.M, multiply.N);
}

}  // namespace

std::span<const KernelRow<GemmWqFunction>> gemm_wq_kernels() { return kRows; }

void gemm_wq(const GemmWqCall& call, GemmWqFunction* row) {
  if (call.M == 0 || call.weights->N() == 0) {
    return;
  }
  const GemmWqKernels& kernels = row();
  const bool bytes = call.weights->format().bits == 4 && call.M <= kernels.byte_rows;
  if (bytes && byte_rows(call, kernels.by_bytes())) {
    return;
  }
  (call.M <= kFewRows ? few_rows : many_rows)(call, kernels);
}

void gemm_wq(const GemmWqCall& call) { gemm_wq(call, first_usable(gemm_wq_kernels()).function); }

}  // namespace cpuaccel::kernels
