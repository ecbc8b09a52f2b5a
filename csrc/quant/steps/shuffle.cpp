// The plan step q_shuffle: a channel shuffle as in ShuffleNet, and a range of its channels.
//
//   op q_shuffle in X... out Y    groups=i: min=i: max=i:, multiples of groups; table=is: or none
//
//   x = the X concatenated along the channels: one, or one per group, all of equal sizes
//   shuffled[:, c * groups + g] = x[:, g * (C / groups) + c]
//   Y = table[shuffled[:, min:max]]

#include <stdexcept>

#include "kernels/channel_shuffle/channel_shuffle.h"
#include "kernels/lookup_table/lookup_table.h"
#include "quant/steps/step.h"

namespace cpuaccel::quant {
namespace {

using kernels::ChannelShuffleSource;

struct Shuffle {
  int64_t groups, start, columns;  // of each group: `columns` channels from `start` on
  int64_t pitch;                   // channels of each X
  int64_t apart;                   // distance of the groups of one X, in channels
};

std::vector<ChannelShuffleSource> sources(const Shuffle& shuffle, Pointers in) {
  std::vector<ChannelShuffleSource> result;
  for (int64_t g = 0; g < shuffle.groups; ++g) {
    const bool one = in.size() == 1;
    const auto* data = u8(in[one ? 0 : static_cast<size_t>(g)]);
    result.push_back({data + (one ? g * shuffle.apart : 0) + shuffle.start, shuffle.pitch});
  }
  return result;
}

void add_shuffle(Building& building, const Region&, const Operation& operation) {
  const auto& attributes = operation.attributes;
  const auto groups = attribute(attributes, "groups", int64_t{1});
  const auto min = attribute(attributes, "min", int64_t{0});
  const auto max = attribute(attributes, "max", int64_t{0});
  const auto entries = attribute(attributes, "table", List());
  std::vector<Id> inputs;
  for (const Id id : operation.inputs) {
    inputs.push_back(in_format(building, id, MemoryFormat::channels_last));
  }
  const auto sizes = building.desc(inputs[0]).sizes;
  const auto count = static_cast<int64_t>(inputs.size());
  const int64_t C = count * sizes.at(1);
  const bool fits = sizes.size() == 4 && (count == 1 || count == groups) && C % groups == 0 &&
                    min % groups == 0 && max % groups == 0 && min < max && max <= C;
  for (const Id id : inputs) {
    if (!fits || building.desc(id).sizes != sizes) {
      throw std::runtime_error("q_shuffle: the channels do not divide into the groups");
    }
  }
  const Shuffle shuffle{groups, min / groups, (max - min) / groups, sizes[1], C / groups};
  const int64_t rows = sizes[0] * sizes[2] * sizes[3];
  std::vector<uint8_t> table(entries.begin(), entries.end());
  add_kernel_step(
      building, inputs, operation.outputs[0],
      plan::dense({sizes[0], max - min, sizes[2], sizes[3]}, MemoryFormat::channels_last),
      [=](Pointers in, Pointers out) {
        kernels::channel_shuffle_u8(sources(shuffle, in), u8(out[0]), rows, shuffle.columns,
                                    table.empty() ? nullptr : table.data());
      });
}

const RegisterStep kShuffle("q_shuffle", add_shuffle);

}  // namespace
}  // namespace cpuaccel::quant
