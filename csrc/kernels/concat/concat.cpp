#include "kernels/concat/concat.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"
#include "kernels/lookup_table/lookup_table.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrain = 65536;
constexpr int64_t kBuffer = 8192;  // stays in L1 between the table and the copy

// Rows of 16, 24 or 58 bytes are common: a call of memcpy would cost more than the copy.
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

void copy_rows(const uint8_t* src, int64_t src_stride, uint8_t* dst, int64_t dst_stride,
               int64_t columns, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    copy_row(dst + row * dst_stride, src + row * src_stride, columns);
  }
}

// Short rows go through the table several at a time.
void place(const ConcatPart& part, uint8_t* dst, int64_t dst_stride, int64_t rows,
           LookupTableFunction* look_up) {
  const auto& [src, columns, stride, table] = part;
  if (table == nullptr) {
    copy_rows(src, stride, dst, dst_stride, columns, rows);
    return;
  }
  if (2 * columns > kBuffer) {
    for (int64_t row = 0; row < rows; ++row) {
      look_up(src + row * stride, dst + row * dst_stride, columns, table);
    }
    return;
  }
  alignas(64) std::array<uint8_t, kBuffer> buffer;
  const int64_t together = kBuffer / columns;
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t count = std::min(together, rows - row);
    const uint8_t* gathered = src + row * stride;
    if (stride != columns) {
      copy_rows(gathered, stride, buffer.data(), columns, columns, count);
      gathered = buffer.data();
    }
    look_up(gathered, buffer.data(), count * columns, table);
    copy_rows(buffer.data(), columns, dst + row * dst_stride, dst_stride, columns, count);
  }
}

}  // namespace

void concat_u8(std::span<const ConcatPart> parts, uint8_t* dst, int64_t rows) {
  const auto look_up = first_usable(lookup_table_kernels()).function;
  int64_t dst_columns = 0;
  for (const auto& part : parts) {
    dst_columns += part.columns;
  }
  const auto body = [&](int64_t begin, int64_t end) {
    int64_t first_column = 0;
    for (auto part : parts) {
      if (part.columns > 0) {
        part.src += begin * part.stride;
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
