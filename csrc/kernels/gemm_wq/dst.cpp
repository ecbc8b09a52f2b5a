#include "kernels/gemm_wq/dst.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "kernels/gemm/half.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kPiece = 64;  // columns
// Pieces of a thread; about 10 us of work.
constexpr int64_t kThreadPieces = 64;

// values * times + plus, at element `at` of dst.
void combine(const WqDst& dst, float* values, int64_t at, int64_t count) {
  for (int64_t j = 0; dst.times != nullptr && j < count; ++j) {
    values[j] *= element_to_float(dst.times, dst.type, at + j);
  }
  for (int64_t j = 0; dst.plus != nullptr && j < count; ++j) {
    values[j] += element_to_float(dst.plus, dst.type, at + j);
  }
}

void store(const WqDst& dst, const float* values, int64_t at, int64_t count) {
  if (dst.type == DataType::f32) {
    std::copy_n(values, count, static_cast<float*>(dst.data) + at);
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    float_to_element(values[j], dst.data, dst.type, at + j);
  }
}

}  // namespace

void prefetch_columns(const WqDst& dst, int64_t m, int64_t rows, int64_t n0, int64_t count) {
  constexpr int64_t kLine = 64;
  const int64_t size = data_type_size(dst.type);
  const int64_t bytes = count * size;
  for (int64_t at = (m * dst.stride + n0) * size; rows > 0; --rows, at += dst.stride * size) {
    for (int64_t line = 0; line < bytes; line += kLine) {
      __builtin_prefetch(static_cast<std::byte*>(dst.data) + at + line, 1, 2);
      if (dst.times != nullptr) {
        __builtin_prefetch(static_cast<const std::byte*>(dst.times) + at + line, 0, 2);
      }
      if (dst.plus != nullptr) {
        __builtin_prefetch(static_cast<const std::byte*>(dst.plus) + at + line, 0, 2);
      }
    }
  }
}

void write_columns(const WqDst& dst, float* results, int64_t m, int64_t n0, int64_t count) {
  const int64_t at = m * dst.stride + n0;
  if (dst.function.run != nullptr) {
    dst.function.run(dst.function.context, results, count);
  }
  combine(dst, results, at, count);
  store(dst, results, at, count);
}

void apply_operands(const WqDst& dst, int64_t M, int64_t N) {
  if (dst.times == nullptr && dst.plus == nullptr) {
    return;
  }
  const int64_t pieces = (N + kPiece - 1) / kPiece;
  for_each_piece(M * pieces, kThreadPieces, [&](int64_t piece) {
    const int64_t m = piece / pieces, n0 = piece % pieces * kPiece;
    const int64_t count = std::min(kPiece, N - n0), at = m * dst.stride + n0;
    std::array<float, kPiece> values;
    for (int64_t j = 0; j < count; ++j) {
      values[static_cast<size_t>(j)] = element_to_float(dst.data, dst.type, at + j);
    }
    combine(dst, values.data(), at, count);
    store(dst, values.data(), at, count);
  });
}

}  // namespace cpuaccel::kernels
