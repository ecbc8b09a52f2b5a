#include "kernels/gemm_wq/codes_avx512.h"
#include "kernels/gemm_wq/tile_x86.h"

namespace cpuaccel::kernels {

// Instructions for four rows by a group of 32 k of 16 columns: by floats 212, by bytes 192.
const GemmWqKernels& gemm_wq_x86_avx512vnni() {
  return kGemmWq<Codes16, 4, qgemm_wq_x86_avx512vnni>;
}

}  // namespace cpuaccel::kernels
