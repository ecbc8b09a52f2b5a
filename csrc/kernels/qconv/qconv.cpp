#include "kernels/qconv/qconv.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/parallel.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

#define CPUACCEL_ROW(name, isa) KernelRow<QconvFunction>{#name, isa, qconv_##name},
constexpr std::array kRows{CPUACCEL_QCONV_KERNELS(CPUACCEL_ROW)};
#undef CPUACCEL_ROW

// Multiply-adds that are worth a thread: about 10 us.
constexpr int64_t kGrain = 300000;

constexpr uint8_t kLow = 127;  // QconvExcess is what is above that

bool any_above_low(const uint8_t* bytes, int64_t count) {
  const auto eight = [bytes](int64_t i) {
    uint64_t result = 0;
    std::memcpy(&result, bytes + i, 8);
    return result;
  };
  uint64_t all = 0;
  if (count >= 8) {
    for (int64_t i = 0; i + 8 < count; i += 8) {
      all |= eight(i);
    }
    all |= eight(count - 8);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      all |= bytes[i];
    }
  }
  return (all & 0x8080808080808080u) != 0;
}

uint32_t excess_of(const uint8_t* four) {
  std::array<uint8_t, 4> bytes{};
  for (size_t i = 0; i < 4; ++i) {
    bytes[i] = four[i] > kLow ? static_cast<uint8_t>(four[i] - kLow) : uint8_t{0};
  }
  uint32_t result = 0;
  std::memcpy(&result, bytes.data(), 4);
  return result;
}

// Whether the row is one for runs without high bytes, and looking for these may be worth it.
bool wants_low_runs(const QconvWeights& weights, [[maybe_unused]] QconvFunction* function) {
#if defined(__x86_64__)
  constexpr int64_t kMostBytes = 4 << 20;  // of a panel's runs
  constexpr int64_t kFewChannels = 8;
  const QconvLayout& layout = weights.layout;
  return function == qconv_x86_avx2 && weights.form == QconvForm::whole && layout.parts == 1 &&
         !layout.several_groups && layout.part_outputs >= kFewChannels &&
         layout.taps * layout.steps * 4 * kQconvPanel <= kMostBytes;
#else
  static_cast<void>(weights);
  return false;
#endif
}

// A panel's table of runs, with room for the runs that are not in the source as they are read.
class Runs {
 public:
  Runs(const QconvCall& call, bool low)
      : call_(call),
        shape_(call.weights->shape),
        layout_(call.weights->layout),
        src_end_(call.src + call.N * call.IH * call.IW * shape_.IC),
        // What a tile may read from a run's start: all parts, and the last step's four bytes.
        reach_((layout_.parts - 1) * layout_.part_inputs +
               std::max<int64_t>(layout_.steps * 4, layout_.several_groups ? kQconvBlock : 0)) {
    const int64_t pointers =
        layout_.taps * kQconvPanel * static_cast<int64_t>(sizeof(const uint8_t*));
    const int64_t copies = layout_.taps * kQconvPanel * reach_;
    const int64_t cuts = low ? round_up(most_excess() * int64_t{sizeof(QconvExcess)}, 8) +
                                   kFirsts * int64_t{sizeof(int32_t)} +
                                   layout_.taps * kQconvPanel * run_bytes()
                             : 0;
    auto* memory = static_cast<uint8_t*>(
        scratch(ScratchSlot::runs, static_cast<size_t>(pointers + cuts + reach_ + copies)));
    table_ = reinterpret_cast<const uint8_t**>(memory);
    if (low) {
      excess_ = reinterpret_cast<QconvExcess*>(memory + pointers);
      first_ = reinterpret_cast<int32_t*>(
          memory + pointers + round_up(most_excess() * int64_t{sizeof(QconvExcess)}, 8));
      low_runs_ = reinterpret_cast<uint8_t*>(first_ + kFirsts);
    }
    padding_ = memory + pointers + cuts;
    copies_ = padding_ + reach_;
    std::memset(padding_, call.src_zero_point, static_cast<size_t>(reach_));
  }

  const uint8_t* const* table() const { return table_; }

