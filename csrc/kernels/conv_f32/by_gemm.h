// f32 convolution by family gemm, where packing the weights does not pay: few output pixels with
// large weights, and images that already are the matrix (1x1 convolutions).
#pragma once

#include "kernels/conv_f32/conv_f32.h"

namespace cpuaccel::kernels {

bool conv_suits_gemm(const Conv2dShape& shape, ImageLayout layout);

// For shapes that conv_suits_gemm() accepts.
void conv_by_gemm(const ConvF32Call& call, GemmFunction* row);

}  // namespace cpuaccel::kernels
