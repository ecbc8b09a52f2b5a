#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {

void lookup_table_ref(const uint8_t* src, uint8_t* dst, int64_t count, const uint8_t* table) {
  for (int64_t i = 0; i < count; ++i) {
    dst[i] = table[src[i]];
  }
}

}  // namespace cpuaccel::kernels
