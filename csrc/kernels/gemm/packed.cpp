#include "kernels/gemm/packed.h"

#include <algorithm>

#include "base/huge_page_block.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/kernels.h"
#include "kernels/gemm/pieces.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kGrainPanels = 2;

}  // namespace

GemmPacked::GemmPacked(const GemmMatrix& b, int64_t K, int64_t N)
    : GemmPacked(b, K, N, first_usable(gemm_kernels()).function) {}

GemmPacked::GemmPacked(const GemmMatrix& b, int64_t K, int64_t N, GemmFunction* for_row)
    : GemmPacked(nullptr, b.type, K, N, for_row().nr, for_row().packed_kc) {
  row_ = for_row;
  owned_ = huge_page_block(bytes());
  data_ = reinterpret_cast<char*>(owned_.get());
  pack(b);
}

GemmPacked::GemmPacked(void* memory, DataType type, int64_t K, int64_t N, GemmFunction* for_row)
    : GemmPacked(memory, type, K, N, for_row().nr) {
  row_ = for_row;
}

GemmPacked::GemmPacked(void* memory, DataType type, int64_t K, int64_t N, int64_t nr)
    : GemmPacked(memory, type, K, N, nr, kGemmKc) {}

GemmPacked::GemmPacked(void* memory, DataType type, int64_t K, int64_t N, int64_t nr,
                       int64_t most_kc)
    : K_(K),
      N_(N),
      kc_(K == 0 ? 1 : gemm_kc(K, most_kc)),
      nr_(nr),
      padded_(round_up(N, nr_)),
      type_(type),
      data_(static_cast<char*>(memory)) {}

void GemmPacked::pack(const GemmMatrix& b) {
  if (type_ == DataType::f32) {
    pack_floats(b);
  } else {
    pack_halves(b);
  }
}

size_t GemmPacked::bytes() const {
  return static_cast<size_t>(K_ * padded_ * data_type_size(type_));
}

const char* GemmPacked::panel(int64_t k, int64_t n) const {
  const int64_t index = k * padded_ + n * std::min(kc_, K_ - k);
  return data_ + index * data_type_size(type_);
}

template <typename Write>
void GemmPacked::for_each_panel(const Write& write) {
  for_each_piece(padded_ / nr_, kGrainPanels, [&](int64_t piece) {
    const int64_t n0 = piece * nr_;
    for (int64_t k0 = 0; k0 < K_; k0 += kc_) {
      write(k0, std::min(kc_, K_ - k0), n0, std::min(nr_, N_ - n0),
            const_cast<char*>(panel(k0, n0)));
    }
  });
}

void GemmPacked::pack_floats(const GemmMatrix& b) {
  const auto* src = static_cast<const float*>(b.data);
  const auto row = row_ != nullptr ? row_ : first_usable(gemm_kernels()).function;
  const GemmKernels& kernels = row();
  for_each_panel([&](int64_t k0, int64_t k, int64_t n0, int64_t n, char* to) {
    kernels.panels({.src = src + k0 * b.row_stride + n0 * b.column_stride,
                    .type = DataType::f32,
                    .row_stride = b.row_stride,
                    .column_stride = b.column_stride,
                    .rows = k,
                    .columns = n,
                    .dst = reinterpret_cast<float*>(to),
                    .stride = 0},
                   nr_);
  });
}

void GemmPacked::pack_halves(const GemmMatrix& b) {
  const auto* src = static_cast<const uint16_t*>(b.data);
  for_each_panel([&](int64_t k0, int64_t k, int64_t n0, int64_t n, char* panel) {
    auto* to = reinterpret_cast<uint16_t*>(panel);
    for (int64_t i = k0; i < k0 + k; ++i, to += nr_) {
      for (int64_t j = 0; j < nr_; ++j) {
        to[j] = j < n ? src[i * b.row_stride + (n0 + j) * b.column_stride] : uint16_t{};
      }
    }
  });
}

template <typename Element>
void GemmPacked::unpack_elements(Element* dst, int64_t row_stride, int64_t column_stride) const {
  for_each_piece(padded_ / nr_, kGrainPanels, [&](int64_t piece) {
    const int64_t n0 = piece * nr_;
    const int64_t columns = std::min(nr_, N_ - n0);
    for (int64_t k0 = 0; k0 < K_; k0 += kc_) {
      const auto* from = reinterpret_cast<const Element*>(panel(k0, n0));
      for (int64_t k = k0; k < std::min(k0 + kc_, K_); ++k, from += nr_) {
        for (int64_t j = 0; j < columns; ++j) {
          dst[k * row_stride + (n0 + j) * column_stride] = from[j];
        }
      }
    }
  });
}

void GemmPacked::unpack(void* dst, int64_t row_stride, int64_t column_stride) const {
  if (type_ == DataType::f32) {
    unpack_elements(static_cast<float*>(dst), row_stride, column_stride);
  } else {
    unpack_elements(static_cast<uint16_t*>(dst), row_stride, column_stride);
  }
}

}  // namespace cpuaccel::kernels
