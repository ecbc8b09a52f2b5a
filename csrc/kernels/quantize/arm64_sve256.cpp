#include "kernels/float_vectors/bytes_sve256.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

// rounded() turns a NaN into 0. So svminnm first replaces a NaN with a limit far beyond every
// result.
CPUACCEL_INLINE SveInts quantized(SveFloats real, float inverse_scale, float zero_point) {
  const svfloat32_t value =
      svmad_f32_x(svptrue_b32(), real, svdup_f32(inverse_scale), svdup_f32(zero_point));
  return rounded(svminnm_n_f32_x(svptrue_b32(), value, 1.0e9f));
}

}  // namespace

void quantize_arm64_sve256(const float* src, uint8_t* dst, int64_t count, float inverse_scale,
                           float zero_point, uint8_t offset) {
  each_eight(count, [&](int64_t i, SveMask m) {
    const SveInts steps =
        to_byte(quantized(svld1_f32(m, src + i), inverse_scale, zero_point), offset, 0);
    store_bytes(dst + i, sveor_n_s32_x(svptrue_b32(), steps, offset), m);
  });
}

void quantize_scaled_arm64_sve256(const float* src, const float* factors, uint8_t* dst,
                                  int64_t count, float inverse_scale, float zero_point) {
  each_eight(count, [&](int64_t i, SveMask m) {
    const svfloat32_t real = svmul_f32_x(m, svld1_f32(m, src + i), svld1_f32(m, factors + i));
    store_bytes(dst + i, to_byte(quantized(real, inverse_scale, zero_point), 0, 0), m);
  });
}

}  // namespace cpuaccel::kernels
