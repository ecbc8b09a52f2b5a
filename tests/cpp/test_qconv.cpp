#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "conv_case.h"
#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<QconvFunction>;
class QconvTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, QconvTest, testing::ValuesIn(usable_rows(qconv_kernels())),
                         RowName());

using Case = ConvCase<QconvShape>;

GuardedVector<int64_t> accumulators(const Case& c, const GuardedVector<uint8_t>& src,
                                    const GuardedVector<int8_t>& weights) {
  return conv_accumulators(c, c.shape.IC, c.shape.OC, c.shape.G, src, weights);
}

// Like trained weights, of which few are large. Untrained weights have a deviation of about 40.
GuardedVector<int8_t> bell_shaped(std::mt19937& random, int64_t count, float deviation = 30.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  GuardedVector<int8_t> result;
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(static_cast<int8_t>(std::clamp(normal(random), -128.0f, 127.0f)));
  }
  return result;
}

// One of `one_of` bytes is above 127, as when src has seven bits except for inputs that calibration
// has not seen; 0: none.
GuardedVector<uint8_t> low_bytes(std::mt19937& random, int64_t count, unsigned one_of) {
  auto result = random_bytes<uint8_t>(random, count);
  for (auto& byte : result) {
    byte = one_of != 0 && random() % one_of == 0 ? byte | 0x80 : byte & 0x7f;
  }
  return result;
}

void check(const Case& c, QconvFunction* function, DataType type, std::mt19937& random,
           QconvForm form = QconvForm::whole, GuardedVector<uint8_t> src = {}) {
  const auto& s = c.shape;
  const int64_t K = s.IC / s.G * s.KH * s.KW;
  if (src.empty()) {
    src = random_bytes<uint8_t>(random, c.N * c.IH * c.IW * s.IC);
  }
  const auto weights = form == QconvForm::whole ? random_bytes<int8_t>(random, s.OC * K)
                                                : bell_shaped(random, s.OC * K);
  const auto packed = qconv_pack(s, weights.data(), form);
  if (form == QconvForm::whole) {
    ASSERT_EQ(packed.bytes, qconv_packed_bytes(s));
  }
  GuardedVector<int8_t> unpacked(weights.size());
  qconv_unpack(packed, unpacked.data());
  ASSERT_EQ(unpacked, weights);
  const DstCase dst(random, s.OC, c.N * c.OH() * c.OW() * s.OC, type,
                    255.0 * std::sqrt(static_cast<double>(K)) * 60.0);
  auto call = conv_call<QconvCall>(c, packed, src);
  call.dst = dst.dst();
  qconv(call, function);
  dst.check(accumulators(c, src, weights));
}

TEST_P(QconvTest, Linear) {
  std::mt19937 random(1);
  for (const int64_t M : {1, 2, 3, 4, 5, 8, 9, 70}) {
    for (const int64_t K : {1, 3, 4, 16, 30, 64, 100}) {
      for (const int64_t N : {1, 7, 8, 16, 17, 31, 48, 63, 64, 65, 100, 200}) {
        SCOPED_TRACE(testing::Message() << "M" << M << " K" << K << " N" << N);
        check({{K, N}, M, 1, 1, 9}, GetParam().function, DataType::u8, random);
      }
    }
  }
}

// Adjacent pixels, pixels that are a stride apart within and across rows, and pixels beside
// padding; panels that end within eight of them.
TEST_P(QconvTest, Pointwise) {
  std::mt19937 random(7);
  for (const int64_t IC : {16, 33, 1030, 2050}) {
    for (const int64_t OC : {8, 24, 48, 80, 112}) {
      for (const int64_t S : {1, 2}) {
        for (const int64_t P : {0, 1}) {
          SCOPED_TRACE(testing::Message() << IC << "->" << OC << " stride " << S << " pad " << P);
          const auto type = kConvDstTypes[(IC + OC / 8) % 3];
          check({{IC, OC, 1, 1, 1, S, S, P, P}, 2, 5, 9, 77}, GetParam().function, type, random);
        }
      }
    }
  }
}

