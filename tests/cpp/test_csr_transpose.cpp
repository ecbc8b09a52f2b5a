#include <gtest/gtest.h>

#include <algorithm>

#include "guarded.h"
#include "kernels/csr/transpose.h"
#include "spmm_case.h"
#include "threads.h"

namespace cpuaccel::kernels {
namespace {

template <typename Out>
struct Columns {
  Columns(const Csr& csr)
      : ccol(static_cast<size_t>(csr.N + 1), -7),
        row(static_cast<size_t>(csr.nnz), -7),
        perm(static_cast<size_t>(csr.nnz), -7) {
    arrays = {ccol.data(), row.data(), perm.data(), sizeof(Out) == 8};
    fault = csr_transpose(csr, arrays);
  }
  bool operator==(const Columns& other) const {
    return ccol == other.ccol && row == other.row && perm == other.perm;
  }
  GuardedVector<Out> ccol, row, perm;
  CsrColumns arrays;
  CsrFault fault;
};

template <typename Out>
void check(const RandomCsr& a) {
  const Csr csr = a.csr();
  const Columns<Out> columns(csr);
  ASSERT_EQ(columns.fault, CsrFault::none);
  struct Entry {
    int64_t column, row, e;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> entries;
  for (int64_t m = 0; m < a.M; ++m) {
    for (int64_t e = a.crow[static_cast<size_t>(m)]; e < a.crow[static_cast<size_t>(m) + 1]; ++e) {
      entries.push_back({a.col[static_cast<size_t>(e)], m, e});
    }
  }
  std::sort(entries.begin(), entries.end());
  ASSERT_EQ(columns.ccol.front(), 0);
  ASSERT_EQ(columns.ccol.back(), a.nnz());
  for (int64_t n = 0; n < a.N; ++n) {
    for (auto i = columns.ccol[static_cast<size_t>(n)];
         i < columns.ccol[static_cast<size_t>(n) + 1]; ++i) {
      const auto at = static_cast<size_t>(i);
      const Entry expected{n, columns.row[at], columns.perm[at]};
      ASSERT_EQ(entries[at], expected) << n << ", " << i;
    }
  }
  for (int count = 2; count <= 4; ++count) {
    const Threads threads(count);
    EXPECT_EQ(Columns<Out>(csr), columns);
  }
}

GuardedVector<int64_t> many_lengths() {
  GuardedVector<int64_t> lengths(9000);
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = static_cast<int64_t>(i % 91);
  }
  lengths[100] = 70000;
  return lengths;
}

TEST(CsrTranspose, AgainstSorting) {
  std::mt19937 random(1);
  for (const bool wide : {false, true}) {
    for (const auto& lengths :
         {GuardedVector<int64_t>{}, {0}, {3, 0, 0, 5, 1}, {0, 0, 40, 0}, many_lengths()}) {
      for (const int64_t N : {1, 7, 1000}) {
        const RandomCsr a(lengths, N, wide, random);
        check<int32_t>(a);
        check<int64_t>(a);
      }
    }
  }
}

TEST(CsrTranspose, BadIndices) {
  std::mt19937 random(2);
  for (const bool wide : {false, true}) {
    for (const int64_t column : {int64_t{-1}, int64_t{7}, int64_t{INT32_MIN}, INT64_MAX}) {
      RandomCsr a({3, 0, 5}, 7, wide, random);
      a.col[6] = column;
      a.narrow_col[6] = static_cast<int32_t>(column);
      EXPECT_EQ(Columns<int32_t>(a.csr()).fault, CsrFault::col);
    }
    for (size_t at = 0; at < 4; ++at) {
      RandomCsr a({3, 0, 5}, 7, wide, random);
      a.crow[at] = a.narrow_crow[at] = 9;
      EXPECT_EQ(Columns<int64_t>(a.csr()).fault, CsrFault::crow);
    }
  }
}

TEST(CsrTranspose, Values) {
  std::mt19937 random(3);
  for (const bool wide : {false, true}) {
    const RandomCsr a({3, 0, 5, 1}, 4, wide, random);
    const Columns<int32_t> columns(a.csr());
    for (const DataType type : {DataType::f32, DataType::f64, DataType::bf16, DataType::f16}) {
      const Elements values(type, normal_numbers(a.nnz(), random));
      for (const bool mean : {false, true}) {
        for (const bool ones : {false, true}) {
          Elements got(type == DataType::f64 ? type : DataType::f32, a.nnz());
          csr_columns_values(a.csr(), columns.arrays, ones ? nullptr : values.bytes.data(), type,
                             mean, got.bytes.data());
          for (int64_t i = 0; i < a.nnz(); ++i) {
            const auto m = static_cast<size_t>(columns.row[static_cast<size_t>(i)]);
            const double value = ones ? 1.0 : values.get(columns.perm[static_cast<size_t>(i)]);
            const double divisor = mean ? static_cast<double>(a.crow[m + 1] - a.crow[m]) : 1.0;
            EXPECT_NEAR(got.get(i), value / divisor, std::abs(value) * 0x1p-24);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
