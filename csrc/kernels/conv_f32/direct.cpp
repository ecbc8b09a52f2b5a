#include "kernels/conv_f32/direct.h"

#include <algorithm>

#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/gemm/blocking.h"
#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

class DirectConv {
 public:
  explicit DirectConv(const DirectConvCall& call)
      : call_(call),
        s_(call.shape),
        last_(call.layout == ImageLayout::channels_last),
        kernels_(call.weights[0].row()()),
        src_channels_(s_.C / s_.groups),
        dst_channels_(s_.OC / s_.groups),
        K_(src_channels_ * s_.taps()),
        kc_(call.weights[0].kc()),
        panels_(divide_up(dst_channels_, kernels_.nr)),
        staging_(s_, call.layout, call.order, kStagedPanels * kernels_.nr, blocks_wanted()) {}

  // A task is one panel of the weights times one block of a group of an image. Panels vary fastest,
  // so that successive tasks share the block.
  void run() const {
    const int64_t blocks = s_.N * s_.groups * staging_.blocks();
    const int64_t work = kernels_.nr * staging_.most_pixels() * K_;
    const int64_t grain = at_least(kGrain / at_least(work, 1), 1);
    parallel_for(0, blocks * panels_, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t panel = i % panels_;
        const int64_t together = std::min(end - i, panels_ - panel);
        multiply(i / panels_, panel, panel + together);
        i += together;
      }
    });
  }

 private:
  static constexpr int64_t kGrain = 1 << 17;  // multiply-adds per thread at least
  // kStagedPanels * nr floats, 192 KiB with AVX2 and 384 KiB with AVX-512, stay in L2 beside a
  // panel of weights.
  static constexpr int64_t kStagedPanels = 3072;
  static constexpr int64_t kPixels = 56;  // their sums, 7 KiB, are in L1 when they are written

  // Enough blocks for an even share among threads.
  int64_t blocks_wanted() const {
    const int64_t threads = parallel_threads();
    return threads == 1 ? 1 : divide_up(4 * threads, s_.N * s_.groups * panels_);
  }

  void multiply(int64_t index, int64_t panel0, int64_t panel1) const {
    const int64_t block = index % staging_.blocks();
    const int64_t group = index / staging_.blocks() % s_.groups;
    const int64_t image = index / staging_.blocks() / s_.groups;
    const int64_t area = s_.IH * s_.IW;
    const float* src = call_.src + image * s_.C * area + group * src_channels_ * (last_ ? 1 : area);
    auto* memory = static_cast<float*>(scratch(
        ScratchSlot::taps, static_cast<size_t>(at_least(staging_.floats(), 1)) * sizeof(float)));
    auto** pixels = static_cast<const float**>(
        scratch(ScratchSlot::runs, static_cast<size_t>(staging_.most_pixels()) * sizeof(float*)));
    const int64_t count = staging_.load(src, block, memory, pixels);
    for (int64_t panel = panel0; panel < panel1; ++panel) {
      const int64_t n0 = panel * kernels_.nr;
      const int64_t n = std::min(kernels_.nr, dst_channels_ - n0);
      const int64_t oc = group * dst_channels_ + n0;
      for (int64_t i = 0; i < count; i += kPixels) {
        const int64_t some = std::min(kPixels, count - i);
        const int64_t pixel = staging_.first(block) + i;
        const Tile tile{group, n0, n, pixels + i, some, i == 0, i + kPixels >= count};
        if (last_) {
          sums(tile, oc, call_.dst + (image * s_.pixels() + pixel) * s_.OC + oc, s_.OC);
        } else {
          by_channel(tile, oc, call_.dst + (image * s_.OC + oc) * s_.pixels() + pixel);
        }
      }
    }
  }

  // Columns [n0, n0 + n) of a group's weights times `count` pixels.
  struct Tile {
    int64_t group, n0, n;
    const float* const* pixels;
    int64_t count;
    bool first, last;  // of the tiles of this panel
  };

  // What is read after the panel's block at k, for prefetching: its next block, which later tiles
  // find in L2, or the first block of the next panel.
  std::span<const char> after(const Tile& tile, int64_t k) const {
    const auto& weights = call_.weights[static_cast<size_t>(tile.group)];
    int64_t next_k = k + kc_, n0 = tile.n0;
    if (next_k >= K_ && tile.last) {
      next_k = 0;
      n0 += kernels_.nr;
    } else if (!tile.first) {
      return {};
    }
    if (next_k >= K_ || n0 >= dst_channels_) {
      return {};
    }
    const auto rows = static_cast<size_t>(std::min(kc_, K_ - next_k));
    return {weights.panel(next_k, n0), rows * static_cast<size_t>(kernels_.nr) * sizeof(float)};
  }

  void sums(const Tile& tile, int64_t oc, float* dst, int64_t stride) const {
    const auto& weights = call_.weights[static_cast<size_t>(tile.group)];
    for (int64_t k = 0; k < K_; k += kc_) {
      kernels_.pixels({.m = tile.count,
                       .n = tile.n,
                       .k = std::min(kc_, K_ - k),
                       .src = tile.pixels,
                       .offsets = staging_.offsets().data() + k,
                       .panel = reinterpret_cast<const float*>(weights.panel(k, tile.n0)),
                       .bias = call_.bias != nullptr ? call_.bias + oc : nullptr,
                       .c = dst,
                       .c_stride = stride,
                       .add = k > 0,
                       .next = after(tile, k)});
    }
  }

  // The kernel computes sums pixel by pixel; dst is channel by channel.
  void by_channel(const Tile& tile, int64_t oc, float* dst) const {
    auto* block = static_cast<float*>(
        scratch(ScratchSlot::accumulator, static_cast<size_t>(kPixels * kernels_.nr) * 4));
    sums(tile, oc, block, kernels_.nr);
    kernels_.load({.src = block,
                   .type = DataType::f32,
                   .row_stride = 1,
                   .column_stride = kernels_.nr,
                   .rows = tile.n,
                   .columns = tile.count,
                   .dst = dst,
                   .stride = s_.pixels()});
  }

  const DirectConvCall& call_;
  const Conv2dShape& s_;
  const bool last_;
  const GemmKernels& kernels_;
  const int64_t src_channels_, dst_channels_;
  const int64_t K_, kc_;
  const int64_t panels_;
  const Staging staging_;
};

}  // namespace

void direct_conv(const DirectConvCall& call) { DirectConv(call).run(); }

}  // namespace cpuaccel::kernels
