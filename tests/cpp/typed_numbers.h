// Numbers of f32, bf16 or f16 in guarded memory, for tests of kernels that take several types.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "guarded.h"
#include "kernels/gemm/half.h"

namespace cpuaccel::kernels {

class TypedNumbers {
 public:
  TypedNumbers(int64_t count, DataType element)
      : type(element), bytes_(static_cast<size_t>(count * data_type_size(element))) {}

  // Random ones, rounded to the type.
  static TypedNumbers normal(int64_t count, DataType element, uint32_t seed) {
    TypedNumbers numbers(count, element);
    std::mt19937 random(seed);
    std::normal_distribution<float> distribution;
    for (int64_t i = 0; i < count; ++i) {
      numbers.set(i, distribution(random));
    }
    return numbers;
  }

  void set(int64_t i, float value) { float_to_element(value, bytes_.data(), type, i); }
  float get(int64_t i) const { return element_to_float(bytes_.data(), type, i); }
  double exact(int64_t i) const { return static_cast<double>(get(i)); }
  void* data() { return bytes_.data(); }
  const float* floats() const { return reinterpret_cast<const float*>(bytes_.data()); }
  bool operator==(const TypedNumbers& other) const { return bytes_ == other.bytes_; }

  const DataType type;

 private:
  GuardedVector<char> bytes_;
};

// The error of rounding a result of about `exact` to `type`; 0 for f32.
inline double rounding_error(DataType type, double exact) {
  return type == DataType::f32    ? 0.0
         : type == DataType::bf16 ? 0x1p-8 * std::abs(exact) + 1e-30
                                  : 0x1p-11 * std::abs(exact) + 0x1p-25;
}

inline constexpr DataType kFloatTypes[] = {DataType::f32, DataType::bf16, DataType::f16};

}  // namespace cpuaccel::kernels
