#include "kernels/byte_vectors/avx512.h"
#include "kernels/gather/copy_row.h"

namespace cpuaccel::kernels {

void copy_row_x86_avx512(std::byte* dst, const std::byte* src, int64_t bytes) {
  copy_row<Bytes64>(dst, src, bytes);
}

}  // namespace cpuaccel::kernels
