#include "kernels/qconv/low_runs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/qconv/runs.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr uint8_t kLow = 127;
constexpr uint64_t kHighBits = 0x8080808080808080u;
constexpr uint8_t kMark = 0x80;              // above 127, so that any_above_low() finds marks
constexpr int64_t kBlock = 64;               // bytes that share a mark
constexpr int64_t kMostMarked = 256 * 1024;  // bytes; beyond, runs are scanned one by one
constexpr int64_t kFirsts = kQconvPanel + kQconvTallest + 1;

uint64_t eight_bytes(const uint8_t* from) {
  uint64_t result = 0;
  std::memcpy(&result, from, 8);
  return result;
}

bool any_above_low(const uint8_t* bytes, int64_t count) {
  uint64_t all = 0;
  if (count >= 8) {
    for (int64_t i = 0; i + 8 < count; i += 8) {
      all |= eight_bytes(bytes + i);
    }
    all |= eight_bytes(bytes + count - 8);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      all |= bytes[i];
    }
  }
  return (all & kHighBits) != 0;
}

bool block_above_low(const uint8_t* bytes) {
  uint64_t all = 0;
#pragma GCC unroll 8
  for (int64_t i = 0; i < kBlock; i += 8) {
    all |= eight_bytes(bytes + i);
  }
  return (all & kHighBits) != 0;
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

int64_t run_bytes(const QconvLayout& layout) { return layout.steps * 4; }

// Maximum number of excess entries. An entry costs as much as a step of one pixel of a tile, or
// somewhat more; low runs save a third of that.
int64_t most_excess(const QconvLayout& layout) {
  constexpr int64_t kOneOf = 8;
  return layout.taps * layout.steps * kQconvPanel / kOneOf + kQconvPanel;
}

int64_t entries(const QconvLayout& layout) { return layout.taps * kQconvPanel; }

constexpr int64_t kMarks = kMostMarked / kBlock + 1;

}  // namespace

bool wants_low_runs(const QconvWeights& weights, [[maybe_unused]] QconvFunction* function) {
#if defined(CPUACCEL_X86_KERNELS)
  constexpr int64_t kMostBytes = 4 << 20;  // for the runs of a panel
  constexpr int64_t kFewChannels = 8;
  const QconvLayout& layout = weights.layout;
  return function == qconv_x86_avx2 && layout.parts == 1 && !layout.several_groups &&
         layout.part_outputs >= kFewChannels && entries(layout) * run_bytes(layout) <= kMostBytes;
#else
  static_cast<void>(weights);
  return false;
#endif
}

int64_t QconvLowRuns::room(const QconvLayout& layout) {
  return ScratchArrays::room<const uint8_t*>(entries(layout)) +
         ScratchArrays::room<QconvExcess>(most_excess(layout)) +
         ScratchArrays::room<int32_t>(kFirsts) + ScratchArrays::room<uint8_t>(kMarks) +
         ScratchArrays::room<uint8_t>(entries(layout) * run_bytes(layout));
}

QconvLowRuns::QconvLowRuns(const QconvCall& call, ScratchArrays& memory)
    : call_(call),
      layout_(call.weights->layout),
      whole_table_(memory.take<const uint8_t*>(entries(layout_))),
      excess_(memory.take<QconvExcess>(most_excess(layout_))),
      first_(memory.take<int32_t>(kFirsts)),
      marks_(memory.take<uint8_t>(kMarks)),
      low_runs_(memory.take<uint8_t>(entries(layout_) * run_bytes(layout_))) {}

void QconvLowRuns::cut(const uint8_t** table, QconvPanel& panel) {
  panel.excess_first = nullptr;
  panel.whole_runs = table;
  // Padding bytes are the zero point.
  if (!mark(panel) && call_.src_zero_point <= kLow) {
    std::fill(first_, first_ + kFirsts, 0);
  } else if (!find_excess(table, panel.pixels)) {
    return;
  }
  panel.excess_first = first_;
  panel.excess = excess_;
  if (first_[panel.pixels] == 0) {
    return;
  }
  std::copy_n(table, entries(layout_), whole_table_);
  panel.whole_runs = whole_table_;
  uint8_t* copy = low_runs_;
  for (int64_t pixel = 0; pixel < panel.pixels; ++pixel) {
    for (int32_t i = first_[pixel]; i < first_[pixel + 1]; ++i) {
      const int32_t tap = excess_[i].tap;
      if (i > first_[pixel] && excess_[i - 1].tap == tap) {
        continue;
      }
      const uint8_t*& run = table[tap * kQconvPanel + pixel];
      std::transform(run, run + run_bytes(layout_), copy,
                     [](uint8_t byte) { return std::min(byte, kLow); });
      run = copy;
      copy += run_bytes(layout_);
    }
  }
}

