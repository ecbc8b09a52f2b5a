#include "kernels/byte_vectors/avx2.h"
#include "kernels/gather/copy_row.h"

namespace cpuaccel::kernels {

void copy_row_x86_avx2(std::byte* dst, const std::byte* src, int64_t bytes) {
  copy_row<Bytes32>(dst, src, bytes);
}

}  // namespace cpuaccel::kernels