// Several taps of many channels: chunks of weights of one tap and across taps, tiles of five to
// eight pixels, and numbers of vectors of channels that are even and odd.
TEST_P(QconvTest, ManyChannelsAndFewPixels) {
  std::mt19937 random(17);
  for (const auto& [IH, IW] :
       {std::pair<int64_t, int64_t>{4, 4}, {5, 5}, {7, 7}, {8, 8}, {1, 17}}) {
    for (const int64_t IC : {116, 130, 520}) {
      for (const int64_t OC : {16, 40, 64}) {
        SCOPED_TRACE(testing::Message() << IC << "->" << OC << " image " << IH << "x" << IW);
        const auto type = kConvDstTypes[(IC + OC / 8 + IH) % 3];
        check({{IC, OC, 1, 3, 3, 1, 1, 1, 1}, 1, IH, IW, 77}, GetParam().function, type, random);
        check({{IC, OC, 1, 2, 3, 2, 2, 0, 1}, 2, 2 * IH, 2 * IW, 9}, GetParam().function, type,
              random);
      }
    }
  }
}

// Full and partial tiles of every height and width, with post-ops, limits and each type of result.
TEST_P(QconvTest, PointwiseTiles) {
  std::mt19937 random(13);
  for (const int64_t M : {2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 17, 49, 64, 66, 71}) {
    for (const int64_t OC : {8, 16, 21, 32, 48, 64, 75, 96, 112}) {
      for (const DataType type : {DataType::u8, DataType::s8, DataType::f32}) {
        for (const int64_t IC : {7, 24}) {
          SCOPED_TRACE(testing::Message() << M << " rows, " << IC << "->" << OC << ", type "
                                          << static_cast<int>(type));
          check({{IC, OC}, M, 1, 1, 77}, GetParam().function, type, random);
        }
      }
    }
  }
}

// Rows longer than the copied part, which end at a whole step or not.
TEST_P(QconvTest, LongRows) {
  std::mt19937 random(14);
  for (const int64_t IC : {2048, 2052, 3072, 4099}) {
    for (const int64_t M : {2, 3, 10}) {
      for (const DataType type : {DataType::u8, DataType::f32}) {
        SCOPED_TRACE(testing::Message() << M << " rows of " << IC);
        check({{IC, 24}, M, 1, 1, 77}, GetParam().function, type, random);
      }
    }
  }
  // Pixels a stride apart, at equal distances and not.
  check({{2052, 24, 1, 1, 1, 2, 2}, 1, 1, 9, 77}, GetParam().function, DataType::u8, random);
  check({{2052, 24, 1, 1, 1, 2, 2}, 1, 3, 5, 77}, GetParam().function, DataType::u8, random);
}

// Few rows, whose channels are split into several chunks.
TEST_P(QconvTest, ChunksOfChannels) {
  std::mt19937 random(15);
  for (const int64_t M : {1, 2, 16}) {
    for (const int64_t OC : {100, 300, 777}) {
      for (const int64_t IC : {40, 260}) {
        SCOPED_TRACE(testing::Message() << M << " rows, " << IC << "->" << OC);
        check({{IC, OC}, M, 1, 1, 77}, GetParam().function, DataType::u8, random);
      }
    }
  }
}

// Seven-bit src with an increasing share of larger values: other loops, the same sums.
TEST_P(QconvTest, LowSources) {
  std::mt19937 random(8);
  for (const unsigned one_of : {0u, 5000u, 300u, 40u, 9u, 2u}) {
    for (const int32_t zero_point : {0, 60, 200}) {
      for (const Case& c :
           {Case{{64, 40}, 70, 1, 1}, Case{{30, 17}, 5, 1, 1}, Case{{1030, 9}, 3, 1, 1},
            Case{{768, 300}, 2, 1, 1}, Case{{33, 24, 1, 3, 3, 1, 1, 1, 1}, 2, 9, 11},
            Case{{16, 8, 1, 1, 1, 2, 2, 1, 1}, 2, 9, 11},
            Case{{3, 32, 1, 7, 7, 2, 2, 3, 3}, 1, 21, 23},
            Case{{24, 48, 3, 3, 3, 1, 1, 1, 1}, 1, 7, 9}, Case{{5000, 8}, 66, 1, 1},
            // Panels within a row of the image.
            Case{{12, 8, 1, 3, 3, 1, 1, 1, 1}, 1, 4, 150},
            Case{{3, 8, 1, 3, 3, 2, 2, 1, 1}, 2, 7, 301},
            Case{{8, 8, 1, 3, 3, 1, 1, 2, 2, 2, 2}, 1, 9, 90},
            Case{{8, 8, 1, 1, 1, 3, 3}, 1, 4, 333},
            // Groups of whole blocks, with a rest of channels, and several in a block.
            Case{{96, 96, 6, 3, 3, 1, 1, 1, 1}, 1, 9, 11},
            Case{{72, 60, 3, 3, 3, 2, 2, 1, 1}, 2, 9, 11},
            Case{{30, 30, 3, 3, 3, 1, 1, 1, 1}, 1, 9, 11}, Case{{60, 64, 4}, 70, 1, 1},
            Case{{32, 32, 8, 3, 3, 1, 1, 1, 1}, 1, 9, 11},
            Case{{48, 48, 6, 3, 3, 2, 2, 1, 1}, 1, 9, 70}}) {
        Case given = c;
        given.src_zero_point = zero_point;
        SCOPED_TRACE(testing::Message() << "one of " << one_of << ", zero point " << zero_point
                                        << ", " << c.shape.IC << "->" << c.shape.OC);
        check(given, GetParam().function, DataType::u8, random, QconvForm::whole,
              low_bytes(random, c.N * c.IH * c.IW * c.shape.IC, one_of));
      }
    }
  }
}

