#include "kernels/float_vectors/exp_neon.h"
#include "kernels/quantize_by_row/impl.h"

namespace cpuaccel::kernels {
namespace {

struct Rows4 : ExpFloats4 {
  static constexpr int kByteVectors = 4;

  CPUACCEL_INLINE static void store_bytes(int8_t* dst, const Vector (&v)[kByteVectors],
                                          int32_t zero_point) {
    const int16x8_t added = vdupq_n_s16(static_cast<int16_t>(zero_point));
    const int16x8_t words = vaddq_s16(as_words(v[0], v[1]), added);
    const int16x8_t more = vaddq_s16(as_words(v[2], v[3]), added);
    vst1q_s8(dst, vcombine_s8(vmovn_s16(words), vmovn_s16(more)));
  }

 private:
  CPUACCEL_INLINE static int16x8_t as_words(Vector a, Vector b) {
    return vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a)), vmovn_s32(vcvtnq_s32_f32(b)));
  }
};

}  // namespace

const QuantizeByRowKernels& quantize_by_row_arm64_neon() { return kQuantizeByRow<Rows4>; }

}  // namespace cpuaccel::kernels
