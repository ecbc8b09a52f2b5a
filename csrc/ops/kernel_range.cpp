// Ranges of torch's profiler around the kernels of int8 layers.

#include "quant/kernel_range.h"

#include <ATen/record_function.h>

namespace cpuaccel::ops {
namespace {

void in_range(const char* name, const std::function<void()>& run) {
  RECORD_FUNCTION(name, c10::ArrayRef<const c10::IValue>{});
  run();
}

[[maybe_unused]] const bool kRangeIsSet = [] {
  quant::set_kernel_range(in_range);
  return true;
}();

}  // namespace
}  // namespace cpuaccel::ops
