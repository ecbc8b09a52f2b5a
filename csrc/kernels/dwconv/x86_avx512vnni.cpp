#include <cstring>

#include "kernels/dot4/avx512vnni.h"
#include "kernels/dwconv/columns_avx512vnni.h"
#include "kernels/dwconv/impl.h"
#include "kernels/dwconv/tall_avx512vnni.h"

namespace cpuaccel::kernels {
namespace {

// One or two rows of taps fill at most half of a quad. With strides, results share few columns, and
// interleaving columns takes longer than reading the taps of each result.
bool few_taps_shared(const DwconvShape& shape) {
  constexpr int64_t kMostRows = 2, kMostTaps = 6;
  return shape.SW > 1 && shape.KH <= kMostRows && shape.KH * shape.KW <= kMostTaps;
}

bool dwconv_lanes(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows, void* scratch) {
  const DwconvShape& shape = call.weights->shape;
  if (shape.C < kDwconvBlock || call.dst.type == DataType::f32) {
    return false;
  }
  auto* padding = static_cast<std::byte*>(scratch);
  const size_t padding_bytes = dwconv_padding_bytes(call);
  const LanePiece piece{call, n, oh, rows, reinterpret_cast<const uint8_t*>(padding)};
  // The most that is read are two quads of rows from each row of results on.
  const int64_t first = oh * shape.SH - shape.PH, last = first + (rows - 1) * shape.SH + 7;
  if (first < 0 || last >= call.IH) {
    std::memset(padding, call.src_zero_point, padding_bytes);
  }
  return dwconv_columns(piece) || dwconv_tall(piece, padding + padding_bytes);
}

}  // namespace

void dwconv_x86_avx512vnni(const DwconvCall& call, int64_t n, int64_t oh, int64_t rows,
                           void* scratch) {
  if (few_taps_shared(call.weights->shape)) {
    dwconv_x86_avx2(call, n, oh, rows, scratch);
  } else if (!dwconv_lanes(call, n, oh, rows, scratch)) {
    dwconv_rows<Avx512VnniDot4>(call, n, oh, rows, scratch);
  }
}

}  // namespace cpuaccel::kernels
