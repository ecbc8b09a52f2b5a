#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/huge_page_block.h"
#include "kernels/qconv/match.h"
#include "kernels/qconv/qconv.h"

namespace cpuaccel::kernels {
namespace {

// Maximum bytes for which a row of taps is read as one run: 11 taps of 4 channels.
constexpr int64_t kLongestMergedRow = 44;

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

// Moves what two neighboring weights of the same sign have above a sum of 128 to `rest`.
void cut_pair(int8_t* pair, int8_t* rest) {
  const int sum = pair[0] + pair[1];
  const bool same_sign = (pair[0] < 0) == (pair[1] < 0);
  if (same_sign && std::abs(sum) > 128) {
    const int left = sum > 0 ? sum - 128 : sum + 128;
    const int larger = std::abs(pair[0]) > std::abs(pair[1]) ? 0 : 1;
    rest[larger] = static_cast<int8_t>(left);
    pair[larger] = static_cast<int8_t>(pair[larger] - left);
  }
}

// Split weights: the remaining values of all weights, and the rest.
struct Cut {
  std::vector<int8_t> values;
  QconvRest rest;
  std::vector<int8_t> rest_values;
};

Cut cut_weights(const QconvWeights& packed) {
  const auto& layout = packed.layout;
  const auto* from = reinterpret_cast<const int8_t*>(packed.values.get());
  Cut cut;
  cut.values.assign(from, from + value_bytes(layout));
  const int64_t runs = layout.parts * layout.part_blocks() * layout.taps;
  for (int64_t run = 0; run < runs; ++run) {
    if (run % layout.taps == 0) {
      cut.rest.first.push_back(static_cast<int32_t>(cut.rest.places.size()));
    }
    for (int64_t step = 0; step < layout.steps; ++step) {
      int8_t* const bytes = cut.values.data() + (run * layout.steps + step) * kQconvStepBytes;
      std::array<int8_t, kQconvStepBytes> left{};
      for (size_t i = 0; i < kQconvStepBytes; i += 2) {
        cut_pair(bytes + i, left.data() + i);
      }
      if (std::any_of(left.begin(), left.end(), [](int8_t each) { return each != 0; })) {
        cut.rest.places.push_back(
            {static_cast<int32_t>(run % layout.taps), static_cast<int32_t>(step)});
        cut.rest_values.insert(cut.rest_values.end(), left.begin(), left.end());
      }
    }
  }
  cut.rest.first.push_back(static_cast<int32_t>(cut.rest.places.size()));
  return cut;
}

// Packs the split weights, if at most one of `one_of` steps is in the rest.
bool take(const Cut& cut, int64_t one_of, QconvWeights& packed) {
  const auto& layout = packed.layout;
  const auto& [values, rest, rest_values] = cut;
  const auto places = static_cast<int64_t>(rest.places.size());
  if (one_of * places > layout.parts * layout.part_blocks() * layout.taps * layout.steps) {
    return false;
  }
  packed.rest.first = rest.first;
  packed.rest.places = rest.places;
  packed.rest.values = aligned_block(rest_values.size());
  std::copy(rest_values.begin(), rest_values.end(),
            reinterpret_cast<int8_t*>(packed.rest.values.get()));
  std::memcpy(packed.values.get(), values.data(), values.size());
  packed.bytes += static_cast<int64_t>(rest_values.size() + rest.first.size() * sizeof(int32_t)) +
                  places * static_cast<int64_t>(sizeof(QconvRest::Place));
  packed.form = QconvForm::pairs;
  return true;
}

// Puts the steps in order, if at most one of `one_of` stays without a partner.
bool match(int64_t one_of, QconvWeights& packed) {
  std::optional<QconvOrder> order = match_steps(packed, one_of);
  if (!order) {
    return false;
  }
  put_in_order(packed, *order, reinterpret_cast<int8_t*>(packed.values.get()));
  packed.order = std::move(*order);
  packed.bytes += static_cast<int64_t>((packed.order.steps.size() + packed.order.places.size()) *
                                           sizeof(uint16_t) +
                                       packed.order.ends.size() * sizeof(QconvOrder::Ends));
  packed.form = QconvForm::matched;
  return true;
}

// Forms to try in order. An attempt succeeds if at most one of `one_of` steps is in the rest, or
// without a partner. A step of the rest takes as long as three or more other steps, one without a
// partner 1.2 times as long. Trained weights often fit `pairs`, which are good for all sources. The
// last attempt accepts a larger rest for weights that fit neither.
struct Attempt {
  QconvForm form;
  int64_t one_of;
};
constexpr std::array kAttempts{Attempt{QconvForm::pairs, 12}, Attempt{QconvForm::matched, 2},
                               Attempt{QconvForm::pairs, 3}};

// Gives `packed` the first form that succeeds. Leaves it as it is if sums are short (16 channels
// would run at 0.93 times the speed) or if no attempt succeeds.
void pack_as(QconvWeights& packed, QconvForm wanted) {
  constexpr int64_t kFewSteps = 8;
  if (packed.layout.taps * packed.layout.steps < kFewSteps) {
    return;
  }
  std::optional<Cut> cut;
  for (const auto& [form, one_of] : kAttempts) {
    if (form == QconvForm::matched) {
      if (match(one_of, packed)) {
        return;
      }
    } else if (wanted == QconvForm::pairs) {
      if (!cut) {
        cut = cut_weights(packed);
      }
      if (take(*cut, one_of, packed)) {
        return;
      }
    }
  }
}

// Adds the rest to `values`, which have the packed layout.
void add_rest(const QconvWeights& packed, std::vector<int8_t>& values) {
  const auto& [first, places, left] = packed.rest;
  const auto* from = reinterpret_cast<const int8_t*>(left.get());
  for (size_t block = 0; block + 1 < first.size(); ++block) {
    for (auto i = static_cast<size_t>(first[block]); i < static_cast<size_t>(first[block + 1]);
         ++i) {
      const int64_t step = places[i].tap * packed.layout.steps + places[i].step;
      const auto at = block * static_cast<size_t>(packed.layout.block_bytes()) +
                      static_cast<size_t>(step * kQconvStepBytes);
      for (size_t j = 0; j < kQconvStepBytes; ++j) {
        values[at + j] = static_cast<int8_t>(values[at + j] + from[i * kQconvStepBytes + j]);
      }
    }
  }
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

bool qconv_fits(const QconvShape& shape, const int8_t* weights) {
  return 2 * magnitude(shape, weights) <= std::numeric_limits<int32_t>::max();
}

int64_t qconv_packed_bytes(const QconvShape& shape) {
  const auto layout = qconv_layout(shape);
  return value_bytes(layout) + sum_bytes(layout);
}

QconvWeights qconv_pack(const QconvShape& shape, const int8_t* weights, QconvForm form) {
  QconvWeights packed;
  packed.shape = shape;
  packed.layout = qconv_layout(shape);
  packed.magnitude = magnitude(shape, weights);
  const auto values = static_cast<size_t>(value_bytes(packed.layout));
  const auto sums = static_cast<size_t>(sum_bytes(packed.layout));
  packed.values = huge_page_block(values);
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
  if (form != QconvForm::whole && !packed.layout.several_groups) {
    pack_as(packed, form);
  }
  return packed;
}

void qconv_unpack(const QconvWeights& packed, int8_t* weights) {
  const auto* from = reinterpret_cast<const int8_t*>(packed.values.get());
  std::vector<int8_t> whole(from, from + value_bytes(packed.layout));
  if (packed.form == QconvForm::pairs) {
    add_rest(packed, whole);
  } else if (packed.form == QconvForm::matched) {
    put_back(packed, packed.order, whole.data());
  }
  for_each_weight(packed.shape, packed.layout,
                  [&](int64_t plain, int64_t at, int64_t /*part*/, int64_t /*output*/) {
                    weights[plain] = whole[static_cast<size_t>(at)];
                  });
}

}  // namespace cpuaccel::kernels
