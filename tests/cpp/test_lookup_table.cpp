#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "guarded.h"
#include "kernel_rows.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {
namespace {

using Row = KernelRow<LookupTableFunction>;
class LookupTableTest : public testing::TestWithParam<Row> {};

INSTANTIATE_TEST_SUITE_P(Rows, LookupTableTest,
                         testing::ValuesIn(usable_rows(lookup_table_kernels())), RowName());

using Bytes = GuardedVector<uint8_t>;

Bytes random_bytes(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> byte(0, 255);
  Bytes bytes(count);
  for (auto& value : bytes) {
    value = static_cast<uint8_t>(byte(generator));
  }
  return bytes;
}

Bytes expected(const Bytes& src, const Bytes& table) {
  Bytes dst;
  for (const auto value : src) {
    dst.push_back(table[value]);
  }
  return dst;
}

TEST_P(LookupTableTest, EveryEntryOfManyTables) {
  Bytes src(kTableEntries);
  for (size_t i = 0; i < src.size(); ++i) {
    src[i] = static_cast<uint8_t>(i);
  }
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto table = random_bytes(kTableEntries, seed);
    Bytes dst(src.size());
    GetParam().function(src.data(), dst.data(), kTableEntries, table.data());
    EXPECT_EQ(dst, table) << seed;
  }
}

TEST_P(LookupTableTest, EveryLength) {
  const auto table = random_bytes(kTableEntries, 1);
  for (size_t count = 0; count <= 300; ++count) {
    const auto src = random_bytes(count, 7);
    Bytes dst(count + 1, 0xa5);
    GetParam().function(src.data(), dst.data(), static_cast<int64_t>(count), table.data());
    EXPECT_EQ(dst.back(), 0xa5) << "wrote past the end at length " << count;
    dst.pop_back();
    EXPECT_EQ(dst, expected(src, table)) << count;
  }
}

TEST_P(LookupTableTest, InPlace) {
  const auto table = random_bytes(kTableEntries, 3);
  const auto src = random_bytes(1000, 4);
  auto both = src;
  GetParam().function(both.data(), both.data(), 1000, table.data());
  EXPECT_EQ(both, expected(src, table));
}

TEST(LookupTable, LongerThanOneThreadsShare) {
  const auto table = random_bytes(kTableEntries, 5);
  const auto src = random_bytes(200'003, 6);
  Bytes dst(src.size());
  lookup_table_u8(src.data(), dst.data(), static_cast<int64_t>(src.size()), table.data());
  EXPECT_EQ(dst, expected(src, table));
}

TEST(LookupTableList, EndsInRef) { EXPECT_EQ(lookup_table_kernels().back().isa, Isa::ref); }

}  // namespace
}  // namespace cpuaccel::kernels
