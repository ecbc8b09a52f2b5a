#include <arm_neon.h>

#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {

// A lookup has 64 entries in four registers. For an index beyond, it gives 0 (TBL) or keeps the
// result of the lookups before (TBX).
void lookup_table_arm64_neon(const uint8_t* src, uint8_t* dst, int64_t count,
                             const uint8_t* table) {
  constexpr int64_t kBytes = 16;
  // Separate variables: elements of an array would be reloaded for each lookup.
  const uint8x16x4_t part0 = vld1q_u8_x4(table), part1 = vld1q_u8_x4(table + 64);
  const uint8x16x4_t part2 = vld1q_u8_x4(table + 128), part3 = vld1q_u8_x4(table + 192);
  int64_t i = 0;
  for (; i + kBytes <= count; i += kBytes) {
    const uint8x16_t index = vld1q_u8(src + i);
    uint8x16_t found = vqtbl4q_u8(part0, index);
    found = vqtbx4q_u8(found, part1, vsubq_u8(index, vdupq_n_u8(64)));
    found = vqtbx4q_u8(found, part2, vsubq_u8(index, vdupq_n_u8(128)));
    found = vqtbx4q_u8(found, part3, vsubq_u8(index, vdupq_n_u8(192)));
    vst1q_u8(dst + i, found);
  }
  lookup_table_ref(src + i, dst + i, count - i, table);
}

}  // namespace cpuaccel::kernels
