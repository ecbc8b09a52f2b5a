#include "kernels/csr/sve256.h"
#include "kernels/sddmm/impl.h"

namespace cpuaccel::kernels {

bool sddmm_arm64_sve256(const SddmmCall& call, int64_t row, int64_t begin, int64_t end) {
  return by_type<SveF32x8, SveF64x4, SveBf16x8, SveF16x8>(call, row, begin, end);
}

}  // namespace cpuaccel::kernels
