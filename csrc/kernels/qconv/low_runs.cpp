#include "kernels/qconv/low_runs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

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

// Bytes of a run that a part multiplies, and groups of four of them.
int64_t part_bytes(const QconvLayout& layout) {
  return layout.several_groups ? layout.part_inputs : layout.run;
}
int64_t part_fours(const QconvLayout& layout) { return divide_up(part_bytes(layout), 4); }

// Bytes of a run that all parts multiply.
int64_t used_bytes(const QconvLayout& layout) {
  return (layout.parts - 1) * layout.part_inputs + part_bytes(layout);
}

// Maximum number of excess entries. An entry costs as much as a step of one pixel of a tile, or
// somewhat more; low runs save a third of that.
int64_t most_excess(const QconvLayout& layout) {
  constexpr int64_t kOneOf = 8;
  return layout.parts * layout.taps * part_fours(layout) * kQconvPanel / kOneOf + kQconvPanel;
}

int64_t entries(const QconvLayout& layout) { return layout.taps * kQconvPanel; }

constexpr int64_t kMarks = kMostMarked / kBlock + 1;

}  // namespace

bool wants_low_runs(const QconvWeights& weights, [[maybe_unused]] QconvFunction* function) {
#if defined(CPUACCEL_X86_KERNELS)
  constexpr int64_t kMostBytes = 4 << 20;  // for the runs of a panel
  constexpr int64_t kFewChannels = 8;
  const QconvLayout& layout = weights.layout;
  return function == qconv_x86_avx2 && layout.part_outputs >= kFewChannels &&
         entries(layout) * qconv_reach(layout) <= kMostBytes;
#else
  static_cast<void>(weights);
  return false;
#endif
}

int64_t QconvLowRuns::room(const QconvLayout& layout) {
  return ScratchArrays::room<const uint8_t*>(entries(layout)) +
         ScratchArrays::room<QconvExcess>(most_excess(layout)) +
         ScratchArrays::room<int32_t>(layout.parts * kFirsts) +
         ScratchArrays::room<HighRun>(entries(layout)) + ScratchArrays::room<uint8_t>(kMarks) +
         ScratchArrays::room<uint8_t>(entries(layout) * qconv_reach(layout));
}

QconvLowRuns::QconvLowRuns(const QconvCall& call, ScratchArrays& memory)
    : call_(call),
      layout_(call.weights->layout),
      whole_table_(memory.take<const uint8_t*>(entries(layout_))),
      excess_(memory.take<QconvExcess>(most_excess(layout_))),
      first_(memory.take<int32_t>(layout_.parts * kFirsts)),
      high_runs_(memory.take<HighRun>(entries(layout_))),
      marks_(memory.take<uint8_t>(kMarks)),
      low_runs_(memory.take<uint8_t>(entries(layout_) * qconv_reach(layout_))) {}

void QconvLowRuns::cut(const uint8_t** table, QconvPanel& panel) {
  panel.whole_runs = table;
  high_count_ = 0;
  // Padding bytes are the zero point.
  if (mark(panel) || call_.src_zero_point > kLow) {
    find_high_runs(table, panel.pixels);
  }
  if (high_count_ == 0) {  // as a rule; zeros are filled faster than other numbers
    std::fill_n(first_, layout_.parts * kFirsts, 0);
    is_low_ = true;
    return;
  }
  is_low_ = find_excess(panel.pixels);
  if (!is_low_) {
    return;
  }
  std::copy_n(table, entries(layout_), whole_table_);
  panel.whole_runs = whole_table_;
  const int64_t bytes = qconv_reach(layout_);
  uint8_t* copy = low_runs_;
  for (const HighRun& high : std::span(high_runs_, static_cast<size_t>(high_count_))) {
    if (high.has_excess) {
      std::transform(high.run, high.run + bytes, copy,
                     [](uint8_t byte) { return std::min(byte, kLow); });
      table[high.tap * kQconvPanel + high.pixel] = copy;
      copy += bytes;
    }
  }
}

void QconvLowRuns::select(int64_t part, QconvPanel& panel) const {
  panel.excess_first = is_low_ ? first_ + part * kFirsts : nullptr;
  panel.excess = excess_;
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
  const int64_t bytes = used_bytes(layout_);
  if (run < marked_.begin || run >= marked_.end) {
    return any_above_low(run, bytes);  // a copied run, or nothing is marked
  }
  const int64_t first = (run - marked_.begin) / kBlock;
  const int64_t last = (run + bytes - 1 - marked_.begin) / kBlock;
  return any_above_low(marks_ + first, last - first + 1);
}

void QconvLowRuns::find_high_runs(const uint8_t* const* table, int64_t count) {
  for (int32_t pixel = 0; pixel < count; ++pixel) {
    for (int32_t tap = 0; tap < layout_.taps; ++tap) {
      const uint8_t* const run = table[tap * kQconvPanel + pixel];
      if (may_be_high(run)) {
        high_runs_[high_count_++] = {run, pixel, tap, false};
      }
    }
  }
}

// Collects the excess of `count` pixels. Returns false as soon as there is too much.
bool QconvLowRuns::find_excess(int64_t count) {
  const int64_t fours = part_fours(layout_), fours_of_a_pixel = layout_.taps * fours;
  int32_t found = 0;
  for (int64_t part = 0; part < layout_.parts; ++part) {
    int32_t* const first = first_ + part * kFirsts;
    int64_t next = 0;  // pixel
    for (HighRun& high : std::span(high_runs_, static_cast<size_t>(high_count_))) {
      for (; next <= high.pixel; ++next) {
        first[next] = found;
      }
      const uint8_t* const run = high.run + part * layout_.part_inputs;
      for (int64_t step = 0; step < fours; ++step) {
        const uint32_t bytes = excess_of(run + step * 4);
        if (bytes == 0) {
          continue;
        }
        // At most one of eight, plus kQconvTallest.
        if (8 * (found - kQconvTallest) > (part * count + next) * fours_of_a_pixel) {
          return false;
        }
        excess_[found++] = {high.tap, static_cast<int32_t>(step), bytes};
        high.has_excess = true;
      }
    }
    std::fill(first + next, first + kFirsts, found);
  }
  return true;
}

}  // namespace cpuaccel::kernels
