// Not by gemm() itself, which packs the whole right matrix before it multiplies: an unfolded image
// is KH * KW times the image, and for as few rows as these weights have it must not leave L2.
#include "kernels/conv_f32/channels_first.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/conv_f32/unfold.h"
#include "kernels/gemm/blocking.h"

namespace cpuaccel::kernels {
namespace {

// One tap on every pixel: as well an image of one row.
Conv2dShape flattened(Conv2dShape s) {
  if (conv_is_pointwise(s)) {
    s.IW *= s.IH;
    s.OW *= s.OH;
    s.IH = s.OH = 1;
  }
  return s;
}

class ChannelsFirst {
 public:
  ChannelsFirst(const ConvF32Call& call, const GemmKernels& kernels)
      : call_(call),
        kernels_(kernels),
        unfold_(first_usable(unfold_kernels()).function),
        s_(flattened(call.shape)),
        src_channels_(s_.C / s_.groups),
        dst_channels_(s_.OC / s_.groups),
        K_(src_channels_ * s_.taps()),
        kc_(even_part(K_, kDepth, 4)),
        columns_(even_part(s_.pixels(), kColumns, kernels.nr)),
        rows_(even_part(dst_channels_, kRowTiles * kernels.mr, kernels.mr)),
        chunks_(divide_up(s_.pixels(), columns_)),
        parts_(divide_up(dst_channels_, rows_)) {}

  // A piece of work is a block of rows of a chunk of columns of a group of an image, the rows
  // fastest: successive pieces of a chunk share its unfolded image.
  void run() const {
    const int64_t pieces = s_.N * s_.groups * chunks_ * parts_;
    const int64_t work = rows_ * columns_ * K_;
    const int64_t grain = std::max<int64_t>(1, kGrain / work);
    parallel_for(0, pieces, grain, [&](int64_t begin, int64_t end) {
      const auto bytes = static_cast<size_t>(kc_ * columns_) * sizeof(float);
      auto* panels = static_cast<float*>(scratch(ScratchSlot::taps, bytes));
      for (int64_t i = begin; i < end;) {
        const int64_t part = i % parts_, chunk = i / parts_;
        const int64_t most = std::max<int64_t>(1, kc_ >= K_ ? parts_ : kWaitingRows / rows_);
        const int64_t together = std::min({end - i, parts_ - part, most});
        multiply(chunk, part * rows_, std::min(dst_channels_, (part + together) * rows_), panels);
        i += together;
      }
    });
  }

 private:
  static constexpr int64_t kDepth = 256;         // terms: a panel of them stays in L1
  static constexpr int64_t kColumns = 128;       // with as many terms 128 KiB, which stay in L2
  static constexpr int64_t kRowTiles = 24;       // likewise
  static constexpr int64_t kWaitingRows = 1024;  // and their sums 512 KiB
  static constexpr int64_t kGrain = 1 << 17;     // multiply-adds for which a thread is worth waking

  // Rows [m0, m1) of a chunk.
  void multiply(int64_t chunk, int64_t m0, int64_t m1, float* panels) const {
    const int64_t n0 = chunk % chunks_ * columns_;
    const int64_t group = chunk / chunks_ % s_.groups, image = chunk / chunks_ / s_.groups;
    const int64_t columns = std::min(columns_, s_.pixels() - n0);
    const UnfoldedImages images{&s_, call_.src + group * src_channels_ * s_.IH * s_.IW, unfold_};
    float* dst = call_.dst + ((image * s_.groups + group) * dst_channels_ + m0) * s_.pixels() + n0;
    const int64_t oc = group * dst_channels_ + m0;
    const float* weights = call_.weights + oc * K_;
    const float* bias = call_.bias != nullptr ? call_.bias + oc : nullptr;
    // With all terms in one block each block of rows is complete at once; else all rows wait.
    const int64_t together = kc_ >= K_ ? rows_ : m1 - m0;
    auto* sums = static_cast<float*>(scratch(
        ScratchSlot::accumulator, static_cast<size_t>(together * columns_) * sizeof(float)));
    for (int64_t k = 0; k < K_; k += kc_) {
      const int64_t kc = std::min(kc_, K_ - k);
      unfold_panels(images, {image, k, kc, n0, columns, kernels_.nr, panels});
      for (int64_t m = 0; m < m1 - m0; m += rows_) {
        const int64_t rows = std::min(rows_, m1 - m0 - m);
        float* to = sums + (kc_ >= K_ ? 0 : m * columns_);
        multiply_block(weights + m * K_ + k, rows, columns, kc, panels, to, k > 0);
        if (k + kc == K_) {
          write(to, rows, columns, bias != nullptr ? bias + m : bias, dst + m * s_.pixels());
        }
      }
    }
  }

  // Rows times all panels. Sums go to scratch memory that stays in L1 and L2, and from there to dst
  // in long rows: the rows of dst itself are a power of two or so apart, and evict each other.
  void multiply_block(const float* weights, int64_t rows, int64_t columns, int64_t kc,
                      const float* panels, float* sums, bool add) const {
    for (int64_t n = 0; n < columns; n += kernels_.nr) {
      kernels_.tile({.m = rows,
                     .n = std::min(kernels_.nr, columns - n),
                     .k = kc,
                     .a = weights,
                     .a_stride = K_,
                     .panel = panels + n * kc,
                     .type = GemmType::f32,
                     .c = sums + n,
                     .c_stride = columns_,
                     .alpha = 1.0f,
                     .add = add,
                     .next = {}});
    }
  }

  void write(const float* sums, int64_t rows, int64_t columns, const float* bias,
             float* dst) const {
    for (int64_t m = 0; m < rows; ++m) {
      const float* from = sums + m * columns_;
      float* to = dst + m * s_.pixels();
      const float added = bias != nullptr ? bias[m] : 0.0f;
      for (int64_t n = 0; n < columns; ++n) {
        to[n] = from[n] + added;
      }
    }
  }

  const ConvF32Call& call_;
  const GemmKernels& kernels_;
  UnfoldFunction* const unfold_;
  const Conv2dShape s_;
  const int64_t src_channels_, dst_channels_, K_;
  const int64_t kc_, columns_, rows_;
  const int64_t chunks_, parts_;
};

}  // namespace

void conv_channels_first(const ConvF32Call& call, const GemmKernels& kernels) {
  ChannelsFirst(call, kernels).run();
}

}  // namespace cpuaccel::kernels
