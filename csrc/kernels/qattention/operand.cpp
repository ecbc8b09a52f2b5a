#include "kernels/qattention/operand.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

namespace cpuaccel::kernels {
namespace {

constexpr uint32_t kSignBits = 0x01010101u * kSignBit;

static_assert(std::endian::native == std::endian::little, "the first of four bytes is the lowest");

}  // namespace

QattentionOperand::QattentionOperand(int64_t depth, int64_t columns, std::byte* memory)
    : depth_(depth), columns_(columns) {
  weights_.shape = shape(depth, columns);
  weights_.layout = qconv_layout(weights_.shape);
  const int64_t values = weights_.layout.part_blocks() * weights_.layout.block_bytes();
  weights_.values.reset(memory);
  weights_.channel_sums.reset(memory + values);
}

QattentionOperand::~QattentionOperand() {
  static_cast<void>(weights_.values.release());
  static_cast<void>(weights_.channel_sums.release());
}

void QattentionOperand::pack_columns(const uint8_t* src, int64_t column_stride) {
  const int64_t steps = weights_.layout.steps, whole = depth_ / 4;
  const int64_t padded = weights_.layout.part_blocks() * kQconvBlock;
  for (int64_t c = 0; c < padded; ++c) {
    int8_t* const to = block(c / kQconvBlock) + c % kQconvBlock * 4;
    const auto put = [to](int64_t step, uint32_t bytes) {
      std::memcpy(to + step * kQconvBlock * 4, &bytes, 4);
    };
    if (c >= columns_) {
      for (int64_t step = 0; step < steps; ++step) {
        put(step, 0);
      }
      sums()[c] = 0;
      continue;
    }
    const uint8_t* const column = src + c * column_stride;
    for (int64_t step = 0; step < whole; ++step) {
      uint32_t bytes = 0;
      std::memcpy(&bytes, column + step * 4, 4);
      put(step, bytes ^ kSignBits);
    }
    if (whole < steps) {
      uint32_t bytes = kSignBits;  // stored as 0
      std::memcpy(&bytes, column + whole * 4, static_cast<size_t>(depth_ - whole * 4));
      put(whole, bytes ^ kSignBits);
    }
    sums()[c] = std::accumulate(column, column + depth_, int32_t{0}) -
                static_cast<int32_t>(depth_) * kSignBit;
  }
}

void QattentionOperand::pack_rows(const uint8_t* src, int64_t row_stride) {
  using Row = std::array<uint8_t, kQconvBlock>;
  const int64_t steps = weights_.layout.steps;
  for (int64_t first = 0; first < columns_; first += kQconvBlock) {
    const auto count = static_cast<size_t>(std::min(kQconvBlock, columns_ - first));
    int8_t* const to = block(first / kQconvBlock);
    std::array<int32_t, kQconvBlock> sum{};
    for (int64_t step = 0; step < steps; ++step) {
      std::array<Row, 4> rows;
      for (int64_t i = 0; i < 4; ++i) {
        auto& row = rows[static_cast<size_t>(i)];
        const int64_t k = step * 4 + i;
        if (k >= depth_ || count < row.size()) {
          row.fill(kSignBit);  // stored as 0
        }
        if (k < depth_) {
          std::memcpy(row.data(), src + k * row_stride + first, count);
        }
      }
      std::array<uint32_t, kQconvBlock> words;
      for (size_t c = 0; c < words.size(); ++c) {
        const uint32_t a = rows[0][c], b = rows[1][c], d = rows[2][c], e = rows[3][c];
        words[c] = (a | b << 8 | d << 16 | e << 24) ^ kSignBits;
        sum[c] += static_cast<int32_t>(a + b + d + e) - 4 * kSignBit;
      }
      std::memcpy(to + step * kQconvBlock * 4, words.data(), sizeof(words));
    }
    std::copy(sum.begin(), sum.end(), sums() + first);
  }
}

}  // namespace cpuaccel::kernels
