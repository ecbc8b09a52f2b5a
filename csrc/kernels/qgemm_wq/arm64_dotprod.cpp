#include "kernels/qgemm_wq/dot_rows_neon.h"
#include "kernels/qgemm_wq/sdot.h"

namespace cpuaccel::kernels {

void qgemm_wq_arm64_dotprod(const QgemmWqTile& t) { dot_tiles<Sdot>(t); }

}  // namespace cpuaccel::kernels
