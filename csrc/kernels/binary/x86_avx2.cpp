#include "kernels/binary/vectors.h"
#include "kernels/byte_vectors/avx2.h"

namespace cpuaccel::kernels {

void add_x86_avx2(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                  const BinaryQuantizers& q) {
  binary_by_vectors<Bytes32, Sum>(a, b, dst, count, q);
}

void mul_x86_avx2(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                  const BinaryQuantizers& q) {
  binary_by_vectors<Bytes32, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
