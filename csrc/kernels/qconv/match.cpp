#include "kernels/qconv/match.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kStepBytes = kQconvBlock * 4;
constexpr int kMost = 258;  // 127 * 258 fits 16 bits

// Of each two neighboring weights of a step: the sum of the positive ones and that of the negative
// ones, as a positive number.
using Sums = std::array<int16_t, kStepBytes>;

Sums sums_of(const int8_t* weights) {
  Sums sums{};
  for (size_t i = 0; i < kStepBytes; i += 2) {
    for (const int weight : {int{weights[i]}, int{weights[i + 1]}}) {
      int16_t& sum = sums[weight > 0 ? i : i + 1];
      sum = static_cast<int16_t>(sum + std::abs(weight));
    }
  }
  return sums;
}

bool fit(const Sums& a, const Sums& b) {
  bool result = true;
  for (size_t i = 0; i < a.size(); ++i) {
    result &= a[i] + b[i] <= kMost;
  }
  return result;
}

// Writes the steps of one run to `order`: pairs that fit, then those without a partner. Returns the
// number of steps in pairs. Greedy: the step with the largest sum takes the smallest that fits.
int32_t match_run(const int8_t* weights, int64_t steps, uint16_t* order) {
  std::vector<Sums> sums;
  std::vector<int16_t> largest;
  for (int64_t step = 0; step < steps; ++step) {
    sums.push_back(sums_of(weights + step * kStepBytes));
    largest.push_back(*std::max_element(sums.back().begin(), sums.back().end()));
  }
  std::vector<uint16_t> left(static_cast<size_t>(steps));  // from the smallest to the largest
  std::iota(left.begin(), left.end(), uint16_t{0});
  std::stable_sort(left.begin(), left.end(),
                   [&](uint16_t a, uint16_t b) { return largest[a] < largest[b]; });
  int64_t paired = 0, single = steps;
  while (!left.empty()) {
    const uint16_t step = left.back();
    left.pop_back();
    const auto partner = std::find_if(left.begin(), left.end(),
                                      [&](uint16_t other) { return fit(sums[step], sums[other]); });
    if (partner == left.end()) {
      order[--single] = step;
      continue;
    }
    // In the order of memory.
    order[paired++] = std::min(step, *partner);
    order[paired++] = std::max(step, *partner);
    left.erase(partner);
  }
  return static_cast<int32_t>(paired);
}

// Calls function(bytes of a run's steps, index of its first step) for each block and tap.
template <typename Function>
void for_each_run(const QconvWeights& packed, int8_t* values, const Function& function) {
  const QconvLayout& layout = packed.layout;
  const int64_t runs = layout.parts * layout.part_blocks() * layout.taps;
  for (int64_t run = 0; run < runs; ++run) {
    function(values + run * layout.steps * kStepBytes, run * layout.steps);
  }
}

// Moves step from[i] of each run to place i.
void permute(const QconvWeights& packed, const std::vector<uint16_t>& from, int8_t* values) {
  const int64_t steps = packed.layout.steps;
  std::vector<int8_t> before(static_cast<size_t>(steps * kStepBytes));
  for_each_run(packed, values, [&](int8_t* bytes, int64_t first) {
    std::memcpy(before.data(), bytes, before.size());
    for (int64_t place = 0; place < steps; ++place) {
      std::memcpy(bytes + place * kStepBytes,
                  before.data() + from[static_cast<size_t>(first + place)] * kStepBytes,
                  kStepBytes);
    }
  });
}

}  // namespace

std::optional<QconvOrder> match_steps(const QconvWeights& packed, int64_t one_of) {
  const QconvLayout& layout = packed.layout;
  if (layout.steps > std::numeric_limits<uint16_t>::max()) {
    return std::nullopt;
  }
  QconvOrder order;
  const int64_t all = layout.parts * layout.part_blocks() * layout.taps * layout.steps;
  order.steps.resize(static_cast<size_t>(all));
  order.places.resize(order.steps.size());
  int64_t paired = 0;
  for_each_run(packed, reinterpret_cast<int8_t*>(packed.values.get()),
               [&](const int8_t* bytes, int64_t first) {
                 uint16_t* const steps = order.steps.data() + first;
                 paired += order.paired.emplace_back(match_run(bytes, layout.steps, steps));
                 for (int64_t place = 0; place < layout.steps; ++place) {
                   order.places[static_cast<size_t>(first + steps[place])] =
                       static_cast<uint16_t>(place);
                 }
               });
  if (one_of * (all - paired) > all) {
    return std::nullopt;
  }
  return order;
}

void put_in_order(const QconvWeights& packed, const QconvOrder& order, int8_t* values) {
  permute(packed, order.steps, values);
}

void put_back(const QconvWeights& packed, const QconvOrder& order, int8_t* values) {
  permute(packed, order.places, values);
}

}  // namespace cpuaccel::kernels
