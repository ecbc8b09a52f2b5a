// WqWeights: weights of 4 or 8 bits with a scale, and maybe a zero point, for each group of k.
//
//   weights[k,n] = (code[k,n] - zero[g,n]) * scale[g,n]           g = k / group
//   weights[k,n] = (code[k,n] - center) * scale[g,n] + real[g,n]  with zeros of kind `reals`
//
// Codes of 4 bits are 0 to 15 with center 8, those of 8 bits -128 to 127 with center 0. Without
// zeros, zero = center.
//
// The memory, of version kWqVersion, on all CPUs: panels of 32 columns, one after another; a panel
// has its groups, one after another, and then 32 f32, the sums of weights[k,n] over k; a group has
//
//   codes   4 bits: dwords of (8 k) x (1 column), of all 32 columns for each 8 k. Bits 8i to 8i + 3
//           are those of k = i, bits 8i + 4 to 8i + 7 those of k = i + 4.
//           8 bits: dwords of (4 k) x (1 column), of all 32 columns for each 4 k. Byte i is k = i.
//   scales  32 of the format's type
//   zeros   32 bytes, or 32 of the scales' type, or nothing
//
// The k of a group are padded to a multiple of 8, or of 4, and the columns to 32. Codes of the
// padding are the center, scales and zeros of it 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/api.h"
#include "base/data_type.h"
#include "base/scratch.h"

namespace cpuaccel::kernels {

inline constexpr uint32_t kWqVersion = 1;
inline constexpr int64_t kWqColumns = 32;  // of a panel

// k of a dword of codes.
constexpr int64_t wq_run(int64_t bits) { return bits == 4 ? 8 : 4; }

enum class WqZeros : uint8_t { none, integers, reals };

struct WqFormat {
  int64_t bits = 4;    // 4 or 8
  int64_t group = 32;  // a multiple of 8, or all of K
  DataType scales = DataType::f32;
  WqZeros zeros = WqZeros::none;

  int32_t center() const { return bits == 4 ? 8 : 0; }
  int64_t run() const { return wq_run(bits); }
  bool operator==(const WqFormat&) const = default;
};

// Sizes in bytes, and counts, of a panel's parts.
struct WqLayout {
  int64_t groups = 0;       // of a panel
  int64_t code_bytes = 0;   // of a whole group; the last may have fewer
  int64_t scale_bytes = 0;  // of 32 scales
  int64_t zero_bytes = 0;   // of 32 zeros
  int64_t panel_bytes = 0;

  WqLayout() = default;
  WqLayout(const WqFormat& format, int64_t K);
  int64_t group_bytes() const { return code_bytes + scale_bytes + zero_bytes; }
  int64_t sums_offset() const { return groups * group_bytes(); }  // of a panel's sums
};

// Columns to be packed. Column n's codes are codes[n * code_stride + k], one in each byte. The
// scale of its group g is scales[n * scale_stride + g], its zeros likewise.
struct WqColumns {
  const int8_t* codes = nullptr;
  int64_t code_stride = 0;
  const float* scales = nullptr;
  const int8_t* integers = nullptr;
  const float* reals = nullptr;
  int64_t scale_stride = 0;
};

class CPUACCEL_API WqWeights {
 public:
  // Throws std::invalid_argument for a format that does not exist, and for K that the groups do not
  // divide.
  WqWeights(const WqFormat& format, int64_t N, int64_t K);
  // The same in the caller's memory: bytes() of it, which outlive the object.
  WqWeights(const WqFormat& format, int64_t N, int64_t K, std::byte* data);

  // Packs the columns of a panel: 32, or the rest of N. Several threads may pack different panels.
  void set_panel(int64_t panel, const WqColumns& columns);

  const WqFormat& format() const { return format_; }
  const WqLayout& layout() const { return layout_; }
  int64_t N() const { return N_; }
  int64_t K() const { return K_; }
  int64_t panels() const;
  size_t bytes() const;
  const std::byte* panel(int64_t index) const { return data_ + index * layout_.panel_bytes; }

  // Column n as floats, K of them: what the formulas above give in f32.
  void dequantize(int64_t n, float* dst) const;

 private:
  // The sum of a group's weights from that of its codes.
  double sum_of_weights(const WqColumns& columns, int64_t at, int64_t codes) const;

  WqFormat format_;
  int64_t N_, K_;
  WqLayout layout_;
  AlignedBlock owned_;  // may be empty
  std::byte* data_;
};

}  // namespace cpuaccel::kernels
