#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/half.h"
#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

class GemmHalfTest : public testing::TestWithParam<KernelRow<GemmFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, GemmHalfTest, testing::ValuesIn(usable_rows(gemm_kernels())),
                         RowName());

// Every 16-bit pattern to float and back, and floats around every rounding boundary.
TEST_P(GemmHalfTest, Conversions) {
  const GemmKernels& kernels = GetParam().function();
  GuardedVector<uint16_t> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
  }
  const auto count = static_cast<int64_t>(halves.size());
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    GuardedVector<float> floats(halves.size());
    kernels.load({halves.data(), type, count, 1, 1, count, floats.data(), count});
    GuardedVector<float> between;
    for (size_t i = 0; i < halves.size(); ++i) {
      const float expected = element_to_float(halves.data(), type, static_cast<int64_t>(i));
      ASSERT_EQ(float_to_bits(floats[i]), float_to_bits(expected)) << i;
      const float next = i + 1 < halves.size() ? floats[i + 1] : 0.0f;
      const float middle = floats[i] / 2 + next / 2;
      const float infinity = std::numeric_limits<float>::infinity();
      between.insert(between.end(), {floats[i], middle, std::nextafter(middle, infinity),
                                     std::nextafter(middle, -infinity)});
    }
    GuardedVector<uint16_t> rounded(between.size()), expected(between.size());
    kernels.store(between.data(), static_cast<int64_t>(between.size()), rounded.data(), type);
    for (size_t i = 0; i < between.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      float_to_element(between[i], expected.data(), type, index);
      if (std::isnan(between[i])) {
        ASSERT_TRUE(std::isnan(element_to_float(rounded.data(), type, index))) << i;
      } else {
        ASSERT_EQ(rounded[i], expected[i]) << between[i];
      }
    }
  }
}

// half.h by its definition: the nearest value, and the even one in a tie.
TEST(GemmHalf, RoundsToTheNearest) {
  for (const DataType type : {DataType::bf16, DataType::f16}) {
    const uint16_t largest = type == DataType::bf16 ? 0x7f7f : 0x7bff;
    for (uint16_t half = 0; half < largest; ++half) {
      const auto next = static_cast<uint16_t>(half + 1);
      const auto value_of = [type](uint16_t bits) {
        return double{type == DataType::bf16 ? bf16_to_float(bits) : f16_to_float(bits)};
      };
      const double low = value_of(half), high = value_of(next);
      const auto middle = static_cast<float>((low + high) / 2);
      const uint16_t even = half % 2 == 0 ? half : next;
      const auto round = [type](float value) {
        return type == DataType::bf16 ? float_to_bf16(value) : float_to_f16(value);
      };
      ASSERT_EQ(round(static_cast<float>(low)), half);
      ASSERT_EQ(round(middle), even) << half;
      ASSERT_EQ(round(std::nextafter(middle, 0.0f)), half);
      ASSERT_EQ(round(std::nextafter(middle, std::numeric_limits<float>::infinity())), next);
      ASSERT_EQ(round(-middle), even | 0x8000);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
