// aten::_index_put_impl_ with accumulate and one index along dimension 0: the gradient of x[index].

#include <ATen/core/List.h>

#include <optional>

#include "kernels/scatter/scatter.h"
#include "ops/gnn/rows.h"
#include "ops/gnn/scatter_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// Null, with `index` set, or the reason for a fallback.
const char* index_put_fallback_reason(const at::Tensor& self, const OptionalTensors& indices,
                                      const at::Tensor& values, bool accumulate,
                                      std::optional<at::Tensor>& index) {
  if (!accumulate) {
    return "accumulate=False";
  }
  index = index_of_rows(self, indices);
  if (!index) {
    return reasons::kIndices;
  }
  // Values of other sizes would be broadcast, and boolean masks are indices too.
  if (!strided_on_cpu(*index) || !is_index_type(index->scalar_type()) || index->dim() == 0 ||
      values.dim() != index->dim() + self.dim() - 1 ||
      values.sizes().slice(0, static_cast<size_t>(index->dim())) != index->sizes()) {
    return reasons::kShape;
  }
  return nullptr;
}

bool put(at::Tensor& self, const OptionalTensors& indices, const at::Tensor& values,
         bool accumulate) {
  std::optional<at::Tensor> index;
  if (const char* reason = index_put_fallback_reason(self, indices, values, accumulate, index)) {
    report_fallback(op_name(Op::index_put), reason);
    return false;
  }
  const int64_t N = self.size(0);
  at::Tensor numbers = index->contiguous().flatten();
  if (N > 0 && !numbers_within(numbers, 0, N) && numbers_within(numbers, -N, N)) {
    numbers = numbers.remainder(N);
  }
  const at::Tensor src = values.flatten(0, index->dim() - 1);
  return scattered_in_place({Op::index_put, self, 0, numbers, src, {}},
                            [](const kernels::ScatterCall& call) { kernels::scatter(call); });
}

template <OpName>
at::Tensor& index_put(at::Tensor& self, const OptionalTensors& indices, const at::Tensor& values,
                      bool accumulate, bool unsafe) {
  if (!put(self, indices, values, accumulate)) {
    at::cpu::_index_put_impl_(self, indices, values, accumulate, unsafe);
  }
  return self;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_index_put_impl_", c10::DispatchKey::CPU, index_put),
};

}  // namespace

}  // namespace cpuaccel::ops
