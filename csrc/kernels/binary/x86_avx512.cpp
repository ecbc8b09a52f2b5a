#include "kernels/binary/vectors.h"
#include "kernels/byte_vectors/avx512.h"

namespace cpuaccel::kernels {

void add_x86_avx512(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Bytes64, Sum>(a, b, dst, count, q);
}

void mul_x86_avx512(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Bytes64, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
