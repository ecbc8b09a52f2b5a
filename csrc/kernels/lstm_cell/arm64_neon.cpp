#include "kernels/float_vectors/exp_neon.h"
#include "kernels/lstm_cell/impl.h"
#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {

void lstm_cell_arm64_neon(const LstmCell& cell) { lstm_cell_loop<ExpFloats4>(cell); }

}  // namespace cpuaccel::kernels
