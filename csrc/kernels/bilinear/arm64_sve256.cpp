#include "kernels/bilinear/bilinear.h"
#include "kernels/float_vectors/bytes_sve256.h"

namespace cpuaccel::kernels {
namespace {

struct Mix {
  float first_weight, second_weight;

  CPUACCEL_INLINE SveFloats of(SveFloats first, SveFloats second) const {
    const svfloat32_t product = svmul_n_f32_x(svptrue_b32(), first, first_weight);
    return svmla_n_f32_x(svptrue_b32(), product, second, second_weight);
  }
};

}  // namespace

void bilinear_arm64_sve256(const BilinearCall& call, const uint8_t* image, int64_t oh,
                           uint8_t* dst_row, float* between) {
  const int64_t C = call.C, count = call.W * C;
  const BilinearTap& row = call.rows[oh];
  const uint8_t* upper = image + row.first * count;
  const uint8_t* lower = image + row.second * count;
  const Mix of_rows{row.first_weight, row.second_weight};
  each_eight(count, [&](int64_t i, SveMask m) {
    const SveFloats above = to_floats(load_bytes(upper + i, m));
    const SveFloats mixed = of_rows.of(above, to_floats(load_bytes(lower + i, m)));
    svst1_f32(m, between + i, svsub_n_f32_x(m, mixed, static_cast<float>(call.odd)));
  });
  for (int64_t ow = 0; ow < call.OW; ++ow, dst_row += C) {
    const BilinearTap& tap = call.columns[ow];
    const float* left = between + tap.first * C;
    const float* right = between + tap.second * C;
    const Mix of_columns{tap.first_weight, tap.second_weight};
    each_eight(C, [&](int64_t c, SveMask m) {
      const SveFloats mixed = of_columns.of(svld1_f32(m, left + c), svld1_f32(m, right + c));
      store_bytes(dst_row + c, to_byte(rounded(mixed), call.odd, 0), m);
    });
  }
}

}  // namespace cpuaccel::kernels
