// scatter_add and index_add along dimension 0, of an index with one number for each row, which is
// what layers of graph networks reduce messages with, and what the gradients of gather and
// index_select are.

#include <ATen/EmptyTensor.h>
#include <ATen/ops/index_add_cpu_dispatch.h>
#include <ATen/ops/scatter_add_cpu_dispatch.h>

#include <array>

#include "kernels/scatter/scatter.h"
#include "ops/gnn/csr.h"
#include "ops/gnn/rows.h"
#include "ops/lists.h"
#include "ops/override.h"
#include "ops/own_call.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

struct Call {
  Op op;
  const at::Tensor& self;
  int64_t dim;
  const at::Tensor& index;
  const at::Tensor& src;
  at::Tensor numbers;  // of the index, dense
};

// What a call is left to torch for, to judge or to compute; null if it is not.
const char* refusal(Call& call) {
  const auto& [op, self, dim, index, src, numbers] = call;
  const bool scatters = op == Op::scatter_add;
  if (!strided_on_cpu(self) || !strided_on_cpu(index) || !strided_on_cpu(src)) {
    return "layout";
  }
  if (!is_row_dimension(self, dim)) {
    return "dimension";
  }
  const auto type = self.scalar_type();
  if ((type != at::kFloat && type != at::kDouble) || src.scalar_type() != type ||
      !is_index_type(index.scalar_type())) {
    return "type";
  }
  if (src.dim() != self.dim() || !same_rows(src, self) ||
      index.dim() != (scatters ? self.dim() : 1) || (scatters && !same_rows(index, self)) ||
      (scatters ? index.size(0) > src.size(0) : index.size(0) != src.size(0))) {
    return "shape";
  }
  if (index.numel() == 0 || self.numel() == 0) {
    return "empty";
  }
  call.numbers = row_numbers(index);
  if (!call.numbers.defined()) {
    return "an index for each number";
  }
  return numbers_within(call.numbers, 0, self.size(0)) ? nullptr : "index out of range";
}

// Whether sums can be written to `out`, which has the call's self in it then.
const char* result_refusal(const Call& call, const at::Tensor& out) {
  if (!strided_on_cpu(out) || out.scalar_type() != call.self.scalar_type() ||
      out.sizes() != call.self.sizes()) {
    return "result";
  }
  const auto rows = rows_of(out);
  if (!rows || rows->stride < rows->columns) {
    return "strides";
  }
  return apart(out, call.index) && apart(out, call.src) ? nullptr : "overlap";
}

void add(const Call& call, const at::Tensor& out) {
  auto src_rows = rows_of(call.src);
  at::Tensor src = call.src;
  if (!src_rows) {
    src = src.contiguous();
    src_rows = rows_of(src);
  }
  const auto rows = rows_of(out);
  kernels::ScatterCall add;
  add.E = call.numbers.numel();
  add.N = out.size(0);
  add.K = rows->columns;
  add.index = call.numbers.const_data_ptr();
  add.wide = call.numbers.scalar_type() == at::kLong;
  add.type = graph_type(out.scalar_type());
  add.src = src.const_data_ptr();
  add.src_stride = src_rows->stride;
  add.dst = out.mutable_data_ptr();
  add.dst_stride = rows->stride;
  kernels::scatter(add);
}

// Each of these is false where torch has to do it.
bool ran(const char* why, const Call& call, const at::Tensor& out) {
  if (why != nullptr) {
    count_refusal(op_name(call.op), why);
    return false;
  }
  const OwnCall own_call(call.op);
  add(call, out);
  return true;
}

bool ran_in_place(Call call) {
  const char* why = refusal(call);
  return ran(why != nullptr ? why : result_refusal(call, call.self), call, call.self);
}

bool ran_into(Call call, const at::Tensor& out) {
  const char* why = refusal(call);
  why = why != nullptr ? why : result_refusal(call, out);
  if (why == nullptr && !out.is_same(call.self)) {
    if (!apart(out, call.self)) {
      why = "overlap";
    } else {
      out.copy_(call.self);
    }
  }
  return ran(why, call, out);
}

bool ran_into_new(Call call, at::Tensor& out) {
  const char* why = refusal(call);
  if (why == nullptr) {
    out = at::detail::empty_cpu(call.self.sizes(), call.self.scalar_type());
    out.copy_(call.self);
  }
  return ran(why, call, out);
}

template <OpName>
at::Tensor scatter_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                       const at::Tensor& src) {
  at::Tensor out;
  return ran_into_new({Op::scatter_add, self, dim, index, src, {}}, out)
             ? out
             : at::cpu::scatter_add(self, dim, index, src);
}

template <OpName>
at::Tensor& scatter_add_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                                 const at::Tensor& src) {
  if (!ran_in_place({Op::scatter_add, self, dim, index, src, {}})) {
    at::cpu::scatter_add_(self, dim, index, src);
  }
  return self;
}

template <OpName>
at::Tensor& scatter_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                            const at::Tensor& src, at::Tensor& out) {
  if (!ran_into({Op::scatter_add, self, dim, index, src, {}}, out)) {
    at::cpu::scatter_add_outf(self, dim, index, src, out);
  }
  return out;
}

// Null but for a factor, which we do not take.
const char* factor(const at::Scalar& alpha) {
  return !alpha.isSymbolic() && alpha.equal(1) ? nullptr : "alpha";
}

template <OpName>
at::Tensor index_add(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                     const at::Tensor& source, const at::Scalar& alpha) {
  at::Tensor out;
  if (const char* why = factor(alpha)) {
    count_refusal(op_name(Op::index_add), why);
  } else if (ran_into_new({Op::index_add, self, dim, index, source, {}}, out)) {
    return out;
  }
  return at::cpu::index_add(self, dim, index, source, alpha);
}

template <OpName>
at::Tensor& index_add_in_place(at::Tensor& self, int64_t dim, const at::Tensor& index,
                               const at::Tensor& source, const at::Scalar& alpha) {
  if (const char* why = factor(alpha)) {
    count_refusal(op_name(Op::index_add), why);
  } else if (ran_in_place({Op::index_add, self, dim, index, source, {}})) {
    return self;
  }
  at::cpu::index_add_(self, dim, index, source, alpha);
  return self;
}

template <OpName>
at::Tensor& index_add_out(const at::Tensor& self, int64_t dim, const at::Tensor& index,
                          const at::Tensor& source, const at::Scalar& alpha, at::Tensor& out) {
  if (const char* why = factor(alpha)) {
    count_refusal(op_name(Op::index_add), why);
  } else if (ran_into({Op::index_add, self, dim, index, source, {}}, out)) {
    return out;
  }
  at::cpu::index_add_outf(self, dim, index, source, alpha, out);
  return out;
}

constexpr auto kKey = c10::DispatchKey::CPU;

constexpr std::array kOverrides{
    CPUACCEL_OVERRIDE("aten::scatter_add", kKey, scatter_add),
    CPUACCEL_OVERRIDE("aten::scatter_add_", kKey, scatter_add_in_place),
    CPUACCEL_OVERRIDE("aten::scatter_add.out", kKey, scatter_add_out),
    CPUACCEL_OVERRIDE("aten::index_add", kKey, index_add),
    CPUACCEL_OVERRIDE("aten::index_add_", kKey, index_add_in_place),
    CPUACCEL_OVERRIDE("aten::index_add.out", kKey, index_add_out),
};

}  // namespace

std::span<const Override> scatter_add_overrides() { return kOverrides; }

}  // namespace cpuaccel::ops
