#include "kernels/channel_affine/channel_affine.h"
#include "kernels/float_vectors/bytes_sve256.h"

namespace cpuaccel::kernels {

void channel_affine_arm64_sve256(const ChannelAffine& affine, const uint8_t* src, uint8_t* dst,
                                 int64_t P) {
  const ChannelAffine k = affine;  // a copy: not read again after every store of bytes
  for (int64_t p = 0; p < P; ++p, src += k.C, dst += k.C) {
    each_eight(k.C, [=](int64_t c, SveMask m) {
      const SveFloats centered =
          to_floats(svsub_n_s32_x(svptrue_b32(), load_bytes(src + c, m), k.src_zero_point));
      const svfloat32_t factor = svld1_f32(m, k.factor + c);
      const svfloat32_t value =
          svmad_f32_x(svptrue_b32(), factor, centered, svld1_f32(m, k.offset + c));
      store_bytes(dst + c, to_byte(rounded(value), k.dst_zero_point, k.lowest), m);
    });
  }
}

}  // namespace cpuaccel::kernels
