#include "kernels/conv_ref.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {

// Reads the packed weights and the runs, as the vector kernels do: all must agree on the same
// input.
void qconv_ref(const QconvCall& call, const QconvPanel& panel) {
  const QconvWeights& weights = *call.weights;
  const QconvLayout& layout = weights.layout;
  for (int64_t pixel = 0; pixel < panel.pixels; ++pixel) {
    for (int64_t output = panel.block * kQconvBlock;
         output < (panel.block + panel.blocks) * kQconvBlock && output < layout.part_outputs;
         ++output) {
      const int8_t* w = weights.block(panel.part, output / kQconvBlock) + output % kQconvBlock * 4;
      const int64_t group = layout.several_groups ? output / layout.run * layout.run : 0;
      int32_t acc = -call.src_zero_point * weights.sums(panel.part)[output];
      for (int64_t tap = 0; tap < layout.taps; ++tap) {
        const uint8_t* run =
            panel.runs[tap * kQconvPanel + pixel] + panel.part * layout.part_inputs + group;
        for (int64_t i = 0; i < layout.steps * 4; ++i) {
          const int64_t step = tap * layout.steps + i / 4;
          acc += run[i] * w[step * kQconvStepBytes + i % 4];
        }
      }
      const int64_t oc = panel.part * layout.part_outputs + output;
      store_ref(call.dst, (panel.first_pixel + pixel) * weights.shape.OC + oc, oc, acc);
    }
  }
}

}  // namespace cpuaccel::kernels
