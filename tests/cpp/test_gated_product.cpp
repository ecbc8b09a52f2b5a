#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "exact_activation.h"
#include "kernels/gated_product/gated_product.h"
#include "typed_numbers.h"

namespace cpuaccel::kernels {
namespace {

void check(GatedProductCall call, int64_t gap, bool in_place) {
  call.gate_stride = call.up_stride = call.N + gap;
  const int64_t count = call.M * call.N;
  // Both operands as columns of one tensor, if there is a gap.
  auto gate = TypedNumbers::normal((call.M - 1) * call.gate_stride + call.N, call.type, 1);
  auto up = TypedNumbers::normal((call.M - 1) * call.up_stride + call.N, call.type, 2);
  const auto before = gate;
  TypedNumbers dst(count, call.type);
  call.gate = gate.data();
  call.up = up.data();
  call.dst = in_place ? gate.data() : dst.data();
  gated_product(call);
  const auto& made = in_place ? gate : dst;
  for (int64_t m = 0; m < call.M; ++m) {
    for (int64_t n = 0; n < call.N; ++n) {
      const double x = before.exact(m * call.gate_stride + n);
      const double y = up.exact(m * call.up_stride + n);
      const double expected = exact_activation(call.function, x) * y;
      const double bound = 0x1p-20 * std::abs(x * y) + 1e-36 + rounding_error(call.type, expected);
      ASSERT_NEAR(made.exact(m * call.N + n), expected, bound) << m << ", " << n;
    }
  }
}

TEST(GatedProduct, AllForms) {
  for (const DataType type : kFloatTypes) {
    for (const auto function : {Activation::none, Activation::silu, Activation::gelu_tanh}) {
      for (const int64_t gap : {0, 7}) {
        check({.M = 3, .N = 1030, .type = type, .function = function}, gap, false);
        check({.M = 1, .N = 1, .type = type, .function = function}, gap, false);
      }
      check({.M = 20, .N = 2500, .type = type, .function = function}, 0, true);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
