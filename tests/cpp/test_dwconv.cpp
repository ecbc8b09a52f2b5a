#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "conv_case.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/dwconv/dwconv.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<DwconvFunction>;
class DwconvTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, DwconvTest, testing::ValuesIn(usable_rows(dwconv_kernels())),
                         RowName());

using Case = ConvCase<DwconvShape>;

GuardedVector<int64_t> accumulators(const Case& c, const GuardedVector<uint8_t>& src,
                                    const GuardedVector<int8_t>& weights) {
  return conv_accumulators(c, c.shape.C, c.shape.C, c.shape.C, src, weights);
}

void check(const Case& c, DwconvFunction* function, DataType type, std::mt19937& random) {
  const auto& s = c.shape;
  const auto src = random_bytes<uint8_t>(random, c.N * c.IH * c.IW * s.C);
  const auto weights = random_bytes<int8_t>(random, s.C * s.KH * s.KW);
  const auto packed = dwconv_pack(s, weights.data());
  GuardedVector<int8_t> unpacked(weights.size());
  dwconv_unpack(packed, unpacked.data());
  ASSERT_EQ(unpacked, weights);
  const DstCase dst(random, s.C, c.N * c.OH() * c.OW() * s.C, type,
                    255.0 * std::sqrt(static_cast<double>(s.KH * s.KW)) * 60.0);
  auto call = conv_call<DwconvCall>(c, packed, src);
  call.dst = dst.dst();
  dwconv(call, function);
  dst.check(accumulators(c, src, weights));
}

TEST_P(DwconvTest, EveryChannelCount) {
  std::mt19937 random(1);
  for (int64_t C = 1; C <= 140; ++C) {
    SCOPED_TRACE(C);
    check({{C, 3, 3, 1, 1, 1, 1, 1, 1}, 1, 5, 4, 7}, GetParam().function, DataType::u8, random);
  }
}

TEST_P(DwconvTest, KernelsStridesAndDilations) {
  std::mt19937 random(2);
  for (const int64_t K : {1, 2, 3, 4, 5, 7, 9, 11}) {
    for (const int64_t S : {1, 2, 3}) {
      for (const int64_t D : {1, 2}) {
        for (const int64_t P : {int64_t{0}, K / 2, K}) {
          SCOPED_TRACE(testing::Message() << "K" << K << " S" << S << " D" << D << " P" << P);
          check({{33, K, K, S, S, P, P, D, D}, 1, 22, 23, 128}, GetParam().function, DataType::u8,
                random);
        }
      }
    }
  }
}

TEST_P(DwconvTest, RandomShapes) {
  std::mt19937 random(3);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    Case c;
    c.shape = {pick(1, 150), pick(1, 8), pick(1, 8), pick(1, 3), pick(1, 3),
               pick(0, 4),   pick(0, 4), pick(1, 3), pick(1, 3)};
    c.N = pick(1, 3);
    c.IH = pick(1, 12);
    c.IW = pick(1, 40);
    c.src_zero_point = static_cast<int32_t>(pick(0, 255));
    if (c.OH() < 1 || c.OW() < 1) {
      continue;
    }
    const auto& s = c.shape;
    SCOPED_TRACE(testing::Message()
                 << "N" << c.N << " C" << s.C << " " << c.IH << "x" << c.IW << " K" << s.KH << "x"
                 << s.KW << " S" << s.SH << "x" << s.SW << " P" << s.PH << "x" << s.PW << " D"
                 << s.DH << "x" << s.DW << " zp " << c.src_zero_point);
    check(c, GetParam().function, kConvDstTypes[i % 3], random);
  }
}

// A dst without a post-op between the sums and their rounding.
struct Plain {
  DataType type = DataType::u8;
  int32_t zero_point = 120;
  uint8_t min = 0, max = 255;
};

