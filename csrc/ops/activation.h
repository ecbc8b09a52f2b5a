// Activations after a float linear layer: by name, by torch and in gemm.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "base/activation.h"
#include "kernels/gemm/types.h"

namespace cpuaccel::ops {

// none for "". Throws, in the name of `op`, if there is no such activation.
Activation find_activation(const char* op, std::string_view name);

// activation(x) by torch's op; x itself for none.
at::Tensor activate(Activation activation, const at::Tensor& x);
void activate_(Activation activation, at::Tensor& x);  // in place

// The activation as gemm applies it to its output.
kernels::GemmAfter gemm_after(Activation activation);

}  // namespace cpuaccel::ops
