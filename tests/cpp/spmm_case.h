// Sparse matrices for the tests of the graph families, and spmm in plain double loops.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "guarded.h"
#include "kernels/gemm/half.h"
#include "kernels/spmm/spmm.h"

namespace cpuaccel::kernels {

// Rows of given lengths with random columns, some of them repeated; indices of either type.
struct RandomCsr {
  RandomCsr(const GuardedVector<int64_t>& lengths, int64_t columns, bool int64,
            std::mt19937& random)
      : M(static_cast<int64_t>(lengths.size())), N(columns), wide(int64), crow{0} {
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i) {
        col.push_back(std::uniform_int_distribution<int64_t>(0, N - 1)(random));
      }
      crow.push_back(static_cast<int64_t>(col.size()));
    }
    narrow_crow.assign(crow.begin(), crow.end());
    narrow_col.assign(col.begin(), col.end());
  }
  int64_t nnz() const { return static_cast<int64_t>(col.size()); }
  Csr csr() const {
    if (wide) {
      return {M, N, nnz(), crow.data(), col.data(), true};
    }
    return {M, N, nnz(), narrow_crow.data(), narrow_col.data(), false};
  }

  int64_t M, N;
  bool wide;
  GuardedVector<int64_t> crow, col;
  GuardedVector<int32_t> narrow_crow, narrow_col;
};

// Numbers of any type, in memory of exactly their size.
struct Elements {
  Elements(DataType of, int64_t count)
      : type(of), bytes(static_cast<size_t>(count * data_type_size(of))) {}
  Elements(DataType of, const GuardedVector<double>& numbers)
      : Elements(of, static_cast<int64_t>(numbers.size())) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      set(static_cast<int64_t>(i), numbers[i]);
    }
  }
  template <typename T>
  T read(int64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void write(int64_t i, T value) {
    std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
  double get(int64_t i) const {
    switch (type) {
      case DataType::f32:
        return read<float>(i);
      case DataType::f64:
        return read<double>(i);
      case DataType::bf16:
        return bf16_to_float(read<uint16_t>(i));
      case DataType::f16:
        return f16_to_float(read<uint16_t>(i));
      default:
        __builtin_unreachable();
    }
  }
  void set(int64_t i, double value) {
    const auto single = static_cast<float>(value);
    switch (type) {
      case DataType::f32:
        return write(i, single);
      case DataType::f64:
        return write(i, value);
      case DataType::bf16:
        return write(i, float_to_bf16(single));
      case DataType::f16:
        return write(i, float_to_f16(single));
      default:
        __builtin_unreachable();
    }
  }
  // Half a unit in the last place of 1.
  double rounding() const {
    return type == DataType::f32   ? 0x1p-24
           : type == DataType::f64 ? 0x1p-53
           : type == DataType::f16 ? 0x1p-11
                                   : 0x1p-8;
  }
  double sum_rounding() const { return type == DataType::f64 ? 0x1p-53 : 0x1p-24; }

  DataType type;
  GuardedVector<std::byte> bytes;
};

inline GuardedVector<double> normal_numbers(int64_t count, std::mt19937& random) {
  std::normal_distribution<double> normal;
  GuardedVector<double> numbers(static_cast<size_t>(count));
  for (auto& number : numbers) {
    number = normal(random);
  }
  return numbers;
}

struct SpmmResult {
  double value = 0, size = 0;  // size: sum of absolute values
  int64_t arg = 0;
};

// Expected element (m, k). Products are rounded as in the kernels before they are compared.
inline SpmmResult spmm_expected(const RandomCsr& a, const Elements* values, const Elements& src,
                                int64_t stride, Reduce reduce, int64_t m, int64_t k) {
  SpmmResult result{0, 0, a.nnz()};
  const bool sums = reduce == Reduce::sum || reduce == Reduce::mean;
  const auto begin = a.crow[static_cast<size_t>(m)], end = a.crow[static_cast<size_t>(m) + 1];
  if (!sums && begin < end) {
    result.value = reduce == Reduce::amax ? -std::numeric_limits<double>::infinity()
                                          : std::numeric_limits<double>::infinity();
  }
  for (int64_t e = begin; e < end; ++e) {
    double product = (values != nullptr ? values->get(e) : 1.0) *
                     src.get(a.col[static_cast<size_t>(e)] * stride + k);
    if (sums) {
      result.value += product;
      result.size += std::abs(product);
      continue;
    }
    if (src.type != DataType::f64) {
      product = static_cast<float>(product);
    }
    if (std::isnan(product) ||
        (reduce == Reduce::amax ? product > result.value : product < result.value)) {
      result.value = product;
      result.arg = e;
    }
  }
  if (reduce == Reduce::mean && begin < end) {
    result.value /= static_cast<double>(end - begin);
    result.size /= static_cast<double>(end - begin);
  }
  return result;
}

}  // namespace cpuaccel::kernels
