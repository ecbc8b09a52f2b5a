#include "kernels/float_vectors/exp_avx512.h"
#include "kernels/lstm_cell/impl.h"
#include "kernels/lstm_cell/lstm_cell.h"

namespace cpuaccel::kernels {

void lstm_cell_x86_avx512(const LstmCell& cell) { lstm_cell_loop<ExpFloats16>(cell); }

}  // namespace cpuaccel::kernels