// The row gives the reference kernel's bytes, inside of dst and around it.
void compare_with_ref(const Case& c, DwconvFunction* function, const Plain& plain,
                      std::mt19937& random) {
  const auto& s = c.shape;
  // Blocks of exactly this size, so that a sanitizer detects reads past them.
  const auto src = random_bytes<uint8_t>(random, c.N * c.IH * c.IW * s.C);
  const auto packed = dwconv_pack(s, random_bytes<int8_t>(random, s.C * s.KH * s.KW).data());
  std::uniform_real_distribution<float> scale(0.0005f, 0.003f), offset(-40.0f, 40.0f);
  GuardedVector<float> scales, bias;
  for (int64_t i = 0; i < s.C; ++i) {
    scales.push_back(scale(random));
    bias.push_back(offset(random));
  }
  constexpr int64_t kGuard = 70;
  const int64_t count = c.N * c.OH() * c.OW() * s.C;
  const auto run = [&](DwconvFunction* row) {
    GuardedVector<uint8_t> bytes(static_cast<size_t>(count + 2 * kGuard), 0xa5);
    auto call = conv_call<DwconvCall>(c, packed, src);
    call.dst.data = bytes.data() + kGuard;
    call.dst.type = plain.type;
    call.dst.scales = scales.data();
    call.dst.bias = bias.data();
    call.dst.zero_point = plain.zero_point;
    call.dst.min = plain.min;
    call.dst.max = plain.max;
    // Adds one to each finished result: once for each, even if some were computed twice.
    call.epilogue.run = [](const void* /*context*/, uint8_t* dst, int64_t from, int64_t number) {
      for (int64_t i = from; i < from + number; ++i) {
        dst[i] = static_cast<uint8_t>(dst[i] + 1);
      }
    };
    dwconv(call, row);
    return bytes;
  };
  ASSERT_EQ(run(function), run(dwconv_kernels().back().function));
}

TEST_P(DwconvTest, SameBytesAsRefForEveryChannelCount) {
  std::mt19937 random(11);
  for (int64_t C = 1; C <= 200; ++C) {
    for (const int64_t K : {3, 5, 7}) {
      const int64_t S = 1 + (C + K / 2) % 2;
      SCOPED_TRACE(testing::Message() << "C" << C << " K" << K << " S" << S);
      compare_with_ref({{C, K, K, S, S, K / 2, K / 2, 1, 1}, 2, 7, 6, 7}, GetParam().function, {},
                       random);
    }
  }
}

TEST_P(DwconvTest, SameBytesAsRefForEveryWidth) {
  std::mt19937 random(12);
  for (const int64_t C : {15, 16, 17, 32, 33, 58, 64, 72, 144}) {
    for (const int64_t K : {3, 5, 7}) {
      for (const int64_t S : {1, 2}) {
        for (const int64_t P : {0, 1, 2, 3}) {
          for (int64_t size = 1; size <= 9; ++size) {
            // Different heights for the same width, among them several groups of rows.
            const int64_t height = (size * 7 + C) % 21 + 1;
            const Case c{{C, K, K, S, S, P, P, 1, 1}, 1, height, size, 131};
            if (c.OH() < 1 || c.OW() < 1) {
              continue;
            }
            SCOPED_TRACE(testing::Message() << "C" << C << " K" << K << " S" << S << " P" << P
                                            << " " << height << "x" << size);
            compare_with_ref(c, GetParam().function, {}, random);
          }
        }
      }
    }
  }
}

TEST_P(DwconvTest, SameBytesAsRefOnThreads) {
  const Threads threads(3);
  std::mt19937 random(14);
  for (const int64_t C : {48, 80, 144}) {
    for (const int64_t K : {3, 5, 7}) {
      for (const int64_t S : {1, 2}) {
        SCOPED_TRACE(testing::Message() << "C" << C << " K" << K << " S" << S);
        compare_with_ref({{C, K, K, S, S, K / 2, K / 2, 1, 1}, 1, 61, 43, 99}, GetParam().function,
                         {}, random);
      }
    }
  }
}