  // Fills the table for pixels [first, first + count) of N*OH*OW.
  void fill(int64_t first, int64_t count) {
    uint8_t* copy = copies_;
    if (is_every_pixel_ && src_end_ - (call_.src + (first + count - 1) * shape_.IC) >= reach_) {
      for (int64_t i = 0; i < count; ++i) {
        table_[i] = call_.src + (first + i) * shape_.IC;
      }
      repeat_last(count);
      return;
    }
    // Of the first; the others are counted up, for dividing takes as long as some of the sums.
    int64_t n = first / (call_.OH * call_.OW);
    int64_t oh = first / call_.OW % call_.OH, ow = first % call_.OW;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t ih0 = oh * shape_.SH - shape_.PH, iw0 = ow * shape_.SW - shape_.PW;
      for (int64_t tap = 0; tap < layout_.taps; ++tap) {
        const bool row = layout_.merged_row || layout_.taps == 1;
        const int64_t kh = row ? tap : tap / shape_.KW;
        const int64_t kw = row ? 0 : tap % shape_.KW;
        table_[tap * kQconvPanel + i] = run(n, ih0 + kh * shape_.DH, iw0 + kw * shape_.DW, copy);
      }
      if (++ow == call_.OW) {
        ow = 0;
        if (++oh == call_.OH) {
          oh = 0;
          ++n;
        }
      }
    }
    repeat_last(count);
  }

  // After fill(): takes what is above kLow out of the runs, and says so to `panel`; leaves all as
  // it is where that is much.
  void cut(QconvPanel& panel) {
    panel.excess_first = nullptr;
    if (excess_ == nullptr || !find_excess(panel.pixels)) {
      return;
    }
    uint8_t* copy = low_runs_;
    for (int64_t pixel = 0; pixel < panel.pixels; ++pixel) {
      for (int32_t i = first_[pixel]; i < first_[pixel + 1]; ++i) {
        const int32_t tap = excess_[i].tap;
        if (i > first_[pixel] && excess_[i - 1].tap == tap) {
          continue;
        }
        const uint8_t*& run = table_[tap * kQconvPanel + pixel];
        std::transform(run, run + run_bytes(), copy,
                       [](uint8_t byte) { return std::min(byte, kLow); });
        run = copy;
        copy += run_bytes();
      }
    }
    panel.excess_first = first_;
    panel.excess = excess_;
  }

 private:
  static constexpr int64_t kFirsts = kQconvPanel + kQconvTallest + 1;

  int64_t run_bytes() const { return layout_.steps * 4; }
  // Each takes as long as the step of a pixel of a tile, or somewhat longer; a third of that is
  // what low runs save.
  int64_t most_excess() const {
    constexpr int64_t kOneOf = 8;
    return layout_.taps * layout_.steps * kQconvPanel / kOneOf + kQconvPanel;
  }

  // False where there is too much of it, as far as it has looked.
  bool find_excess(int64_t count) {
    const int64_t steps_of_a_pixel = layout_.taps * layout_.steps;
    int32_t found = 0;
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      first_[pixel] = found;
      for (int64_t tap = 0; tap < layout_.taps; ++tap) {
        const uint8_t* const run = table_[tap * kQconvPanel + pixel];
        if (!any_above_low(run, layout_.run)) {
          continue;
        }
        for (int64_t step = 0; step < layout_.steps; ++step) {
          const uint32_t bytes = excess_of(run + step * 4);
          if (bytes == 0) {
            continue;
          }
          // One of eight steps, and some to begin with.
          if (8 * (found - kQconvTallest) > (pixel + 1) * steps_of_a_pixel) {
            return false;
          }
          excess_[found++] = {static_cast<int32_t>(tap), static_cast<int32_t>(step), bytes};
        }
      }
    }
    std::fill(first_ + count, first_ + kFirsts, found);
    return true;
  }

  void repeat_last(int64_t count) {
    for (int64_t i = count; i % kQconvTallest != 0; ++i) {
      for (int64_t tap = 0; tap < layout_.taps; ++tap) {
        table_[tap * kQconvPanel + i] = table_[tap * kQconvPanel + count - 1];
      }
    }
  }

  // Where the run from column iw of row ih lies; `copy` moves on if it has to be put together.
  const uint8_t* run(int64_t n, int64_t ih, int64_t iw, uint8_t*& copy) const {
    const int64_t columns = layout_.merged_row ? shape_.KW : 1;
    if (ih < 0 || ih >= call_.IH || iw + columns <= 0 || iw >= call_.IW) {
      return padding_;
    }
    const uint8_t* row = call_.src + (n * call_.IH + ih) * call_.IW * shape_.IC;
    const bool inside = iw >= 0 && iw + columns <= call_.IW;
    const uint8_t* from = row + iw * shape_.IC;
    if (inside && src_end_ - from >= reach_) {
      return from;
    }
    // At the image's edge (merged rows only), or so near to the source's end that a step would read
    // past it.
    const int64_t left = std::max<int64_t>(0, -iw);
    const int64_t right = std::min(columns, call_.IW - iw);
    std::memset(copy, call_.src_zero_point, static_cast<size_t>(reach_));
    const int64_t bytes = layout_.merged_row
                              ? (right - left) * shape_.IC
                              : std::min(reach_, static_cast<int64_t>(src_end_ - from));
    std::memcpy(copy + left * shape_.IC, row + (iw + left) * shape_.IC, static_cast<size_t>(bytes));
    const uint8_t* result = copy;
    copy += reach_;
    return result;
  }

  const QconvCall& call_;
  const QconvShape& shape_;
  const QconvLayout& layout_;
  const uint8_t* src_end_;
  int64_t reach_;
  // One tap at each pixel of the source.
  bool is_every_pixel_ = layout_.taps == 1 && !layout_.merged_row && shape_.SH == 1 &&
                         shape_.SW == 1 && shape_.PH == 0 && shape_.PW == 0;
  const uint8_t** table_;
  uint8_t *padding_, *copies_;
  // For runs without high bytes, if they are wanted.
  QconvExcess* excess_ = nullptr;
  int32_t* first_ = nullptr;
  uint8_t* low_runs_ = nullptr;
};

