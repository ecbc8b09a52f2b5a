#include "quant/kernel.h"

namespace cpuaccel::quant {

const char* run_with_byte_post_ops(Kernel& kernel, const LayerShape& shape, const QuantCall& call) {
  if (call.byte_post_ops == nullptr || kernel.fuses_byte_post_ops(call)) {
    return kernel.run(call);
  }
  QuantCall plain = call;
  plain.byte_post_ops = nullptr;
  const char* why = kernel.run(plain);
  if (why == nullptr) {
    apply_byte_post_ops(*call.byte_post_ops, static_cast<uint8_t*>(call.dst),
                        dst_count(shape, call));
  }
  return why;
}

}  // namespace cpuaccel::quant