// The largest products of both signs, where sums of two just fit 16 bits.
TEST_P(QconvTest, LargestLowSources) {
  std::mt19937 random(9);
  for (const int8_t weight : {int8_t{127}, int8_t{-128}}) {
    for (const uint8_t high : {uint8_t{127}, uint8_t{255}}) {
      const QconvShape s{256, 16};
      GuardedVector<uint8_t> src(64 * 256, 127);
      src[1000] = src[1001] = src[9000] = high;
      const GuardedVector<int8_t> weights(16 * 256, weight);
      const auto packed = qconv_pack(s, weights.data());
      const DstCase dst(random, 16, 64 * 16, DataType::f32, 127.0 * 128 * 256);
      QconvCall call;
      call.weights = &packed;
      call.N = 64;
      call.src = src.data();
      call.dst = dst.dst();
      qconv(call, GetParam().function);
      dst.check(accumulators({s, 64}, src, weights));
    }
  }
}

TEST_P(QconvTest, LargeLinear) {
  std::mt19937 random(2);
  check({{768, 768}, 1, 1, 1, 120}, GetParam().function, DataType::f32, random);
  check({{1280, 1000}, 1, 1, 1, 0}, GetParam().function, DataType::u8, random);
}

TEST_P(QconvTest, Stems) {
  std::mt19937 random(3);
  for (const int64_t K : {3, 5, 7}) {
    for (const int64_t IC : {1, 2, 3, 4}) {
      for (const int64_t P : {int64_t{0}, K / 2, K + 1}) {
        SCOPED_TRACE(testing::Message() << "K" << K << " IC" << IC << " P" << P);
        check({{IC, 32, 1, K, K, 2, 2, P, P}, 2, 15, 17, 114}, GetParam().function, DataType::u8,
              random);
      }
    }
  }
}

TEST_P(QconvTest, Groups) {
  std::mt19937 random(4);
  for (const int64_t inputs : {1, 2, 3, 4, 8, 16, 24}) {
    for (const int64_t outputs : {1, 2, 4, 8, 16, 20}) {
      for (const int64_t G : {2, 4, 8}) {
        SCOPED_TRACE(testing::Message() << inputs << "->" << outputs << " G" << G);
        check({{inputs * G, outputs * G, G, 3, 3, 1, 1, 1, 1}, 1, 5, 7, 33}, GetParam().function,
              DataType::u8, random);
      }
    }
  }
}

TEST_P(QconvTest, RandomShapes) {
  std::mt19937 random(5);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 300; ++i) {
    Case c;
    const int64_t G = pick(0, 2) == 0 ? pick(2, 6) : 1;
    c.shape = {pick(1, 20) * G, pick(1, 40) * G, G,          pick(1, 4), pick(1, 4), pick(1, 3),
               pick(1, 3),      pick(0, 3),      pick(0, 3), pick(1, 2), pick(1, 2)};
    c.N = pick(1, 3);
    c.IH = pick(1, 9);
    c.IW = pick(1, 14);
    c.src_zero_point = static_cast<int32_t>(pick(0, 255));
    if (c.OH() < 1 || c.OW() < 1) {
      continue;
    }
    const auto& s = c.shape;
    SCOPED_TRACE(testing::Message()
                 << "N" << c.N << " IC" << s.IC << " OC" << s.OC << " G" << G << " " << c.IH << "x"
                 << c.IW << " K" << s.KH << "x" << s.KW << " S" << s.SH << "x" << s.SW << " P"
                 << s.PH << "x" << s.PW << " D" << s.DH << "x" << s.DW);
    check(c, GetParam().function, kConvDstTypes[i % 3], random);
  }
}

