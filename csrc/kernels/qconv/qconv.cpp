#include "kernels/qconv/qconv.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/parallel.h"
#include "kernels/qconv/low_runs.h"
#include "kernels/qconv/runs.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<QconvFunction>, name, qconv_##name)
#include "kernels/qconv/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Multiply-adds; about 10 us of work.
constexpr int64_t kGrain = 300000;

// Blocks per call of a kernel if work is split by channels. Tiles of several pixels take two or
// three vectors of channels at a time, so chunks are multiples of both.
int64_t chunk_of_blocks(const QconvLayout& layout, int64_t pixels) {
  constexpr int64_t kTwosAndThrees = 6;
  const int64_t blocks = qconv_chunk(layout);
  return pixels == 1 ? blocks : round_up(blocks, kTwosAndThrees);
}

// Tiles of the next panel if `left` tiles remain. All panels get about the same size.
int64_t tiles_of_panel(int64_t left) {
  return divide_up(left, divide_up(left, kQconvPanel / kQconvTallest));
}

// Runs the epilogue on the results of a panel.
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
  // Work is split by pixels, in tiles, several of which form a panel. With few pixels and one group
  // it is split by output channels.
  const bool cut_channels = pixels <= kQconvPanel && layout.parts == 1;
  const int64_t chunk_blocks =
      cut_channels ? chunk_of_blocks(layout, pixels) : layout.part_blocks();
  const int64_t chunks = divide_up(layout.part_blocks(), chunk_blocks);
  const int64_t units = cut_channels ? chunks : divide_up(pixels, kQconvTallest);
  const int64_t unit_pixels = cut_channels ? pixels : kQconvTallest;
  const int64_t unit_outputs = cut_channels ? chunk_blocks * kQconvBlock : call.weights->shape.OC;
  const bool low = wants_low_runs(*call.weights, function);
  const int64_t room = QconvRuns::room(layout) + (low ? QconvLowRuns::room(layout) : 0);
  const auto body = [&](int64_t begin, int64_t end) {
    ScratchArrays memory(ScratchSlot::runs, room);
    QconvRuns runs(call, memory);
    std::optional<QconvLowRuns> low_runs;
    if (low) {
      low_runs.emplace(call, memory);
    }
    QconvPanel panel;
    panel.runs = panel.whole_runs = runs.table();
    const auto take_pixels = [&](int64_t first, int64_t count) {
      panel.first_pixel = first;
      panel.pixels = count;
      runs.fill(first, count);
      if (low_runs) {
        low_runs->cut(runs.table(), panel);
      }
    };
    const auto run_blocks = [&](int64_t first, int64_t count) {
      if (low_runs) {
        low_runs->select(panel.part, panel);
      }
      panel.block = first;
      panel.blocks = count;
      function(call, panel);
    };
    if (cut_channels) {
      take_pixels(0, pixels);
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t first = chunk * chunk_blocks;
        run_blocks(first, std::min(chunk_blocks, layout.part_blocks() - first));
        finish(call, panel, false);
      }
      return;
    }
    for (int64_t tile = begin; tile < end;) {
      const int64_t tiles = tiles_of_panel(end - tile), first = tile * kQconvTallest;
      take_pixels(first, std::min(tiles * kQconvTallest, pixels - first));
      for (panel.part = 0; panel.part < layout.parts; ++panel.part) {
        run_blocks(0, layout.part_blocks());
      }
      panel.part = 0;
      finish(call, panel, true);
      tile += tiles;
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
#if defined(CPUACCEL_X86_KERNELS)
  if (call.weights->form != QconvForm::whole) {
    return qconv(call, qconv_x86_avx2);
  }
#endif
  qconv(call, first_usable(qconv_kernels()).function);
}

}  // namespace cpuaccel::kernels
