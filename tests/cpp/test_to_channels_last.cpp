#include <gtest/gtest.h>

#include <cstdint>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/to_channels_last/to_channels_last.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

class ToChannelsLastTest : public testing::TestWithParam<KernelRow<ToChannelsLastFunction>> {};

INSTANTIATE_TEST_SUITE_P(Rows, ToChannelsLastTest,
                         testing::ValuesIn(usable_rows(to_channels_last_kernels())), RowName());

struct Case {
  int64_t C, pixels, gap, width;

  GuardedVector<uint8_t> src() const {
    // Exactly as long as needed: no gap follows the last plane.
    GuardedVector<uint8_t> bytes(static_cast<size_t>(((C - 1) * plane() + pixels) * width));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(i * 37 + i / 251);
    }
    return bytes;
  }
  int64_t plane() const { return pixels + gap; }
  GuardedVector<uint8_t> dst() const {
    return GuardedVector<uint8_t>(static_cast<size_t>(C * pixels * width));
  }
  GuardedVector<uint8_t> expected(const GuardedVector<uint8_t>& src) const {
    auto result = dst();
    for (int64_t i = 0; i < pixels; ++i) {
      for (int64_t c = 0; c < C; ++c) {
        for (int64_t byte = 0; byte < width; ++byte) {
          result[static_cast<size_t>((i * C + c) * width + byte)] =
              src[static_cast<size_t>((c * plane() + i) * width + byte)];
        }
      }
    }
    return result;
  }
};

TEST_P(ToChannelsLastTest, EveryCount) {
  for (const int64_t width : {2, 4}) {
    for (int64_t C = 2; C <= kToChannelsLastMost; ++C) {
      for (int64_t count = 0; count <= 40; ++count) {
        const Case it{C, count, count % 3, width};
        const auto src = it.src();
        auto dst = it.dst();
        GetParam().function({src.data(), dst.data(), C, it.plane(), count, width});
        ASSERT_EQ(dst, it.expected(src)) << C << " channels, " << count << " of " << width;
      }
    }
  }
}

TEST(ToChannelsLast, ThreadsDoNotMatter) {
  const Case it{3, 30011, 5, 2};
  const auto src = it.src();
  auto dst = it.dst();
  const Threads threads(3);
  to_channels_last({src.data(), dst.data(), it.C, it.plane(), it.pixels, it.width});
  EXPECT_EQ(dst, it.expected(src));
}

TEST(ToChannelsLastList, EndsInRef) { EXPECT_EQ(to_channels_last_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
