#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/impl.h"
#include "kernels/float_vectors/exp_avx512.h"

namespace cpuaccel::kernels {

void elementwise_x86_avx512(const ElementwiseRun& run) { elementwise_run<ExpFloats16>(run); }

}  // namespace cpuaccel::kernels
