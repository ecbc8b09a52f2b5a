#include "kernels/binary/binary.h"
#include "kernels/float_vectors/bytes_sve256.h"

namespace cpuaccel::kernels {
namespace {

// Constants are copies: values read through a reference are loaded again after every store of
// bytes.
struct Requantized {
  int32_t zero_point, low;

  explicit Requantized(const BinaryQuantizers& q)
      : zero_point(q.zero_point), low(q.relu ? q.zero_point : 0) {}
  CPUACCEL_INLINE SveInts operator()(SveFloats value) const {
    return to_byte(rounded(value), zero_point, low);
  }
};

}  // namespace

void add_arm64_sve256(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                      const BinaryQuantizers& q) {
  using V = SveFloats8;
  const auto scale_a = V::set1(q.scale_a), scale_b = V::set1(q.scale_b);
  const auto offset_a = V::set1(q.scale_a * static_cast<float>(-q.zero_point_a));
  const auto offset_b = V::set1(q.scale_b * static_cast<float>(-q.zero_point_b));
  const float inverse_scale = 1.0f / q.scale;
  const Requantized requantized(q);
  each_eight(count, [=](int64_t i, SveMask m) {
    const auto real_a = V::fma(scale_a, to_floats(load_bytes(a + i, m)), offset_a);
    const auto real_b = V::fma(scale_b, to_floats(load_bytes(b + i, m)), offset_b);
    const SveFloats sum = svmul_n_f32_x(V::all(), V::add(real_a, real_b), inverse_scale);
    store_bytes(dst + i, requantized(sum), m);
  });
}

void mul_arm64_sve256(const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
                      const BinaryQuantizers& q) {
  const float multiplier = q.scale_a * q.scale_b * (1.0f / q.scale);
  const int32_t zero_point_a = q.zero_point_a, zero_point_b = q.zero_point_b;
  const Requantized requantized(q);
  each_eight(count, [=](int64_t i, SveMask m) {
    const svbool_t all = svptrue_b32();
    const svint32_t centered_a = svsub_n_s32_x(all, load_bytes(a + i, m), zero_point_a);
    const svint32_t centered_b = svsub_n_s32_x(all, load_bytes(b + i, m), zero_point_b);
    const SveFloats product = to_floats(svmul_s32_x(all, centered_a, centered_b));
    store_bytes(dst + i, requantized(svmul_n_f32_x(all, product, multiplier)), m);
  });
}

}  // namespace cpuaccel::kernels
