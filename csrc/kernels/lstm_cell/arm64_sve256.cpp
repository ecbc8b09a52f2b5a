#include "kernels/float_vectors/exp_sve256.h"
#include "kernels/lstm_cell/impl.h"
#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {

void lstm_cell_arm64_sve256(const LstmCell& cell) { lstm_cell_loop<SveExpFloats8>(cell); }

}  // namespace cpuaccel::kernels
