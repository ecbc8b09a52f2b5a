#include "kernels/gemm_wq/codes_avx2.h"
#include "kernels/gemm_wq/tile_x86.h"

namespace cpuaccel::kernels {

// Instructions for four rows by 256 codes, a group of 32 k of 8 columns: by floats 212, by bytes
// 192; with eight rows more by bytes.
const GemmWqKernels& gemm_wq_x86_avxvnni() { return kGemmWq<Codes8, 4, qgemm_wq_x86_avxvnni>; }

}  // namespace cpuaccel::kernels
