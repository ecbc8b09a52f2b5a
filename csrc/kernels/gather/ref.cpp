#include <cstring>

#include "kernels/gather/gather.h"

namespace cpuaccel::kernels {

void copy_row_ref(std::byte* dst, const std::byte* src, int64_t bytes) {
  std::memcpy(dst, src, static_cast<size_t>(bytes));
}

}  // namespace cpuaccel::kernels
