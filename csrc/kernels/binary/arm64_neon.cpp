#include "kernels/binary/vectors.h"
#include "kernels/byte_vectors/neon.h"

namespace cpuaccel::kernels {

void add_arm64_neon(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Bytes16, Sum>(a, b, dst, count, q);
}

void mul_arm64_neon(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                    const BinaryQuantizers& q) {
  binary_by_vectors<Bytes16, Product>(a, b, dst, count, q);
}

}  // namespace cpuaccel::kernels
