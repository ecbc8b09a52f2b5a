#include <algorithm>
#include <limits>

#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {
namespace {

// Up to here a row of taps is read as one run: 7 taps of 4 channels.
constexpr int64_t kLongestMergedRow = 32;

bool row_is_a_run(const QconvShape& s) {
  return s.G == 1 && s.DW == 1 && s.KW > 1 && s.IC % 4 != 0 && s.KW * s.IC <= kLongestMergedRow;
}

bool groups_share_a_block(const QconvShape& s) {
  const int64_t inputs = s.IC / s.G, outputs = s.OC / s.G;
  return s.G > 1 && inputs == outputs && (inputs == 4 || inputs == 8) && s.OC % kQconvBlock == 0;
}

// Calls function(weights' index, packed index, part, output) for every weight.
template <typename Function>
void for_each_weight(const QconvShape& s, const QconvLayout& layout, const Function& function) {
  const int64_t inputs = s.IC / s.G, kernel = s.KH * s.KW;
  for (int64_t oc = 0; oc < s.OC; ++oc) {
    const int64_t part = oc / layout.part_outputs, output = oc % layout.part_outputs;
    const int64_t block = part * layout.part_blocks() + output / kQconvBlock;
    for (int64_t c = 0; c < inputs; ++c) {
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t tap = layout.merged_row ? k / s.KW : k;
        const int64_t at = layout.merged_row ? k % s.KW * s.IC + c : c;
        const int64_t step = tap * layout.steps + at / 4;
        const int64_t packed =
            block * layout.block_bytes() + (step * kQconvBlock + output % kQconvBlock) * 4 + at % 4;
        function((oc * inputs + c) * kernel + k, packed, part, output);
      }
    }
  }
}

int64_t magnitude(const QconvShape& shape, const int8_t* weights) {
  const int64_t count = shape.IC / shape.G * shape.KH * shape.KW;
  int64_t most = 0;
  for (int64_t oc = 0; oc < shape.OC; ++oc) {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      sum += std::abs(static_cast<int64_t>(weights[oc * count + i]));
    }
    most = std::max(most, 255 * sum);
  }
  return most;
}

int64_t value_bytes(const QconvLayout& layout) {
  return layout.parts * layout.part_blocks() * layout.block_bytes();
}

int64_t sum_bytes(const QconvLayout& layout) {
  return layout.parts * layout.part_blocks() * kQconvBlock * static_cast<int64_t>(sizeof(int32_t));
}

}  // namespace

QconvLayout qconv_layout(const QconvShape& s) {
  QconvLayout layout;
  layout.merged_row = row_is_a_run(s);
  layout.several_groups = groups_share_a_block(s);
  layout.taps = layout.merged_row ? s.KH : s.KH * s.KW;
  layout.run = layout.merged_row ? s.KW * s.IC : s.IC / s.G;
  layout.steps = (layout.run + 3) / 4;
  layout.parts = layout.several_groups ? s.OC / kQconvBlock : s.G;
  layout.part_outputs = s.OC / layout.parts;
  layout.part_inputs = s.IC / layout.parts;
  return layout;
}

const int8_t* QconvWeights::block(int64_t part, int64_t index) const {
  return reinterpret_cast<const int8_t*>(values.get()) +
         (part * layout.part_blocks() + index) * layout.block_bytes();
}

const int32_t* QconvWeights::sums(int64_t part) const {
  return reinterpret_cast<const int32_t*>(channel_sums.get()) +
         part * layout.part_blocks() * kQconvBlock;
}

bool qconv_fits(const QconvShape& shape, const int8_t* weights) {
  return 2 * magnitude(shape, weights) <= std::numeric_limits<int32_t>::max();
}

int64_t qconv_packed_bytes(const QconvShape& shape) {
  const auto layout = qconv_layout(shape);
  return value_bytes(layout) + sum_bytes(layout);
}

QconvWeights qconv_pack(const QconvShape& shape, const int8_t* weights) {
  QconvWeights packed;
  packed.shape = shape;
  packed.layout = qconv_layout(shape);
  packed.magnitude = magnitude(shape, weights);
  const auto values = static_cast<size_t>(value_bytes(packed.layout));
  const auto sums = static_cast<size_t>(sum_bytes(packed.layout));
  packed.values = aligned_block(values);
  packed.channel_sums = aligned_block(sums);
  packed.bytes = static_cast<int64_t>(values + sums);
  std::fill_n(packed.values.get(), values, std::byte{0});
  std::fill_n(packed.channel_sums.get(), sums, std::byte{0});
  auto* to = reinterpret_cast<int8_t*>(packed.values.get());
  auto* totals = reinterpret_cast<int32_t*>(packed.channel_sums.get());
  const int64_t part_sums = packed.layout.part_blocks() * kQconvBlock;
  for_each_weight(shape, packed.layout,
                  [&](int64_t plain, int64_t at, int64_t part, int64_t output) {
                    to[at] = weights[plain];
                    totals[part * part_sums + output] += weights[plain];
                  });
  return packed;
}

void qconv_unpack(const QconvWeights& packed, int8_t* weights) {
  const auto* from = reinterpret_cast<const int8_t*>(packed.values.get());
  for_each_weight(packed.shape, packed.layout,
                  [&](int64_t plain, int64_t at, int64_t /*part*/, int64_t /*output*/) {
                    weights[plain] = from[at];
                  });
}

}  // namespace cpuaccel::kernels
