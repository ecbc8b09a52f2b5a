// scatter_reduce and index_reduce along dimension 0, by an index with one value for each row.

#include <string_view>

#include "kernels/scatter/reduce.h"
#include "ops/gnn/reduction.h"
#include "ops/gnn/scatter_call.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

// index_reduce has no sum.
std::optional<Reduction> reduction_for(Op op, std::string_view reduce) {
  const auto reduction = reduction_of(reduce);
  if (!reduction || (op == Op::index_reduce && reduce == "sum")) {
    report_fallback(op_name(op), reasons::kReduction);
    return std::nullopt;
  }
  return reduction;
}

struct Body {
  Reduction reduction;
  bool include_self;

  void operator()(kernels::ScatterCall call) const {
    call.op = reduction.op;
    kernels::scatter_reduce(call, reduction.mean, include_self);
  }
};

template <OpName>
at::Tensor scatter_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Tensor& src, std::string_view reduce, bool include_self) {
  at::Tensor out;
  const auto reduction = reduction_for(Op::scatter_reduce, reduce);
  return reduction && scattered_into_new({Op::scatter_reduce, self, dim, index, src, {}}, out,
                                         Body{*reduction, include_self})
             ? out
             : at::cpu::scatter_reduce(self, dim, index, src, reduce, include_self);
}

template <OpName>
at::Tensor& scatter_reduce_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                                    const at::Tensor& src, std::string_view reduce,
                                    bool include_self) {
  const auto reduction = reduction_for(Op::scatter_reduce, reduce);
  if (!reduction || !scattered_in_place({Op::scatter_reduce, self, dim, index, src, {}},
                                        Body{*reduction, include_self})) {
    at::cpu::scatter_reduce_(self, dim, index, src, reduce, include_self);
  }
  return self;
}

template <OpName>
at::Tensor& scatter_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                               const at::Tensor& src, std::string_view reduce, bool include_self,
                               at::Tensor& out) {
  const auto reduction = reduction_for(Op::scatter_reduce, reduce);
  if (!reduction || !scattered_into({Op::scatter_reduce, self, dim, index, src, {}}, out,
                                    Body{*reduction, include_self})) {
    at::cpu::scatter_reduce_outf(self, dim, index, src, reduce, include_self, out);
  }
  return out;
}

template <OpName>
at::Tensor index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                        const at::Tensor& source, std::string_view reduce, bool include_self) {
  at::Tensor out;
  const auto reduction = reduction_for(Op::index_reduce, reduce);
  return reduction && scattered_into_new({Op::index_reduce, self, dim, index, source, {}}, out,
                                         Body{*reduction, include_self})
             ? out
             : at::cpu::index_reduce(self, dim, index, source, reduce, include_self);
}

template <OpName>
at::Tensor& index_reduce_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                                  const at::Tensor& source, std::string_view reduce,
                                  bool include_self) {
  const auto reduction = reduction_for(Op::index_reduce, reduce);
  if (!reduction || !scattered_in_place({Op::index_reduce, self, dim, index, source, {}},
                                        Body{*reduction, include_self})) {
    at::cpu::index_reduce_(self, dim, index, source, reduce, include_self);
  }
  return self;
}

template <OpName>
at::Tensor& index_reduce_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                             const at::Tensor& source, std::string_view reduce, bool include_self,
                             at::Tensor& out) {
  const auto reduction = reduction_for(Op::index_reduce, reduce);
  if (!reduction || !scattered_into({Op::index_reduce, self, dim, index, source, {}}, out,
                                    Body{*reduction, include_self})) {
    at::cpu::index_reduce_outf(self, dim, index, source, reduce, include_self, out);
  }
  return out;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::scatter_reduce.two", c10::DispatchKey::CPU, scatter_reduce),
    CPUACCEL_OVERRIDE("aten::scatter_reduce_.two", c10::DispatchKey::CPU, scatter_reduce_in_place),
    CPUACCEL_OVERRIDE("aten::scatter_reduce.two_out", c10::DispatchKey::CPU, scatter_reduce_out),
    CPUACCEL_OVERRIDE("aten::index_reduce", c10::DispatchKey::CPU, index_reduce),
    CPUACCEL_OVERRIDE("aten::index_reduce_", c10::DispatchKey::CPU, index_reduce_in_place),
    CPUACCEL_OVERRIDE("aten::index_reduce.out", c10::DispatchKey::CPU, index_reduce_out),
};

}  // namespace

}  // namespace cpuaccel::ops
