// The `self`, `beta` and `alpha` of addmm and baddbmm.
#pragma once

#include <ATen/core/Tensor.h>

#include "ops/matmul/call.h"

namespace cpuaccel::ops {

// What is added to a product, and how.
struct Addend {
  enum class Kind {
    none,        // beta is 0: self is not read
    bias,        // one value a column, added by the kernel
    full,        // any other form
    unsupported  // fallback to torch: another type, or sizes that do not broadcast
  };
  Kind kind = Kind::unsupported;
  float beta = 0.0f;
  float alpha = 1.0f;
};

Addend addend_of(const MatmulCall& call, const at::Tensor& self, const at::Scalar& beta,
                 const at::Scalar& alpha);

// Sets bias or c, alpha and beta of `call`.
void add_to(MatmulCall& call, const Addend& addend, const at::Tensor& self);

}  // namespace cpuaccel::ops
