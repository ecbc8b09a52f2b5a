#include "kernels/spmm_amax_grad/spmm_amax_grad.h"

#include <array>

#include "kernels/csr/parts.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<SpmmAmaxGradFunction>, name, spmm_amax_grad_##name)
#include "kernels/spmm_amax_grad/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 18;  // entries times columns per range

class AmaxGrad {
 public:
  AmaxGrad(const SpmmAmaxGradCall& call, SpmmAmaxGradFunction* function)
      : call_(call), function_(function) {}

  void run() const {
    const auto rows = RowsInParts::of(call_.csr, call_.K, kWork);
    if (!rows) {
      return;
    }
    shares(*rows);
    if (call_.grad_values != nullptr) {
      rows->run(whole(SpmmAmaxGradStep::values), [&](const RowPart& part) {
        const PartAsRow row(part);
        SpmmAmaxGradCall one = of_row(part, row);
        one.share = at(call_.share, part.row);
        function_(one, SpmmAmaxGradStep::values, 0, 1);
      });
    }
    if (call_.grad_src != nullptr) {
      sources();
    }
  }

 private:
  template <typename T>
  T* at(T* matrix, int64_t row) const {
    return row_at(matrix, row, call_.K, call_.type);
  }
  RowsBody whole(SpmmAmaxGradStep step) const {
    return [this, step](int64_t row, int64_t count) { function_(call_, step, row, count); };
  }
  SpmmAmaxGradCall of_row(const RowPart& part, const PartAsRow& row) const {
    SpmmAmaxGradCall one = call_;
    one.csr = row.of(call_.csr);
    one.dst = at(call_.dst, part.row);
    return one;
  }

  void shares(const RowsInParts& rows) const {
    const PartSums counts(rows, call_.K, call_.type);
    rows.run(whole(SpmmAmaxGradStep::share), [&](const RowPart& part) {
      const PartAsRow row(part);
      SpmmAmaxGradCall one = of_row(part, row);
      one.share = counts.of(part);
      function_(one, SpmmAmaxGradStep::counts, 0, 1);
    });
    counts.add_up(call_.share);
    for (const auto& row : rows.long_rows()) {
      call_.type == DataType::f64 ? divide<double>(row.row) : divide<float>(row.row);
    }
  }

  // share = grad / (share + (dst == 0))
  template <typename Number>
  void divide(int64_t row) const {
    auto* share = static_cast<Number*>(at(call_.share, row));
    const auto* dst = static_cast<const Number*>(at(call_.dst, row));
    const auto* grad = static_cast<const Number*>(at(call_.grad, row));
    for (int64_t k = 0; k < call_.K; ++k) {
      share[k] = grad[k] / (share[k] + (dst[k] == 0 ? 1 : 0));
    }
  }

  void sources() const {
    const auto& columns = call_.columns;
    const Csr csr{call_.csr.N, call_.csr.M, call_.csr.nnz, columns.ccol, columns.row, columns.wide};
    const auto rows = RowsInParts::of(csr, call_.K, kWork);
    if (!rows) {
      return;
    }
    const PartSums sums(*rows, call_.K, call_.type);
    rows->run(whole(SpmmAmaxGradStep::src), [&](const RowPart& part) {
      const PartAsRow row(part);
      SpmmAmaxGradCall one = call_;
      one.columns.ccol = const_cast<void*>(row.crow(columns.wide));  // is only read
      one.src = at(call_.src, part.row);
      one.grad_src = sums.of(part);
      function_(one, SpmmAmaxGradStep::src, 0, 1);
    });
    sums.add_up(call_.grad_src);
  }

  const SpmmAmaxGradCall& call_;
  SpmmAmaxGradFunction* const function_;
};

}  // namespace

std::span<const KernelRow<SpmmAmaxGradFunction>> spmm_amax_grad_kernels() { return kRows; }

void spmm_amax_grad(const SpmmAmaxGradCall& call, SpmmAmaxGradFunction* function) {
  AmaxGrad(call, function).run();
}

void spmm_amax_grad(const SpmmAmaxGradCall& call) {
  spmm_amax_grad(call, first_usable(spmm_amax_grad_kernels()).function);
}

}  // namespace cpuaccel::kernels
