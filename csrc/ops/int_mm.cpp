// aten::_int_mm: products of int8 (or uint8) by int8 matrices with int32 results. On Arm, torch has
// only plain loops. On an x86 CPU without VNNI, its oneDNN adds 128 to the source and adds pairs of
// products in 16 bits: results are wrong for nearly all operands. With VNNI torch computes them,
// but only matrices with the strides of a dense one (pytorch #195066).

#include "kernels/qgemm/qgemm.h"

#include <ATen/EmptyTensor.h>

#include "base/isa.h"
#include "ops/kernel_call.h"
#include "ops/overlap.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_compat/cpu_kernels.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

bool is_matrix(const at::Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type && x.layout() == at::kStrided && x.dim() == 2;
}

// torch raises the errors of invalid operands.
const char* fallback_reason(const at::Tensor& self, const at::Tensor& mat2) {
  if (!(is_matrix(self, at::kChar) || is_matrix(self, at::kByte)) || !is_matrix(mat2, at::kChar)) {
    return "operands are not int8 matrices";
  }
  if (self.size(1) != mat2.size(0)) {
    return "sizes do not match";
  }
  return self.numel() == 0 || mat2.numel() == 0 ? reasons::kEmpty : nullptr;
}

const char* out_fallback_reason(const at::Tensor& self, const at::Tensor& mat2,
                                const at::Tensor& out) {
  if (out.scalar_type() != at::kInt || out.layout() != at::kStrided || !out.is_contiguous() ||
      out.sizes() != at::IntArrayRef{self.size(0), mat2.size(1)}) {
    return "out is not a contiguous int32 tensor of the result's shape";
  }
  return nullptr;
}

// Whether torch computes the product: with VNNI oneDNN's results are right.
bool torch_multiplies() {
#if defined(__aarch64__)
  return false;
#else
  return has_vnni();
#endif
}

// Whether the strides are not those of a dense matrix by rows or by columns: a view that reads an
// element twice, or a dimension of one element with any stride, such as the 0 that Inductor writes.
// oneDNN gets the stride as the leading dimension and returns an error if it is too small. torch
// ignores the error, and the result is not written.
bool has_odd_strides(const at::Tensor& x) {
  const at::IntArrayRef sizes = x.sizes();
  if (sizes.size() != 2 || x.layout() != at::kStrided) {
    return false;
  }
  const at::IntArrayRef strides = x.strides();
  const bool by_rows = strides[1] == 1;  // torch looks at this stride first
  return by_rows ? strides[0] < sizes[1] : strides[0] != 1 || strides[1] < sizes[0];
}

// The same elements with row-major strides if their own are odd.
c10::MaybeOwned<at::Tensor> with_plain_strides(const at::Tensor& x) {
  using Maybe = c10::MaybeOwned<at::Tensor>;
  if (!has_odd_strides(x)) {
    return Maybe::borrowed(x);
  }
  return Maybe::owned(x.is_contiguous() ? x.as_strided(x.sizes(), {x.size(1), 1}) : x.contiguous());
}

// mat2 is packed in every call: it is unknown whether it will come again, and reading it to find
// out takes as long as packing.
void multiply(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  CPUACCEL_KERNEL_CALL(int_mm);
  const at::Tensor rows = self.stride(1) == 1 || self.size(1) == 1 ? self : self.contiguous();
  const auto weights = kernels::qgemm_pack({.data = mat2.const_data_ptr<int8_t>(),
                                            .K = mat2.size(0),
                                            .N = mat2.size(1),
                                            .k_stride = mat2.stride(0),
                                            .n_stride = mat2.stride(1)});
  kernels::QgemmCall call;
  call.weights = &weights;
  call.M = rows.size(0);
  const bool is_signed = rows.scalar_type() == at::kChar;
  call.src = {.data = rows.const_data_ptr(),
              .type = is_signed ? kernels::QgemmSrcType::s8 : kernels::QgemmSrcType::u8,
              .row_stride = rows.stride(0)};
  call.dst = {.data = out.data_ptr<int32_t>(), .type = DataType::s32, .row_stride = out.size(1)};
  const char* reason = kernels::qgemm(call);
  TORCH_INTERNAL_ASSERT(reason == nullptr, "qgemm computes all sums modulo 2^32, but: ", reason);
}

template <OpName kName>
at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  if (torch_multiplies()) {
    // A separate path for small products: the one below counts references.
    if (!has_odd_strides(self) && !has_odd_strides(mat2)) {
      return at::cpu::_int_mm(self, mat2);
    }
    return at::cpu::_int_mm(*with_plain_strides(self), *with_plain_strides(mat2));
  }
  const char* reason = fallback_reason(self, mat2);
  if (reason == nullptr) {
    const at::Tensor out = at::detail::empty_cpu({self.size(0), mat2.size(1)}, at::kInt);
    multiply(self, mat2, out);
    return out;
  }
  report_fallback(kName.text, reason);
  return call_torch(kName.text, self, mat2).toTensor();
}

template <OpName kName>
at::Tensor& int_mm_out(const at::Tensor& self_, const at::Tensor& mat2_, at::Tensor& out) {
  if (torch_multiplies() && !has_odd_strides(self_) && !has_odd_strides(mat2_) &&
      !share_storage(self_, out) && !share_storage(mat2_, out)) {
    return at::cpu::_int_mm_outf(self_, mat2_, out);
  }
  // An int8 operand may be a view of the int32 result.
  const auto self_apart = apart_from(self_, out), mat2_apart = apart_from(mat2_, out);
  const at::Tensor &self = *self_apart, &mat2 = *mat2_apart;
  if (torch_multiplies()) {
    at::cpu::_int_mm_outf(*with_plain_strides(self), *with_plain_strides(mat2), out);
    return out;
  }
  const char* reason = fallback_reason(self, mat2);
  reason = reason == nullptr ? out_fallback_reason(self, mat2, out) : reason;
  if (reason == nullptr) {
    multiply(self, mat2, out);
    return out;
  }
  report_fallback(kName.text, reason);
  call_torch(kName.text, self, mat2, out);
  return out;
}

CPUACCEL_OVERRIDES{
    CPUACCEL_OVERRIDE("aten::_int_mm", c10::DispatchKey::CPU, int_mm),
    CPUACCEL_OVERRIDE("aten::_int_mm.out", c10::DispatchKey::CPU, int_mm_out),
};

}  // namespace

}  // namespace cpuaccel::ops
