#include <memory>

#include "bench.h"
#include "data.h"
#include "kernels/avgpool/avgpool.h"

namespace cpuaccel::bench {
namespace {

// The average of a whole image, as before a classifier or in squeeze-and-excite.
Case avgpool_case(int64_t size, int64_t C) {
  Case item;
  item.shape = std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(C);
  item.bytes_read = static_cast<double>(size * size * C);
  item.bytes_written = static_cast<double>(C);
  item.prepare = [size, C] {
    const auto src = std::make_shared<const std::vector<uint8_t>>(uniform_u8(size * size * C));
    const auto dst = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(C));
    return candidates(kernels::avgpool_kernels(), [=](auto* function) {
      return [=] {
        kernels::AvgpoolWindow window(size, size, size * size, 3,
                                      kernels::AvgpoolHalves::even_byte);
        window.row_stride = size * C;
        window.column_stride = C;
        function(window, src->data(), dst->data(), C);
      };
    });
  };
  return item;
}

}  // namespace

Family bench_avgpool() {
  return {"avgpool", {avgpool_case(7, 1280), avgpool_case(56, 96), avgpool_case(14, 480)}};
}

}  // namespace cpuaccel::bench
