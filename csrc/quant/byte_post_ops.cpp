#include "quant/byte_post_ops.h"

#include <algorithm>

#include "kernels/clamp/clamp.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::quant {

void BytePostOps::set_table(const uint8_t* entries) {
  table = entries;
  low = entries[0];
  high = entries[kernels::kTableEntries - 1];
  unsigned different = low > high ? 1 : 0;
  for (int i = 0; i < kernels::kTableEntries; ++i) {  // no early exit, so that it vectorizes
    const int limited = std::min<int>(std::max<int>(i, low), high);
    different |= static_cast<unsigned>(entries[i] ^ limited);
  }
  clamps = different == 0;
}

void apply_byte_post_ops(const BytePostOps& byte_post_ops, uint8_t* dst, int64_t count) {
  if (byte_post_ops.table != nullptr) {
    if (byte_post_ops.clamps) {
      kernels::clamp_u8(dst, dst, count, byte_post_ops.low, byte_post_ops.high);
    } else {
      kernels::lookup_table_u8(dst, dst, count, byte_post_ops.table);
    }
  }
  if (byte_post_ops.binary) {
    kernels::binary_u8(*byte_post_ops.binary, dst, byte_post_ops.other, dst, count,
                       byte_post_ops.quantizers);
  }
}

}  // namespace cpuaccel::quant
