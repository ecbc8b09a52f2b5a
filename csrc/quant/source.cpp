#include "quant/source.h"

#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

#include "kernels/minmax/minmax.h"

namespace cpuaccel::quant {

SourceQuantizer dynamic_quantizer(const at::Tensor& contiguous_src, bool reduce_range) {
  kernels::MinMax range{0.0f, 0.0f};
  if (contiguous_src.numel() > 0) {
    range = kernels::minmax(contiguous_src.const_data_ptr<float>(), contiguous_src.numel());
  }
  const auto q = quant_utils::ChooseQuantizationParams(range.min, range.max, 0, 255, false, false,
                                                       reduce_range);
  return {q.scale, q.zero_point};
}

int64_t slices_below_int32(const char* op, int64_t src_per_slice, int64_t dst_per_slice) {
  const int64_t most = std::max<int64_t>({src_per_slice, dst_per_slice, 1});
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(most <= kLimit, op,
              ": expected fewer than 2^31 elements for one image or row, but "
              "got ",
              most);
  return kLimit / most;
}

}  // namespace cpuaccel::quant
