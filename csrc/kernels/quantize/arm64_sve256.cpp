#include "kernels/float_vectors/bytes_sve256.h"
#include "kernels/quantize/quantize.h"

namespace cpuaccel::kernels {
namespace {

// rounded() turns a NaN into 0. So svminnm first replaces a NaN with the limit. The sum with
// `after` wraps around, that with `offset` saturates.
CPUACCEL_INLINE SveInts quantized(SveFloats real, const QuantizeBy& by) {
  const svfloat32_t value =
      svmad_f32_x(svptrue_b32(), real, svdup_f32(by.inverse_scale), svdup_f32(by.before));
  const SveInts steps = rounded(svminnm_n_f32_x(svptrue_b32(), value, kQuantizeLimit));
  return to_byte(SveInts(svadd_n_s32_x(svptrue_b32(), steps, by.after)), by.offset, 0);
}

}  // namespace

void quantize_arm64_sve256(const float* src, uint8_t* dst, int64_t count, const QuantizeBy& by) {
  each_eight(count, [&](int64_t i, SveMask m) {
    const SveInts steps = quantized(svld1_f32(m, src + i), by);
    store_bytes(dst + i, sveor_n_s32_x(svptrue_b32(), steps, by.offset), m);
  });
}

void quantize_scaled_arm64_sve256(const float* src, const float* factors, uint8_t* dst,
                                  int64_t count, const QuantizeBy& by) {
  each_eight(count, [&](int64_t i, SveMask m) {
    const svfloat32_t real = svmul_f32_x(m, svld1_f32(m, src + i), svld1_f32(m, factors + i));
    store_bytes(dst + i, quantized(real, by), m);
  });
}

}  // namespace cpuaccel::kernels
