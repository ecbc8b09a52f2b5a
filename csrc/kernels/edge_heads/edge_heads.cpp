#include "kernels/edge_heads/edge_heads.h"

#include <array>
#include <optional>

#include "kernels/csr/parts.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<EdgeHeadsFunction>, name, edge_heads_##name)
#include "kernels/edge_heads/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;  // edges times columns per range

bool sums_edges(EdgeHeadsStep step) {
  using enum EdgeHeadsStep;
  return step == sum || step == sum_dot || step == score_grad;
}

}  // namespace

std::span<const KernelRow<EdgeHeadsFunction>> edge_heads_kernels() { return kRows; }

void edge_heads(const EdgeHeadsCall& call, EdgeHeadsFunction* function) {
  const int64_t K = call.H * call.C;
  const auto rows = RowsInParts::of(call.csr, K, kWork);
  if (!rows) {
    return;
  }
  std::optional<PartSums> sums, of_att;
  if (sums_edges(call.step)) {
    sums.emplace(*rows, K, call.type);
    if (call.step == EdgeHeadsStep::score_grad && call.dst_att != nullptr) {
      of_att.emplace(*rows, K, call.type);
    }
  }
  rows->run([&](int64_t row, int64_t count) { function(call, row, count); },
            [&](const RowPart& part) {
              const PartAsRow row(part);
              EdgeHeadsCall one = call;
              one.csr = row.of(call.csr);
              one.own = row_at(call.own, part.row, K, call.type);
              one.dst = sums ? sums->of(part) : call.dst;
              one.dst_att = of_att ? of_att->of(part) : nullptr;
              function(one, 0, 1);
            });
  if (sums) {
    sums->add_up(call.dst);
  }
  if (of_att) {
    of_att->add_up(call.dst_att);
  }
}

void edge_heads(const EdgeHeadsCall& call) {
  edge_heads(call, first_usable(edge_heads_kernels()).function);
}

}  // namespace cpuaccel::kernels
