#include "kernels/dequantize/dequantize.h"
#include "kernels/float_vectors/bytes_sve256.h"

namespace cpuaccel::kernels {

void dequantize_arm64_sve256(const uint8_t* src, float* dst, int64_t count, float scale,
                             int32_t zero_point, uint8_t flipped_bits) {
  each_eight(count, [&](int64_t i, SveMask m) {
    const svint32_t bytes = sveor_n_s32_x(svptrue_b32(), load_bytes(src + i, m), flipped_bits);
    const SveFloats steps = to_floats(svsub_n_s32_x(svptrue_b32(), bytes, zero_point));
    svst1_f32(m, dst + i, svmul_n_f32_x(svptrue_b32(), steps, scale));
  });
}

}  // namespace cpuaccel::kernels