// Marks the source blocks in the range of the panel's runs that have bytes above 127. Overlapping
// runs are scanned once. Returns true if a byte may be above 127, or if the range is too large.
bool QconvLowRuns::mark(const QconvPanel& panel) {
  const QconvShape& s = call_.weights->shape;
  const int64_t row_bytes = call_.IW * s.IC;
  const int64_t first = panel.first_pixel, last = first + panel.pixels - 1;
  const auto row_of = [&](int64_t pixel, int64_t tap) {  // in N*IH
    const int64_t ih = pixel / call_.OW % call_.OH * s.SH - s.PH + tap * s.DH;
    return pixel / (call_.OH * call_.OW) * call_.IH + std::clamp<int64_t>(ih, 0, call_.IH - 1);
  };
  const auto column_of = [&](int64_t pixel, int64_t tap) {
    return std::clamp<int64_t>(pixel % call_.OW * s.SW - s.PW + tap * s.DW, 0, call_.IW - 1);
  };
  const bool dense_1x1 = qconv_is_dense_1x1(s);
  if (dense_1x1) {
    marked_ = {call_.src + first * s.IC, call_.src + (last + 1) * s.IC};
  } else {
    marked_ = {call_.src + row_of(first, 0) * row_bytes,
               call_.src + (row_of(last, s.KH - 1) + 1) * row_bytes};
  }
  if (marked_.end - marked_.begin > kMostMarked) {
    marked_ = {};
    return true;
  }
  const int64_t blocks = divide_up(marked_.end - marked_.begin, kBlock);
  std::fill_n(marks_, blocks, uint8_t{0});
  if (first / call_.OW == last / call_.OW && !dense_1x1) {
    const int64_t begin = column_of(first, 0) * s.IC, end = (column_of(last, s.KW - 1) + 1) * s.IC;
    for (const uint8_t* row = marked_.begin; row < marked_.end; row += row_bytes) {
      mark_bytes(row + begin, row + end);
    }
  } else {
    mark_bytes(marked_.begin, marked_.end);
  }
  return any_above_low(marks_, blocks);
}

void QconvLowRuns::mark_bytes(const uint8_t* begin, const uint8_t* end) {
  const int64_t before = begin - marked_.begin;
  uint8_t* mark = marks_ + before / kBlock;
  const int64_t head = std::min<int64_t>(end - begin, (kBlock - before % kBlock) % kBlock);
  if (head > 0) {
    *mark |= any_above_low(begin, head) ? kMark : uint8_t{0};
    ++mark;
    begin += head;
  }
  for (; end - begin >= kBlock; begin += kBlock, ++mark) {
    if (block_above_low(begin)) [[unlikely]] {
      *mark = kMark;
    }
  }
  if (begin < end && any_above_low(begin, end - begin)) {
    *mark = kMark;
  }
}

bool QconvLowRuns::may_be_high(const uint8_t* run) const {
  if (run < marked_.begin || run >= marked_.end) {
    return any_above_low(run, layout_.run);  // a copied run, or nothing is marked
  }
  const int64_t first = (run - marked_.begin) / kBlock;
  const int64_t last = (run + layout_.run - 1 - marked_.begin) / kBlock;
  return any_above_low(marks_ + first, last - first + 1);
}

// Collects the excess. Returns false as soon as there is too much.
bool QconvLowRuns::find_excess(const uint8_t* const* table, int64_t count) {
  const int64_t steps_of_a_pixel = layout_.taps * layout_.steps;
  int32_t found = 0;
  for (int64_t pixel = 0; pixel < count; ++pixel) {
    first_[pixel] = found;
    for (int64_t tap = 0; tap < layout_.taps; ++tap) {
      const uint8_t* const run = table[tap * kQconvPanel + pixel];
      if (!may_be_high(run)) {
        continue;
      }
      for (int64_t step = 0; step < layout_.steps; ++step) {
        const uint32_t bytes = excess_of(run + step * 4);
        if (bytes == 0) {
          continue;
        }
        // At most one of eight steps, plus kQconvTallest.
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

}  // namespace cpuaccel::kernels
