#include <memory>

#include "base/parallel.h"
#include "bench.h"
#include "data.h"
#include "kernels/maxpool/maxpool.h"

namespace cpuaccel::bench {
namespace {

Case maxpool_case(int64_t size, int64_t C, int64_t kernel, int64_t stride) {
  kernels::MaxpoolShape shape;
  shape.N = 1;
  shape.H = shape.W = size;
  shape.C = C;
  shape.KH = shape.KW = kernel;
  shape.SH = shape.SW = stride;
  shape.OH = shape.OW = (size - kernel) / stride + 1;
  Case item;
  item.shape = std::to_string(size) + "x" + std::to_string(size) + "x" + std::to_string(C) + " k" +
               std::to_string(kernel) + " s" + std::to_string(stride);
  item.bytes_read = static_cast<double>(size * size * C);
  item.bytes_written = static_cast<double>(shape.OH * shape.OW * C);
  item.prepare = [shape] {
    const auto src =
        std::make_shared<const std::vector<uint8_t>>(uniform_u8(shape.H * shape.W * shape.C));
    const auto dst = std::make_shared<std::vector<uint8_t>>(src->size());
    return candidates(kernels::maxpool_kernels(), [=](auto* function) {
      return [=] {
        parallel_for(0, shape.OH, 8, [&](int64_t begin, int64_t end) {
          std::vector<uint8_t> scratch(static_cast<size_t>(shape.W * shape.C));
          for (int64_t oh = begin; oh < end; ++oh) {
            function(shape, src->data(), oh, dst->data() + oh * shape.OW * shape.C, scratch.data());
          }
        });
      };
    });
  };
  return item;
}

}  // namespace

// Layers of resnet, squeezenet and googlenet.
Family bench_maxpool() {
  return {"maxpool",
          {maxpool_case(112, 64, 3, 2), maxpool_case(54, 128, 3, 2), maxpool_case(28, 192, 3, 1)}};
}

}  // namespace cpuaccel::bench
