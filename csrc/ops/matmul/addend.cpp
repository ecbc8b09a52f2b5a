#include "ops/matmul/addend.h"

#include <ATen/core/Tensor.h>

#include "ops/real_number.h"

namespace cpuaccel::ops {
namespace {

// Whether `self` broadcasts to the result of `call`.
bool broadcasts(const MatmulCall& call, const at::Tensor& self, int64_t dims) {
  const std::array<int64_t, 3> sizes{call.batch, call.M, call.N};
  if (self.dim() > dims) {
    return false;
  }
  for (int64_t i = 1; i <= self.dim(); ++i) {
    const int64_t size = self.size(self.dim() - i);
    if (size != 1 && size != sizes[static_cast<size_t>(3 - i)]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Addend addend_of(const MatmulCall& call, const at::Tensor& self, const at::Scalar& beta,
                 const at::Scalar& alpha) {
  Addend addend;
  const int64_t dims = call.batched ? 3 : 2;
  if (!is_real_number(beta) || !is_real_number(alpha) || self.scalar_type() != call.type ||
      self.layout() != at::kStrided || !self.device().is_cpu() || self.is_neg() ||
      !broadcasts(call, self, dims)) {
    return addend;
  }
  addend.beta = beta.to<float>();
  addend.alpha = alpha.to<float>();
  const bool row = self.dim() >= 1 && self.numel() == call.N && self.size(-1) == call.N &&
                   (self.stride(-1) == 1 || call.N == 1);
  addend.kind = addend.beta == 0.0f                                  ? Addend::Kind::none
                : row && addend.beta == 1.0f && addend.alpha == 1.0f ? Addend::Kind::bias
                                                                     : Addend::Kind::full;
  return addend;
}

void add_to(MatmulCall& call, const Addend& addend, const at::Tensor& self) {
  call.alpha = addend.alpha;
  if (addend.kind == Addend::Kind::bias) {
    call.bias = self.const_data_ptr();
  } else if (addend.kind == Addend::Kind::full) {
    call.beta = addend.beta;
    call.c.data = self.const_data_ptr();
    for (int64_t i = 1; i <= self.dim(); ++i) {
      const int64_t dim = self.dim() - i;
      call.c.strides[static_cast<size_t>(3 - i)] = self.size(dim) == 1 ? 0 : self.stride(dim);
    }
  }
}

}  // namespace cpuaccel::ops
