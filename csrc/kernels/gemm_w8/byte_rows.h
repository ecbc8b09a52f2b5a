// Products of one or two rows of floats by int8 weights, by the products of integers of family
// qgemm: a row becomes three rows of bytes (three_bytes.h), and the weights need not become floats.
//
// Error: 2^-23 of max |src[m]| times the sum over k of |weight|, 4 * 2^-24 of the sum, and the
// rounding of dst.
#pragma once

#include "kernels/gemm_w8/gemm_w8.h"

namespace cpuaccel::kernels {

// False, with nothing written, if there are more rows, qgemm's row does not multiply bytes exactly
// in few instructions, or a row of src is none of three bytes.
bool gemm_w8_by_bytes(const GemmW8Call& call, const GemmW8Kernels& kernels);

}  // namespace cpuaccel::kernels
