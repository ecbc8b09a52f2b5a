#include "quant/epilogue.h"

#include <algorithm>

#include "kernels/clamp/clamp.h"
#include "kernels/table/table.h"

namespace cpuaccel::quant {

void Epilogue::set_table(const uint8_t* entries) {
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

void apply_epilogue(const Epilogue& epilogue, uint8_t* dst, int64_t count) {
  if (epilogue.table != nullptr) {
    if (epilogue.clamps) {
      kernels::clamp_u8(dst, dst, count, epilogue.low, epilogue.high);
    } else {
      kernels::table_u8(dst, dst, count, epilogue.table);
    }
  }
  if (epilogue.binary != Binary::none) {
    const auto op =
        epilogue.binary == Binary::add ? kernels::BinaryOp::add : kernels::BinaryOp::mul;
    kernels::binary_u8(op, dst, epilogue.other, dst, count, epilogue.quantizers);
  }
}

}  // namespace cpuaccel::quant
