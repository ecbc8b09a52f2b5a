// Products of one or a few rows of floats by codes of 4 bits, by the products of integers of family
// qgemm_wq: a row becomes three rows of bytes (three_bytes.h), which the codes need not become
// floats for.
//
// Error: 3 (2 groups + 7) * 2^-24 of the sum over k of |src * scale| * (|code| + |zero|); and 2^-23
// of max |src[m]| times the sum over k of |scale| * (|code| + |zero|); and the rounding of dst.
#pragma once

#include "kernels/gemm_wq/gemm_wq.h"

namespace cpuaccel::kernels {

// False, with nothing written, if a row holds a NaN or an infinity, or is so small that its step is
// no normal number.
bool byte_rows(const GemmWqCall& call, const QgemmWqKernels& kernels);

}  // namespace cpuaccel::kernels
