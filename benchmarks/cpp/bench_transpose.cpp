#include <memory>

#include "bench.h"
#include "data.h"
#include "kernels/transpose/transpose.h"

namespace cpuaccel::bench {
namespace {

Case transpose_case(int64_t M, int64_t K) {
  Case item;
  item.shape = std::to_string(M) + "x" + std::to_string(K);
  item.bytes_read = item.bytes_written = static_cast<double>(M * K);
  item.prepare = [M, K] {
    const auto src = std::make_shared<const std::vector<uint8_t>>(uniform_u8(M * K));
    const auto dst = std::make_shared<std::vector<uint8_t>>(src->size());
    return candidates(kernels::transpose_kernels(), [=](auto* function) {
      return [=] {
        kernels::Transpose shape;
        shape.M = M;
        shape.K = K;
        shape.src_stride = K;
        shape.dst_stride = M;
        function(shape, src->data(), dst->data());
      };
    });
  };
  return item;
}

}  // namespace

// Images of 3, 58 and 1024 channels between NCHW and NHWC.
Family bench_transpose() {
  return {"transpose",
          {transpose_case(3, 50176), transpose_case(784, 58), transpose_case(49, 1024)}};
}

}  // namespace cpuaccel::bench
