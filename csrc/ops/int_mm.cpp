// aten::_int_mm: int8 matrix products with int32 results. On Arm, torch has only plain loops. On an
// x86 CPU without VNNI, its oneDNN adds 128 to the source and adds pairs of products in 16 bits:
// results are wrong for nearly all operands. With VNNI torch computes them, but a dimension of one
// element must not have a stride of 0 (pytorch #195066).

#include "kernels/qgemm/qgemm.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_int_mm_cpu_dispatch.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/isa.h"
#include "kernels/qconv/qconv.h"
#include "ops/kernel_call.h"
#include "ops/overlap.h"
#include "ops/override.h"
#include "ops/reasons.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

bool is_matrix(const at::Tensor& x) {
  return x.scalar_type() == at::kChar && x.layout() == at::kStrided && x.dim() == 2;
}

// torch raises the errors of invalid operands.
const char* fallback_reason(const at::Tensor& self, const at::Tensor& mat2) {
  if (!is_matrix(self) || !is_matrix(mat2)) {
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

bool has_qgemm() { return kernels::qgemm_kernels().size() > 1; }

// Whether torch computes the product: with VNNI oneDNN's results are right.
bool torch_multiplies() { return !has_qgemm() && has_vnni(); }

// Whether a dimension of one element has a stride that no dense matrix has, such as the 0 that
// Inductor writes. oneDNN uses that stride, and its result is wrong or not written.
bool has_odd_stride(const at::Tensor& x) {
  const at::IntArrayRef sizes = x.sizes();
  if (sizes.size() != 2 || (sizes[0] != 1 && sizes[1] != 1) || x.layout() != at::kStrided) {
    return false;
  }
  const at::IntArrayRef strides = x.strides();
  const bool by_rows = strides[0] == sizes[1] && strides[1] == 1;
  const bool by_columns = strides[0] == 1 && strides[1] == sizes[0];
  return !by_rows && !by_columns;
}

// The same elements with row-major strides if they have an odd stride.
c10::MaybeOwned<at::Tensor> with_plain_strides(const at::Tensor& x) {
  using Maybe = c10::MaybeOwned<at::Tensor>;
  if (!has_odd_stride(x)) {
    return Maybe::borrowed(x);
  }
  return Maybe::owned(x.is_contiguous() ? x.as_strided(x.sizes(), {x.size(1), 1}) : x.contiguous());
}

// The number of terms whose sum a float represents exactly: 1024 * 128 * 128 = 2^24.
constexpr int64_t kTermsInFloat = 1024;

// out += columns [first, first + K) of self times these rows of mat2, by family qconv, which
// returns exact sums as floats. It takes u8, so sources and their zero point are 128 more.
void add_product(const at::Tensor& self, const at::Tensor& mat2, int64_t first, int64_t K,
                 const at::Tensor& out) {
  const int64_t M = self.size(0), N = mat2.size(1);
  const at::Tensor columns = mat2.narrow(0, first, K).t().contiguous();
  const auto weights = kernels::qconv_pack({.IC = K, .OC = N}, columns.const_data_ptr<int8_t>());
  const at::Tensor rows = self.narrow(1, first, K).contiguous();
  std::vector<uint8_t> src(static_cast<size_t>(M * K));
  std::ranges::transform(std::span(rows.const_data_ptr<int8_t>(), src.size()), src.begin(),
                         [](int8_t value) { return static_cast<uint8_t>(value + 128); });
  const std::vector<float> ones(static_cast<size_t>(N), 1.0f), zeros(static_cast<size_t>(N));
  std::vector<float> sums(static_cast<size_t>(M * N));
  kernels::QconvCall call;
  call.weights = &weights;
  call.N = M;
  call.src = src.data();
  call.src_zero_point = 128;
  call.dst.data = sums.data();
  call.dst.type = DataType::f32;
  call.dst.scales = ones.data();
  call.dst.bias = zeros.data();
  kernels::qconv(call);
  auto* to = out.data_ptr<int32_t>();
  std::ranges::transform(sums, std::span(to, sums.size()), to, [](float sum, int32_t before) {
    return static_cast<int32_t>(static_cast<uint32_t>(before) +
                                static_cast<uint32_t>(static_cast<int32_t>(sum)));
  });
}

// mat2 is packed in every call: it is unknown whether it will come again, and reading it to find
// out takes as long as packing.
void multiply(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  CPUACCEL_KERNEL_CALL(int_mm);
  if (!has_qgemm()) {
    out.zero_();
    for (int64_t first = 0; first < self.size(1); first += kTermsInFloat) {
      add_product(self, mat2, first, std::min(kTermsInFloat, self.size(1) - first), out);
    }
    return;
  }
  const at::Tensor rows = self.stride(1) == 1 || self.size(1) == 1 ? self : self.contiguous();
  const auto weights = kernels::qgemm_pack({.data = mat2.const_data_ptr<int8_t>(),
                                            .K = mat2.size(0),
                                            .N = mat2.size(1),
                                            .k_stride = mat2.stride(0),
                                            .n_stride = mat2.stride(1)});
  kernels::QgemmCall call;
  call.weights = &weights;
  call.M = rows.size(0);
  call.src = {.data = rows.const_data_ptr<int8_t>(),
              .type = kernels::QgemmSrcType::s8,
              .row_stride = rows.stride(0)};
  call.dst = {.data = out.data_ptr<int32_t>(), .type = DataType::s32, .row_stride = out.size(1)};
  const char* reason = kernels::qgemm(call);
  TORCH_INTERNAL_ASSERT(reason == nullptr, "qgemm computes all sums modulo 2^32, but: ", reason);
}

template <OpName kName>
at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  if (torch_multiplies()) {
    // A separate path for small products: the one below counts references.
    if (!has_odd_stride(self) && !has_odd_stride(mat2)) {
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
  if (torch_multiplies() && !has_odd_stride(self_) && !has_odd_stride(mat2_) &&
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
