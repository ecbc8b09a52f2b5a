#include "kernels/edge_softmax/edge_softmax.h"

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/csr/parts.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) \
  CPUACCEL_ROW(KernelRow<EdgeSoftmaxFunction>, name, edge_softmax_##name)
#include "kernels/edge_softmax/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kWork = 1 << 15;  // edges times heads per range

// A call on a matrix with long rows. Each step runs on all parts before the next one.
template <typename Number>
class InParts {
 public:
  InParts(const EdgeSoftmaxCall& call, const RowsInParts& rows, EdgeSoftmaxFunction* function)
      : call_(call),
        rows_(rows),
        function_(function),
        of_parts_(rows.parts().size() * heads()),
        of_rows_(rows.long_rows().size() * heads()) {}

  void run() {
    using enum EdgeSoftmaxStep;
    if (call_.step == softmax) {
      rows_.run(whole(), step_of(most));
      join([](Number a, Number b) { return std::max(a, b); });
      rows_.run_parts(step_of(exps));
      join([](Number a, Number b) { return a + b; });
      for (Number& sum : of_rows_) {
        sum = 1 / (sum + static_cast<Number>(1e-16));
      }
      rows_.run_parts(step_of(scale));
    } else if (call_.step == gradient) {
      rows_.run(whole(), step_of(gradient_sum));
      join([](Number a, Number b) { return a + b; });
      rows_.run_parts(step_of(gradient_apply));
      if (call_.dst_own != nullptr) {
        store();
      }
    } else {
      rows_.run(whole(), step_of(by_source));
      store();
    }
  }

 private:
  size_t heads() const { return static_cast<size_t>(call_.H); }

  RowsBody whole() const {
    return [this](int64_t row, int64_t count) { compute(call_, row, count); };
  }
  void compute(const EdgeSoftmaxCall& call, int64_t row, int64_t count) const {
    std::vector<Number> scratch(2 * heads());
    function_(call, row, count, scratch.data());
  }

  // Step `step` of a part. by_source writes its sums to dst, other steps to dst_own.
  PartBody step_of(EdgeSoftmaxStep step) {
    return [this, step](const RowPart& part) {
      const PartAsRow row(part);
      EdgeSoftmaxCall one = call_;
      one.step = step;
      one.csr = row.of(call_.csr);
      one.own = row_at(call_.own, part.row, call_.H, call_.type);
      one.of_row = of_rows_.data() + static_cast<size_t>(part.long_row) * heads();
      Number* const of_part = of_parts_.data() + static_cast<size_t>(part.number) * heads();
      (step == EdgeSoftmaxStep::by_source ? one.dst : one.dst_own) = of_part;
      compute(one, 0, 1);
    };
  }

  // Joins the numbers of each row's parts, in their order.
  template <typename Join>
  void join(const Join& joined) {
    size_t row = 0;
    for (const auto& long_row : rows_.long_rows()) {
      Number* const to = of_rows_.data() + row++ * heads();
      const Number* from = of_parts_.data() + static_cast<size_t>(long_row.first_part) * heads();
      std::copy_n(from, heads(), to);
      for (int64_t part = 1; part < long_row.parts; ++part) {
        from += heads();
        std::transform(to, to + heads(), from, to, joined);
      }
    }
  }

  // Writes the sums of each row's parts to the row's place.
  void store() {
    join([](Number a, Number b) { return a + b; });
    void* const to = call_.step == EdgeSoftmaxStep::by_source ? call_.dst : call_.dst_own;
    size_t row = 0;
    for (const auto& long_row : rows_.long_rows()) {
      std::copy_n(of_rows_.data() + row++ * heads(), heads(),
                  static_cast<Number*>(to) + long_row.row * call_.H);
    }
  }

  const EdgeSoftmaxCall& call_;
  const RowsInParts& rows_;
  EdgeSoftmaxFunction* const function_;
  std::vector<Number> of_parts_, of_rows_;  // H each
};

}  // namespace

std::span<const KernelRow<EdgeSoftmaxFunction>> edge_softmax_kernels() { return kRows; }

bool edge_softmax(const EdgeSoftmaxCall& call, EdgeSoftmaxFunction* function) {
  const auto rows = RowsInParts::of(call.csr, call.H, kWork);
  if (!rows) {
    return false;
  }
  call.type == DataType::f64 ? InParts<double>(call, *rows, function).run()
                             : InParts<float>(call, *rows, function).run();
  return true;
}

bool edge_softmax(const EdgeSoftmaxCall& call) {
  return edge_softmax(call, first_usable(edge_softmax_kernels()).function);
}

}  // namespace cpuaccel::kernels