// Runs what comes behind a convolution on the results of a panel.
void finish(const QconvCall& call, const QconvPanel& panel, bool all_channels) {
  if (call.epilogue.run == nullptr) {
    return;
  }
  const int64_t OC = call.weights->shape.OC;
  auto* dst = static_cast<uint8_t*>(call.dst.data);
  if (all_channels) {
    call.epilogue.run(call.epilogue.context, dst, panel.first_pixel * OC, panel.pixels * OC);
    return;
  }
  const auto& layout = call.weights->layout;
  const int64_t first = panel.block * kQconvBlock;
  const int64_t count = std::min(panel.blocks * kQconvBlock, layout.part_outputs - first);
  for (int64_t i = 0; i < panel.pixels; ++i) {
    call.epilogue.run(call.epilogue.context, dst,
                      (panel.first_pixel + i) * OC + panel.part * layout.part_outputs + first,
                      count);
  }
}

}  // namespace

std::span<const KernelRow<QconvFunction>> qconv_kernels() { return kRows; }

void qconv(const QconvCall& call, QconvFunction* function) {
  const QconvLayout& layout = call.weights->layout;
  const int64_t pixels = call.N * call.OH * call.OW;
  const int64_t panels = (pixels + kQconvPanel - 1) / kQconvPanel;
  // Work is cut by pixels; where there are few of them and one group, by output channels as well.
  const int64_t chunk_blocks = qconv_chunk(layout);
  const int64_t chunks = (layout.part_blocks() + chunk_blocks - 1) / chunk_blocks;
  const bool cut_channels = panels == 1 && layout.parts == 1;
  const int64_t units = cut_channels ? chunks : panels;
  const int64_t unit_pixels = cut_channels ? pixels : std::min(pixels, kQconvPanel);
  const int64_t unit_outputs = cut_channels ? chunk_blocks * kQconvBlock : call.weights->shape.OC;
  const bool low = wants_low_runs(*call.weights, function);
  const auto body = [&](int64_t begin, int64_t end) {
    Runs runs(call, low);
    QconvPanel panel;
    for (int64_t unit = begin; unit < end; ++unit) {
      panel.runs = runs.table();
      panel.first_pixel = cut_channels ? 0 : unit * kQconvPanel;
      panel.pixels = std::min(kQconvPanel, pixels - panel.first_pixel);
      if (!cut_channels || unit == begin) {
        runs.fill(panel.first_pixel, panel.pixels);
        runs.cut(panel);
      }
      for (panel.part = 0; panel.part < layout.parts; ++panel.part) {
        const int64_t first = cut_channels ? unit : 0;
        for (int64_t chunk = first; chunk < (cut_channels ? unit + 1 : chunks); ++chunk) {
          panel.block = chunk * chunk_blocks;
          panel.blocks = std::min(chunk_blocks, layout.part_blocks() - panel.block);
          function(call, panel);
        }
      }
      panel.part = 0;
      finish(call, panel, !cut_channels);
    }
  };
  const int64_t unit_work = unit_pixels * unit_outputs * layout.taps * layout.run;
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, unit_work));
  parallel_for(0, units, grain, body);
}

QconvForm qconv_form() {
  return first_usable(qconv_kernels()).isa == Isa::avx2 ? QconvForm::pairs : QconvForm::whole;
}

void qconv(const QconvCall& call) {
#if defined(__x86_64__)
  if (call.weights->form == QconvForm::pairs) {
    return qconv(call, qconv_x86_avx2);
  }
#endif
  qconv(call, first_usable(qconv_kernels()).function);
}

}  // namespace cpuaccel::kernels
