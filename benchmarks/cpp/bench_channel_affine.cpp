#include <memory>

#include "bench.h"
#include "data.h"
#include "kernels/channel_affine/channel_affine.h"

namespace cpuaccel::bench {
namespace {

struct Data {
  Data(int64_t P, int64_t C)
      : src(uniform_u8(P * C)), dst(src.size()), factor(normal_floats(C)), offset(factor) {}
  std::vector<uint8_t> src, dst;
  std::vector<float> factor, offset;
};

Case channel_affine_case(int64_t P, int64_t C) {
  Case item;
  item.shape = std::to_string(P) + " pixels of " + std::to_string(C);
  item.bytes_read = item.bytes_written = static_cast<double>(P * C);
  item.prepare = [=] {
    const auto data = std::make_shared<Data>(P, C);
    return candidates(kernels::channel_affine_kernels(), [=](auto* function) {
      return [=] {
        const kernels::ChannelAffine affine{C, data->factor.data(), data->offset.data(), 7, 9, 0};
        function(affine, data->src.data(), data->dst.data(), P);
      };
    });
  };
  return item;
}

}  // namespace

Family bench_channel_affine() {
  return {"channel_affine", {channel_affine_case(3136, 64), channel_affine_case(49, 1024)}};
}

}  // namespace cpuaccel::bench
