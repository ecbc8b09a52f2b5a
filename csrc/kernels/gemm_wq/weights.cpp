#include "kernels/gemm_wq/weights.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/huge_page_block.h"
#include "kernels/gemm/half.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

void check(const WqFormat& format, int64_t N, int64_t K) {
  const auto fail = [](const std::string& what) { throw std::invalid_argument(what); };
  if (format.bits != 4 && format.bits != 8) {
    fail("weights have 4 or 8 bits, not " + std::to_string(format.bits));
  }
  if (N < 0 || K < 0) {
    fail("negative sizes: N " + std::to_string(N) + ", K " + std::to_string(K));
  }
  if (format.group < 1 || (format.group != K && format.group % 8 != 0)) {
    fail("the group size is a multiple of 8 or K, not " + std::to_string(format.group));
  }
  if (K % format.group != 0) {
    fail("groups of " + std::to_string(format.group) + " do not divide K " + std::to_string(K));
  }
}

// The byte of a column's dwords, and the bits in it, of each k.
uint8_t& byte_of(std::byte* codes, const WqFormat& format, int64_t k, int64_t column) {
  const int64_t dword = k / format.run() * kWqColumns + column;
  return reinterpret_cast<uint8_t&>(codes[dword * 4 + k % 4]);
}
int shift_of(const WqFormat& format, int64_t k) { return format.bits == 4 && k % 8 >= 4 ? 4 : 0; }

void set_code(std::byte* codes, const WqFormat& format, int64_t k, int64_t column, int8_t code) {
  uint8_t& byte = byte_of(codes, format, k, column);
  if (format.bits == 8) {
    byte = static_cast<uint8_t>(code);
    return;
  }
  const int shift = shift_of(format, k);
  byte = static_cast<uint8_t>((byte & (0xf0 >> shift)) | (code & 0xf) << shift);
}

int32_t code_at(std::byte* codes, const WqFormat& format, int64_t k, int64_t column) {
  const uint8_t byte = byte_of(codes, format, k, column);
  return format.bits == 8 ? static_cast<int8_t>(byte) : byte >> shift_of(format, k) & 0xf;
}

}  // namespace

WqLayout::WqLayout(const WqFormat& format, int64_t K)
    : groups(divide_up(K, format.group)),
      code_bytes(divide_up(format.group, format.run()) * kWqColumns * 4),
      scale_bytes(kWqColumns * data_type_size(format.scales)),
      zero_bytes(format.zeros == WqZeros::none       ? 0
                 : format.zeros == WqZeros::integers ? kWqColumns
                                                     : scale_bytes),
      panel_bytes(sums_offset() + kWqColumns * int64_t{sizeof(float)}) {}

WqWeights::WqWeights(const WqFormat& format, int64_t N, int64_t K, std::byte* data)
    : format_(format), N_(N), K_(K), data_(data) {
  check(format, N, K);
  layout_ = WqLayout(format, K);
}

WqWeights::WqWeights(const WqFormat& format, int64_t N, int64_t K)
    : WqWeights(format, N, K, nullptr) {
  owned_ = huge_page_block(std::max<size_t>(bytes(), 1));
  data_ = owned_.get();
}

int64_t WqWeights::panels() const { return divide_up(N_, kWqColumns); }

size_t WqWeights::bytes() const { return static_cast<size_t>(panels() * layout_.panel_bytes); }

void WqWeights::set_panel(int64_t panel, const WqColumns& columns) {
  const int64_t count = std::min(kWqColumns, N_ - panel * kWqColumns);
  std::byte* to = data_ + panel * layout_.panel_bytes;
  std::byte* const sums_at = to + layout_.sums_offset();
  double sums[kWqColumns] = {};
  const int padding = format_.bits == 4 ? 0x88 : 0;
  for (int64_t g = 0; g < layout_.groups; ++g, to += layout_.group_bytes()) {
    std::memset(to, padding, static_cast<size_t>(layout_.code_bytes));
    std::byte* scales = to + layout_.code_bytes;
    std::byte* zeros = scales + layout_.scale_bytes;
    std::memset(scales, 0, static_cast<size_t>(layout_.scale_bytes + layout_.zero_bytes));
    for (int64_t j = 0; j < count; ++j) {
      const int8_t* codes = columns.codes + j * columns.code_stride + g * format_.group;
      int64_t sum = 0;
      for (int64_t k = 0; k < format_.group; ++k) {
        set_code(to, format_, k, j, codes[k]);
        sum += codes[k];
      }
      const int64_t at = j * columns.scale_stride + g;
      sums[j] += sum_of_weights(columns, at, sum);
      float_to_element(columns.scales[at], scales, format_.scales, j);
      if (format_.zeros == WqZeros::integers) {
        std::memcpy(zeros + j, columns.integers + at, 1);
      } else if (format_.zeros == WqZeros::reals) {
        float_to_element(columns.reals[at], zeros, format_.scales, j);
      }
    }
  }
  for (int64_t j = 0; j < kWqColumns; ++j) {
    float_to_element(static_cast<float>(sums[j]), sums_at, DataType::f32, j);
  }
}

double WqWeights::sum_of_weights(const WqColumns& columns, int64_t at, int64_t codes) const {
  const bool reals = format_.zeros == WqZeros::reals;
  const int64_t zero = format_.zeros == WqZeros::integers ? columns.integers[at] : format_.center();
  const auto centered = static_cast<double>(codes - format_.group * zero);
  const double scale = static_cast<double>(columns.scales[at]);
  const double real = reals ? static_cast<double>(columns.reals[at]) : 0.0;
  return centered * scale + static_cast<double>(format_.group) * real;
}

void WqWeights::dequantize(int64_t n, float* dst) const {
  const int64_t column = n % kWqColumns;
  std::byte* from = data_ + n / kWqColumns * layout_.panel_bytes;
  for (int64_t g = 0; g < layout_.groups; ++g, from += layout_.group_bytes()) {
    const std::byte* scales = from + layout_.code_bytes;
    const std::byte* zeros = scales + layout_.scale_bytes;
    const float scale = element_to_float(scales, format_.scales, column);
    const bool reals = format_.zeros == WqZeros::reals;
    const float real = reals ? element_to_float(zeros, format_.scales, column) : 0.0f;
    const int32_t zero =
        format_.zeros == WqZeros::integers ? static_cast<int8_t>(zeros[column]) : format_.center();
    for (int64_t k = 0; k < format_.group; ++k) {
      const auto code = static_cast<float>(code_at(from, format_, k, column) - zero);
      *dst++ = reals ? __builtin_fmaf(code, scale, real) : code * scale;
    }
  }
}

}  // namespace cpuaccel::kernels
