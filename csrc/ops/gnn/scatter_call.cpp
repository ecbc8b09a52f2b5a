#include "ops/gnn/scatter_call.h"

#include <ATen/EmptyTensor.h>

#include "ops/data_type.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/rows.h"
#include "ops/kernel_call.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// bf16 and f16 are summed in float and rounded once, as torch does from 16 columns on.
bool is_half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

// The same as scatter_fallback_reason(), but also reads all indices.
const char* fallback_reason(ScatterArguments& arguments) {
  if (const char* reason = scatter_fallback_reason(arguments)) {
    return reason;
  }
  const int64_t N = arguments.self.size(0);
  return arguments.numbers.within(0, N) ? nullptr : reasons::kIndexRange;
}

// The reason why results cannot be written to `out` (which then gets a copy of self), or null.
const char* out_fallback_reason(const ScatterArguments& call, const at::Tensor& out) {
  if (!strided_on_cpu(out) || out.scalar_type() != call.self.scalar_type() ||
      out.sizes() != call.self.sizes()) {
    return reasons::kOut;
  }
  const auto rows = rows_of(out);
  if (!rows || rows->stride < rows->columns) {
    return reasons::kStrides;
  }
  return apart(out, call.index) && apart(out, call.src) ? nullptr : reasons::kOverlap;
}

bool ran(const char* reason, const ScatterArguments& arguments, const at::Tensor& out,
         ScatterBody body) {
  if (reason != nullptr) {
    report_fallback(op_name(arguments.op), reason);
    return false;
  }
  const KernelCall kernel_call(arguments.op);
  const at::Tensor src = with_rows(arguments.src);
  const bool half = is_half(out.scalar_type());
  const at::Tensor dst = half ? out.to(at::kFloat).contiguous() : out;
  const auto src_rows = rows_of(src);
  const auto rows = rows_of(dst);
  kernels::ScatterCall call;
  call.E = arguments.numbers.count;
  call.N = out.size(0);
  call.K = rows->columns;
  call.index = arguments.numbers.data;
  call.wide = arguments.numbers.wide;
  call.type = data_type(out.scalar_type());
  call.src = src.const_data_ptr();
  call.src_stride = src_rows->stride;
  call.dst = dst.mutable_data_ptr();
  call.dst_stride = rows->stride;
  body(call);
  if (half) {
    out.copy_(dst);
  }
  return true;
}

}  // namespace

const char* scatter_fallback_reason(ScatterArguments& arguments) {
  const auto& [op, self, dim, index, src, numbers] = arguments;
  const bool scatters = arguments.scatters();
  if (!strided_on_cpu(self) || !strided_on_cpu(index) || !strided_on_cpu(src)) {
    return reasons::kLayout;
  }
  if (!is_row_dimension(self, dim)) {
    return reasons::kDimension;
  }
  const auto type = self.scalar_type();
  if ((type != at::kFloat && type != at::kDouble && !is_half(type)) || src.scalar_type() != type ||
      !is_index_type(index.scalar_type())) {
    return reasons::kDtype;
  }
  if (src.dim() != self.dim() || !same_rows(src, self) ||
      index.dim() != (scatters ? self.dim() : 1) || (scatters && !same_rows(index, self)) ||
      (scatters ? index.size(0) > src.size(0) : index.size(0) != src.size(0))) {
    return reasons::kShape;
  }
  if (index.numel() == 0 || self.numel() == 0) {
    return reasons::kEmpty;
  }
  auto found = row_numbers(index);
  if (!found) {
    return reasons::kIndexPerElement;
  }
  arguments.numbers = *std::move(found);
  return nullptr;
}

bool scattered_in_place(ScatterArguments arguments, ScatterBody body) {
  const char* reason = fallback_reason(arguments);
  return ran(reason != nullptr ? reason : out_fallback_reason(arguments, arguments.self), arguments,
             arguments.self, body);
}

bool scattered_into(ScatterArguments arguments, const at::Tensor& out, ScatterBody body) {
  const char* reason = fallback_reason(arguments);
  reason = reason != nullptr ? reason : out_fallback_reason(arguments, out);
  if (reason == nullptr && !out.is_same(arguments.self)) {
    if (!apart(out, arguments.self)) {
      reason = reasons::kOverlap;
    } else {
      out.copy_(arguments.self);
    }
  }
  return ran(reason, arguments, out, body);
}

bool scattered_into_new(ScatterArguments arguments, at::Tensor& out, ScatterBody body) {
  const char* reason = fallback_reason(arguments);
  if (reason == nullptr) {
    out = at::detail::empty_cpu(arguments.self.sizes(), arguments.self.scalar_type());
    out.copy_(arguments.self);
  }
  return ran(reason, arguments, out, body);
}

}  // namespace cpuaccel::ops
