#include "kernels/avgpool/window.h"
#include "kernels/byte_vectors/avx512.h"

namespace cpuaccel::kernels {
namespace {

struct Masked64 : Bytes64 {
  Mask m = ~Mask{0};
  CPUACCEL_INLINE Vector load(const uint8_t* src) const { return Bytes64::load(src, m); }
  CPUACCEL_INLINE void store(uint8_t* dst, Vector a) const { Bytes64::store(dst, a, m); }
};

}  // namespace

void avgpool_x86_avx512(const AvgpoolWindow& window, const uint8_t* src, uint8_t* dst,
                        int64_t channels) {
  const Average<Masked64> average{window};
  int64_t c = 0;
  for (; c + 4 * Bytes64::kBytes <= channels; c += 4 * Bytes64::kBytes) {
    average.run<4>(Masked64(), src + c, dst + c);
  }
  for (; c < channels; c += Bytes64::kBytes) {
    const int64_t left = channels - c;
    const Masked64 some{{}, left >= Bytes64::kBytes ? ~Bytes64::Mask{0} : Bytes64::mask(left)};
    average.run<1>(some, src + c, dst + c);
  }
}

}  // namespace cpuaccel::kernels
