// scatter_add and index_add along dimension 0, by an index with one value for each row: layers of
// graph networks aggregate messages with them, and they are the gradients of gather and
// index_select.

#include "kernels/scatter/scatter.h"
#include "ops/gnn/scatter_call.h"
#include "ops/override.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr auto kAdd = [](const kernels::ScatterCall& call) { kernels::scatter(call); };

template <OpName>
at::Tensor scatter_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       const at::Tensor& src) {
  at::Tensor out;
  return scattered_into_new({Op::scatter_add, self, dim, index, src, {}}, out, kAdd)
             ? out
             : at::cpu::scatter_add(self, dim, index, src);
}

template <OpName>
at::Tensor& scatter_add_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                                 const at::Tensor& src) {
  if (!scattered_in_place({Op::scatter_add, self, dim, index, src, {}}, kAdd)) {
    at::cpu::scatter_add_(self, dim, index, src);
  }
  return self;
}

template <OpName>
at::Tensor& scatter_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                            const at::Tensor& src, at::Tensor& out) {
  if (!scattered_into({Op::scatter_add, self, dim, index, src, {}}, out, kAdd)) {
    at::cpu::scatter_add_outf(self, dim, index, src, out);
  }
  return out;
}

// Null for alpha = 1; cpuaccel's kernels take no other factor.
const char* factor(const at::Scalar& alpha) {
  return !alpha.isSymbolic() && alpha.equal(1) ? nullptr : "alpha is not 1";
}

template <OpName>
at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const at::Tensor& source, const at::Scalar& alpha) {
  at::Tensor out;
  if (const char* reason = factor(alpha)) {
    report_fallback(op_name(Op::index_add), reason);
  } else if (scattered_into_new({Op::index_add, self, dim, index, source, {}}, out, kAdd)) {
    return out;
  }
  return at::cpu::index_add(self, dim, index, source, alpha);
}

template <OpName>
at::Tensor& index_add_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                               const at::Tensor& source, const at::Scalar& alpha) {
  if (const char* reason = factor(alpha)) {
    report_fallback(op_name(Op::index_add), reason);
  } else if (scattered_in_place({Op::index_add, self, dim, index, source, {}}, kAdd)) {
    return self;
  }
  at::cpu::index_add_(self, dim, index, source, alpha);
  return self;
}

template <OpName>
at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Tensor& source, const at::Scalar& alpha, at::Tensor& out) {
  if (const char* reason = factor(alpha)) {
    report_fallback(op_name(Op::index_add), reason);
  } else if (scattered_into({Op::index_add, self, dim, index, source, {}}, out, kAdd)) {
    return out;
  }
  at::cpu::index_add_outf(self, dim, index, source, alpha, out);
  return out;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::scatter_add", c10::DispatchKey::CPU, scatter_add),
    CPUACCEL_OVERRIDE("aten::scatter_add_", c10::DispatchKey::CPU, scatter_add_in_place),
    CPUACCEL_OVERRIDE("aten::scatter_add.out", c10::DispatchKey::CPU, scatter_add_out),
    CPUACCEL_OVERRIDE("aten::index_add", c10::DispatchKey::CPU, index_add),
    CPUACCEL_OVERRIDE("aten::index_add_", c10::DispatchKey::CPU, index_add_in_place),
    CPUACCEL_OVERRIDE("aten::index_add.out", c10::DispatchKey::CPU, index_add_out),
};

}  // namespace

}  // namespace cpuaccel::ops
