// Convolution by gemm, where packing the weights does not pay: for few output pixels of large
// weights, and for images that are the matrix as they are.
#pragma once

#include "kernels/conv_f32/conv_f32.h"

namespace cpuaccel::kernels {

bool conv_suits_gemm(const Conv2dShape& shape, ImageLayout layout);

// A shape that suits.
void conv_by_gemm(const ConvF32Call& call, GemmFunction* row);

}  // namespace cpuaccel::kernels
