#include "kernels/binary/binary.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kAddRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<BinaryFunction>, name, add_##name)
#include "kernels/binary/kernels.inc"
#undef CPUACCEL_KERNEL
};
constexpr std::array kMulRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<BinaryFunction>, name, mul_##name)
#include "kernels/binary/kernels.inc"
#undef CPUACCEL_KERNEL
};

constexpr int64_t kGrain = 65536;
constexpr int64_t kWidestVector = 64;

// How often `columns` bytes are repeated so that they fill whole vectors, at least a few.
int64_t repetitions(int64_t columns) {
  const int64_t whole = kWidestVector / std::gcd(columns, kWidestVector);
  const int64_t many = (4 * kWidestVector + columns - 1) / columns;
  return (many + whole - 1) / whole * whole;
}

// One image: row b, repeated, against the same number of rows of a at once.
void run_rows(BinaryFunction* function, const uint8_t* a, const uint8_t* b, uint8_t* dst,
              int64_t rows, int64_t columns, const BinaryQuantizers& q) {
  const int64_t together = std::min(repetitions(columns), rows);
  const uint8_t* operand = b;
  if (together > 1) {
    auto* repeated = static_cast<uint8_t*>(
        scratch(ScratchSlot::broadcast, static_cast<size_t>(together * columns)));
    for (int64_t i = 0; i < together; ++i) {
      std::memcpy(repeated + i * columns, b, static_cast<size_t>(columns));
    }
    operand = repeated;
  }
  const auto part = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += together) {
      const int64_t count = std::min(together, end - row) * columns;
      function(a + row * columns, operand, dst + row * columns, count, q);
    }
  };
  if (rows * columns <= kGrain) {
    part(0, rows);
  } else {
    parallel_for(0, rows, std::max<int64_t>(1, kGrain / columns), part);
  }
}

}  // namespace

std::span<const KernelRow<BinaryFunction>> binary_kernels(BinaryOp op) {
  return op == BinaryOp::add ? kAddRows : kMulRows;
}

bool in_range(BinaryOp op, const BinaryQuantizers& q) {
  const double a = 255.0 * q.scale_a, b = 255.0 * q.scale_b;
  const double largest = (op == BinaryOp::add ? a + b : a * b) / q.scale;
  const bool positive = q.scale_a > 0.0f && q.scale_b > 0.0f && q.scale > 0.0f;
  return positive && largest < 1.0e9 && 1.0f / q.scale < 1.0e30f;
}

BinaryQuantizers swapped(const BinaryQuantizers& q) {
  return {q.scale_b, q.scale_a, q.scale, q.zero_point_b, q.zero_point_a, q.zero_point, q.relu};
}

void binary_u8(BinaryOp op, const uint8_t* a, const uint8_t* b, uint8_t* dst, int64_t count,
               const BinaryQuantizers& q) {
  const auto function = first_usable(binary_kernels(op)).function;
  parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    function(a + begin, b + begin, dst + begin, end - begin, q);
  });
}

void binary_rows_u8(BinaryOp op, const uint8_t* a, const uint8_t* b, uint8_t* dst,
                    const BinaryRows& shape, const BinaryQuantizers& q) {
  const auto function = first_usable(binary_kernels(op)).function;
  if (shape.rows == 0 || shape.columns == 0) {
    return;
  }
  const int64_t size = shape.rows * shape.columns;
  for (int64_t image = 0; image < shape.images; ++image) {
    run_rows(function, a + image * size, b + image * shape.columns, dst + image * size, shape.rows,
             shape.columns, q);
  }
}

void binary_value_u8(BinaryOp op, const uint8_t* a, uint8_t b, uint8_t* dst, int64_t count,
                     const BinaryQuantizers& q) {
  std::array<uint8_t, kTableEntries> values{};
  std::array<uint8_t, kTableEntries> table{};
  std::iota(values.begin(), values.end(), uint8_t{0});
  table.fill(b);
  first_usable(binary_kernels(op))
      .function(values.data(), table.data(), table.data(), kTableEntries, q);
  lookup_table_u8(a, dst, count, table.data());
}

}  // namespace cpuaccel::kernels
