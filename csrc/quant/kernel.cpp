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
    const int64_t count =
        call.N * shape.OC * call.dst_dims[0] * call.dst_dims[1] * call.dst_dims[2];
    apply_epilogue(*call.epilogue, static_cast<uint8_t*>(call.dst), count);
  }
  return why;
}

}  // namespace cpuaccel::quant
