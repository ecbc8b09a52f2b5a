#include "quant/kernel.h"

namespace cpuaccel::quant {

const char* run_with_epilogue(Kernel& kernel, const LayerShape& shape, const QuantCall& call) {
  if (call.epilogue == nullptr || kernel.fuses_epilogue(call)) {
    return kernel.run(call);
  }
  QuantCall plain = call;
  plain.epilogue = nullptr;
  const char* why = kernel.run(plain);
  if (why == nullptr) {
    apply_epilogue(*call.epilogue, static_cast<uint8_t*>(call.dst), dst_count(shape, call));
  }
  return why;
}

}  // namespace cpuaccel::quant
