#include "kernels/byte_vectors/avx2.h"
#include "kernels/lookup_table/shuffle.h"

namespace cpuaccel::kernels {

void lookup_table_x86_avx2(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  lookup_table_by_shuffles<Bytes32, 4>(src, dst, count, table);
}

}  // namespace cpuaccel::kernels
