#include "kernels/gemm_wq/codes_avx2.h"
#include "kernels/gemm_wq/tile_x86.h"

namespace cpuaccel::kernels {

// Instructions for 64 codes: one row by floats 27, by bytes 17; two rows 36 and 29, but the bytes'
// products run on two of four ports.
const GemmWqKernels& gemm_wq_x86_avx2() { return kGemmWq<Codes8, 1, qgemm_wq_x86_avx2>; }

}  // namespace cpuaccel::kernels
