#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/impl.h"
#include "kernels/float_vectors/exp_sve256.h"

namespace cpuaccel::kernels {

void elementwise_arm64_sve256(const ElementwiseRun& run) { elementwise_run<SveExpFloats8>(run); }

}  // namespace cpuaccel::kernels