TEST_P(DwconvTest, SameBytesAsRefForTypesAndLimits) {
  std::mt19937 random(13);
  constexpr Plain kPlains[] = {{DataType::u8, 0, 0, 255},     {DataType::u8, 255, 0, 255},
                               {DataType::u8, 120, 120, 255}, {DataType::u8, 10, 10, 90},
                               {DataType::u8, 10, 0, 90},     {DataType::s8, 128, 0, 255},
                               {DataType::s8, 100, 100, 160}};
  for (const Plain& plain : kPlains) {
    for (const int64_t C : {24, 40, 80, 200}) {
      for (const int64_t K : {3, 5, 7}) {
        for (const int64_t S : {1, 2}) {
          SCOPED_TRACE(testing::Message()
                       << "type " << static_cast<int>(plain.type) << " zp " << plain.zero_point
                       << " C" << C << " K" << K << " S" << S);
          compare_with_ref({{C, K, K, S, S, K / 2, K / 2, 1, 1}, 1, 11, 14, 3}, GetParam().function,
                           plain, random);
        }
      }
    }
  }
}

TEST_P(DwconvTest, ExtremeValuesDoNotSaturate) {
  const DwconvShape shape{16, 3, 3, 1, 1, 0, 0, 1, 1};
  // The values of src that are farthest from 0, as u8 and as u8 minus 128.
  for (const uint8_t source : {uint8_t{255}, uint8_t{0}}) {
    const GuardedVector<uint8_t> src(16 * 9, source);
    const GuardedVector<int8_t> weights(16 * 9, -128);
    const auto packed = dwconv_pack(shape, weights.data());
    const GuardedVector<float> scales(16, 1.0f), bias(16, 0.0f);
    GuardedVector<float> dst(16);
    DwconvCall call;
    call.weights = &packed;
    call.N = call.OH = call.OW = 1;
    call.IH = call.IW = 3;
    call.src = src.data();
    call.src_zero_point = 255 - source;
    call.dst.data = dst.data();
    call.dst.type = DataType::f32;
    call.dst.scales = scales.data();
    call.dst.bias = bias.data();
    dwconv(call, GetParam().function);
    const float sum = (source == 255 ? -1.0f : 1.0f) * 255.0f * 128.0f * 9.0f;
    EXPECT_EQ(dst, GuardedVector<float>(16, sum)) << int{source};
  }
}

TEST(DwconvList, EndsInRef) { EXPECT_EQ(dwconv_kernels().back().isa, Isa::ref); }

TEST(DwconvFits, RefusesWhatLeavesInt32) {
  const DwconvShape small{1, 3, 3, 1, 1, 0, 0, 1, 1};
  EXPECT_TRUE(dwconv_fits(small, GuardedVector<int8_t>(9, -128).data()));
  const DwconvShape large{1, 257, 257, 1, 1, 0, 0, 1, 1};
  EXPECT_FALSE(dwconv_fits(large, GuardedVector<int8_t>(257 * 257, -128).data()));
}

TEST(DwconvEpilogue, SeesEveryResultOnce) {
  const DwconvShape shape{20, 3, 3, 1, 1, 1, 1, 1, 1};
  std::mt19937 random(4);
  const auto src = random_bytes<uint8_t>(random, 2 * 7 * 5 * 20);
  const auto packed = dwconv_pack(shape, random_bytes<int8_t>(random, 20 * 9).data());
  const GuardedVector<float> scales(20, 0.001f), bias(20, 0.0f);
  GuardedVector<uint8_t> dst(src.size());
  std::vector<int> seen(src.size());
  DwconvCall call;
  call.weights = &packed;
  call.N = 2;
  call.IH = call.OH = 7;
  call.IW = call.OW = 5;
  call.src = src.data();
  call.dst.data = dst.data();
  call.dst.scales = scales.data();
  call.dst.bias = bias.data();
  count_in_epilogue(call, seen);
  dwconv(call);
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

}  // namespace
}  // namespace cpuaccel::kernels