TEST_P(QconvTest, ExtremeValuesDoNotSaturate) {
  // One pixel, and enough pixels for other loops.
  for (const int64_t pixels : {1, 16}) {
    // The values of src that are farthest from 0, as u8 and as u8 minus 128.
    for (const uint8_t source : {uint8_t{255}, uint8_t{0}}) {
      const QconvShape shape{64, 32};
      const auto results = static_cast<size_t>(pixels * shape.OC);
      const GuardedVector<uint8_t> src(static_cast<size_t>(pixels * shape.IC), source);
      const GuardedVector<int8_t> weights(64 * 32, -128);
      const auto packed = qconv_pack(shape, weights.data());
      const GuardedVector<float> scales(32, 1.0f), bias(32, 0.0f);
      GuardedVector<float> dst(results);
      QconvCall call;
      call.weights = &packed;
      call.N = pixels;
      call.src = src.data();
      call.src_zero_point = 255 - source;
      call.dst.data = dst.data();
      call.dst.type = DataType::f32;
      call.dst.scales = scales.data();
      call.dst.bias = bias.data();
      qconv(call, GetParam().function);
      const float sum = (source == 255 ? -1.0f : 1.0f) * 255.0f * 128.0f * 64.0f;
      EXPECT_EQ(dst, GuardedVector<float>(results, sum)) << pixels << " of " << int{source};
    }
  }
}

#if defined(CPUACCEL_X86_KERNELS)
class QconvFormTest : public testing::TestWithParam<QconvForm> {
 protected:
  void SetUp() override {
    if (!isa_usable(Isa::avx2)) {
      GTEST_SKIP() << "only the AVX2 kernel takes such weights, and this CPU has no AVX2";
    }
  }
  std::mt19937 random_{11};
};

TEST_P(QconvFormTest, IsExact) {
  for (const DataType type : {DataType::u8, DataType::f32}) {
    for (const int64_t IC : {3, 16, 33, 260}) {
      for (const int64_t OC : {8, 16, 40, 64, 100}) {
        for (const int64_t K : {1, 3}) {
          for (const int64_t G : {1, 2}) {
            SCOPED_TRACE(testing::Message() << IC << "->" << OC << " K" << K << " G" << G);
            check({{IC * G, OC * G, G, K, K, 1, 1, K / 2, K / 2}, 1, 5, 9, 77}, qconv_x86_avx2,
                  type, random_, GetParam());
          }
        }
      }
    }
    check({{768, 1000}, 1, 1, 1, 120}, qconv_x86_avx2, type, random_, GetParam());
  }
}

// Large weights, large values of src, and both at the same position.
TEST_P(QconvFormTest, IsExactWithLowSources) {
  for (const unsigned one_of : {0u, 5000u, 300u, 40u, 2u}) {
    for (const Case& c :
         {Case{{64, 40}, 70, 1, 1, 60}, Case{{43, 17}, 5, 1, 1}, Case{{1030, 9}, 3, 1, 1, 200},
          Case{{768, 300}, 2, 1, 1, 7}, Case{{33, 24, 1, 3, 3, 1, 1, 1, 1}, 2, 9, 11, 77},
          Case{{3, 32, 1, 7, 7, 2, 2, 3, 3}, 1, 21, 23, 9},
          Case{{96, 96, 6, 3, 3, 1, 1, 1, 1}, 1, 9, 11, 5},
          Case{{60, 80, 2, 3, 3, 1, 1, 1, 1}, 1, 9, 11, 130}}) {
      SCOPED_TRACE(testing::Message()
                   << "one of " << one_of << ", " << c.shape.IC << "->" << c.shape.OC);
      check(c, qconv_x86_avx2, DataType::u8, random_, GetParam(),
            low_bytes(random_, c.N * c.IH * c.IW * c.shape.IC, one_of));
    }
  }
}

