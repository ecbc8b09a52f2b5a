#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/impl.h"
#include "kernels/float_vectors/exp_avx2.h"

namespace cpuaccel::kernels {

void elementwise_x86_avx2(const ElementwiseRun& run) { elementwise_run<ExpFloats8>(run); }

}  // namespace cpuaccel::kernels
