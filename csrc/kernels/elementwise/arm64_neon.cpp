#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/impl.h"
#include "kernels/float_vectors/exp_neon.h"

namespace cpuaccel::kernels {

void elementwise_arm64_neon(const ElementwiseRun& run) { elementwise_run<ExpFloats4>(run); }

}  // namespace cpuaccel::kernels