TEST_P(QconvFormTest, TakesTheLargestSources) {
  // Channels of several chunks, because a few pixels are split by chunks.
  const QconvShape shape{128, 640};
  const GuardedVector<float> scales(640, 1.0f), bias(640, 0.0f);
  for (const int8_t large : {int8_t{127}, int8_t{-128}}) {
    auto weights = bell_shaped(random_, shape.IC * shape.OC, 20.0f);
    for (auto channel = weights.begin(); channel < weights.end(); channel += 80 * shape.IC) {
      // One channel is large in two whole steps; another in one step, a third in three weights of
      // two steps.
      std::fill_n(channel, 8, large);
      std::fill_n(channel + 128 + 8, 4, large);
      channel[256 + 16] = channel[256 + 17] = channel[256 + 20] = large;
    }
    const auto packed = qconv_pack(shape, weights.data(), GetParam());
    ASSERT_EQ(packed.form, GetParam());
    EXPECT_EQ(packed.rest.places.empty(), GetParam() != QconvForm::pairs);
    EXPECT_EQ(packed.order.steps.empty(), GetParam() != QconvForm::matched);
    EXPECT_GT(packed.bytes, qconv_packed_bytes(shape));
    for (const int64_t pixels : {1, 16}) {
      for (const uint8_t source : {uint8_t{127}, uint8_t{128}, uint8_t{255}}) {
        GuardedVector<uint8_t> src(static_cast<size_t>(pixels * shape.IC), 127);
        // Few are above 127, or all.
        std::fill_n(src.begin(), source == 255 ? src.size() : 4, source);
        GuardedVector<float> dst(static_cast<size_t>(pixels * shape.OC));
        QconvCall call;
        call.weights = &packed;
        call.N = pixels;
        call.src = src.data();
        call.dst.data = dst.data();
        call.dst.type = DataType::f32;
        call.dst.scales = scales.data();
        call.dst.bias = bias.data();
        qconv(call);
        const auto expected = accumulators({shape, pixels}, src, weights);
        EXPECT_EQ(dst, GuardedVector<float>(expected.begin(), expected.end()))
            << pixels << " of " << int{source};
      }
    }
  }
}

TEST_P(QconvFormTest, LeavesWhatHasManyLargeWeights) {
  const QconvShape shape{64, 32};
  const GuardedVector<int8_t> weights(64 * 32, -128);
  EXPECT_EQ(qconv_pack(shape, weights.data(), GetParam()).form, QconvForm::whole);
}

INSTANTIATE_TEST_SUITE_P(Forms, QconvFormTest,
                         testing::Values(QconvForm::pairs, QconvForm::matched),
                         [](const auto& form) {
                           return form.param == QconvForm::pairs ? "pairs" : "matched";
                         });

TEST(QconvForms, PairsWithALargeRestAreMatched) {
  std::mt19937 random(12);
  const QconvShape shape{64, 64};
  const auto form = [&](float deviation) {
    return qconv_pack(shape, bell_shaped(random, 64 * 64, deviation).data(), QconvForm::pairs).form;
  };
  EXPECT_EQ(form(20.0f), QconvForm::pairs);
  EXPECT_EQ(form(40.0f), QconvForm::matched);
  EXPECT_EQ(form(1000.0f), QconvForm::whole);
}
#endif

TEST(QconvList, EndsInRef) { EXPECT_EQ(qconv_kernels().back().isa, Isa::ref); }

TEST(QconvFits, RefusesWhatLeavesInt32) {
  EXPECT_TRUE(qconv_fits({1000, 1}, GuardedVector<int8_t>(1000, -128).data()));
  EXPECT_FALSE(qconv_fits({66000, 1}, GuardedVector<int8_t>(66000, 127).data()));
}

TEST(QconvEpilogue, SeesEveryResultOnce) {
  std::mt19937 random(6);
  for (const Case& c : {Case{{12, 20, 2, 3, 3, 1, 1, 1, 1}, 2, 11, 9}, Case{{40, 700}, 3}}) {
    const auto& s = c.shape;
    const auto src = random_bytes<uint8_t>(random, c.N * c.IH * c.IW * s.IC);
    const auto weights = random_bytes<int8_t>(random, s.OC * s.IC / s.G * s.KH * s.KW);
    const auto packed = qconv_pack(s, weights.data());
    const GuardedVector<float> scales(static_cast<size_t>(s.OC), 0.001f);
    const GuardedVector<float> bias(scales.size(), 0.0f);
    GuardedVector<uint8_t> dst(static_cast<size_t>(c.N * c.OH() * c.OW() * s.OC));
    std::vector<int> seen(dst.size());
    auto call = conv_call<QconvCall>(c, packed, src);
    call.dst.data = dst.data();
    call.dst.scales = scales.data();
    call.dst.bias = bias.data();
    count_in_epilogue(call, seen);
    qconv(call);
    EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
