// index_select, gather and x[index] along dimension 0, by an index with one value for each row:
// copies rows of any type.

#include <ATen/EmptyTensor.h>

#include <optional>
#include <utility>

#include "kernels/gather/gather.h"
#include "ops/gnn/rows.h"
#include "ops/kernel_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

struct Selection {
  Op op;
  const at::Tensor& self;
  int64_t dim;
  const at::Tensor& index;
  RowNumbers numbers;  // row indices; select_fallback_reason() sets them
};

bool fits(const Selection& call) {
  switch (call.op) {
    case Op::gather:
      return call.index.dim() == call.self.dim() && same_rows(call.index, call.self);
    case Op::index_select:
      return call.index.dim() == 1;
    default:
      return call.index.dim() == 1 || (call.index.dim() > 1 && call.index.is_contiguous());
  }
}

// The reason for a fallback to torch, or null.
const char* select_fallback_reason(Selection& call) {
  const auto& [op, self, dim, index, numbers] = call;
  if (!strided_on_cpu(self) || !strided_on_cpu(index)) {
    return reasons::kLayout;
  }
  if (!is_row_dimension(self, dim)) {
    return reasons::kDimension;
  }
  if (!is_index_type(index.scalar_type())) {
    return reasons::kDtype;
  }
  if (!fits(call)) {
    return reasons::kShape;
  }
  if (index.numel() == 0 || self.numel() == 0) {
    return reasons::kEmpty;
  }
  if (!rows_of(self)) {
    return reasons::kStrides;
  }
  auto found = op == Op::index ? std::optional(all_numbers(index)) : row_numbers(index);
  if (!found) {
    return reasons::kIndexPerElement;
  }
  call.numbers = *std::move(found);
  const int64_t N = self.size(0);
  if (numbers.within(op == Op::index ? -N : 0, N)) {
    return nullptr;
  }
  // torch's gather reads int32 as int64: its error would name another index, if it raised one.
  TORCH_CHECK(op != Op::gather || numbers.wide,
              "gather: an index is out of bounds for dimension 0 with size ", N);
  return reasons::kIndexRange;
}

at::DimVector sizes_of(const Selection& call) {
  at::DimVector sizes(call.op == Op::index ? call.index.sizes() : call.index.sizes().slice(0, 1));
  sizes.append(call.self.sizes().begin() + 1, call.self.sizes().end());
  return sizes;
}

void copy_rows(const Selection& call, const at::Tensor& out) {
  const KernelCall kernel_call(call.op);
  const auto rows = rows_of(call.self);
  const auto size = static_cast<int64_t>(call.self.itemsize());
  kernels::GatherCall copy;
  copy.E = call.numbers.count;
  copy.N = call.self.size(0);
  copy.index = call.numbers.data;
  copy.wide = call.numbers.wide;
  copy.wraps = call.op == Op::index;
  copy.row_bytes = rows->columns * size;
  copy.src = call.self.const_data_ptr();
  copy.src_stride = rows->stride * size;
  copy.dst = out.mutable_data_ptr();
  kernels::gather(copy);
}

std::optional<at::Tensor> selected(Selection call) {
  if (const char* reason = select_fallback_reason(call)) {
    report_fallback(op_name(call.op), reason);
    return std::nullopt;
  }
  at::Tensor out = at::detail::empty_cpu(sizes_of(call), call.self.scalar_type());
  copy_rows(call, out);
  return out;
}

bool select_into(Selection call, const at::Tensor& out) {
  const char* reason = select_fallback_reason(call);
  if (reason == nullptr &&
      (!strided_on_cpu(out) || out.scalar_type() != call.self.scalar_type() ||
       out.sizes() != at::IntArrayRef(sizes_of(call)) || !out.is_contiguous())) {
    reason = reasons::kOut;
  } else if (reason == nullptr && (!apart(out, call.self) || !apart(out, call.index))) {
    reason = reasons::kOverlap;
  }
  if (reason != nullptr) {
    report_fallback(op_name(call.op), reason);
    return false;
  }
  copy_rows(call, out);
  return true;
}

template <OpName>
at::Tensor index_select(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  auto out = selected({Op::index_select, self, dim, index, {}});
  return out ? std::move(*out) : at::cpu::index_select(self, dim, index);
}

template <OpName>
at::Tensor& index_select_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                             at::Tensor& out) {
  if (!select_into({Op::index_select, self, dim, index, {}}, out)) {
    at::cpu::index_select_outf(self, dim, index, out);
  }
  return out;
}

template <OpName>
at::Tensor gather(const at::Tensor& self, int64_t dim, const at::Tensor& index, bool sparse_grad) {
  auto out = selected({Op::gather, self, dim, index, {}});
  return out ? std::move(*out) : at::cpu::gather(self, dim, index, sparse_grad);
}

template <OpName>
at::Tensor& gather_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       bool sparse_grad, at::Tensor& out) {
  if (!select_into({Op::gather, self, dim, index, {}}, out)) {
    at::cpu::gather_outf(self, dim, index, sparse_grad, out);
  }
  return out;
}

template <OpName>
at::Tensor index(const at::Tensor& self, const OptionalTensors& indices) {
  if (const auto rows = index_of_rows(self, indices)) {
    if (auto out = selected({Op::index, self, 0, *rows, {}})) {
      return std::move(*out);
    }
  } else {
    report_fallback(op_name(Op::index), reasons::kIndices);
  }
  return at::cpu::index(self, indices);
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::index_select", c10::DispatchKey::CPU, index_select),
    CPUACCEL_OVERRIDE("aten::index_select.out", c10::DispatchKey::CPU, index_select_out),
    CPUACCEL_OVERRIDE("aten::gather", c10::DispatchKey::CPU, gather),
    CPUACCEL_OVERRIDE("aten::gather.out", c10::DispatchKey::CPU, gather_out),
    CPUACCEL_OVERRIDE("aten::index.Tensor", c10::DispatchKey::CPU, index),
};

}  // namespace

}  // namespace cpuaccel::ops
