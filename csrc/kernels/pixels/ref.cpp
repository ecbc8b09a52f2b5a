#include "kernels/pixels/impl.h"

namespace cpuaccel::kernels {

void pixels_ref(const PixelsCall& call) { pixels_one_by_one(call, 0); }

}  // namespace cpuaccel::kernels
