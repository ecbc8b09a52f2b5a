#include "kernels/concat/concat.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"
#include "kernels/table/table.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrain = 65536;
constexpr int64_t kBuffer = 8192;  // stays in the first cache between the table and the copy

// Channels come to 16, 24, 58 bytes a row: for those a call of memcpy costs more than the copy.
inline void copy_row(uint8_t* dst, const uint8_t* src, int64_t count) {
  constexpr int64_t kBlock = 16;
  if (count < kBlock || count > 8 * kBlock) {
    std::memcpy(dst, src, static_cast<size_t>(count));
    return;
  }
  const int64_t last = count - kBlock;
  for (int64_t i = 0; i < last; i += kBlock) {
    std::memcpy(dst + i, src + i, kBlock);
  }
  std::memcpy(dst + last, src + last, kBlock);
}

void copy_rows(const uint8_t* src, int64_t columns, uint8_t* dst, int64_t dst_columns,
               int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    copy_row(dst + row * dst_columns, src + row * columns, columns);
  }
}

// Short rows go through the table together, because they lie together in the source.
void place(const ConcatPart& part, uint8_t* dst, int64_t dst_columns, int64_t rows,
           TableFunction* look_up) {
  if (part.table == nullptr) {
    copy_rows(part.src, part.columns, dst, dst_columns, rows);
    return;
  }
  if (2 * part.columns > kBuffer) {
    for (int64_t row = 0; row < rows; ++row) {
      look_up(part.src + row * part.columns, dst + row * dst_columns, part.columns, part.table);
    }
    return;
  }
  alignas(64) std::array<uint8_t, kBuffer> buffer;
  const int64_t together = kBuffer / part.columns;
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t count = std::min(together, rows - row);
    look_up(part.src + row * part.columns, buffer.data(), count * part.columns, part.table);
    copy_rows(buffer.data(), part.columns, dst + row * dst_columns, dst_columns, count);
  }
}

}  // namespace

void concat_u8(std::span<const ConcatPart> parts, uint8_t* dst, int64_t rows) {
  const auto look_up = first_usable(table_kernels()).function;
  int64_t dst_columns = 0;
  for (const auto& part : parts) {
    dst_columns += part.columns;
  }
  const auto body = [&](int64_t begin, int64_t end) {
    int64_t first_column = 0;
    for (auto part : parts) {
      if (part.columns > 0) {
        part.src += begin * part.columns;
        place(part, dst + begin * dst_columns + first_column, dst_columns, end - begin, look_up);
        first_column += part.columns;
      }
    }
  };
  if (rows * dst_columns <= kGrain) {
    body(0, rows);
  } else {
    parallel_for(0, rows, std::max<int64_t>(1, kGrain / dst_columns), body);
  }
}

}  // namespace cpuaccel::kernels
