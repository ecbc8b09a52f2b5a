#include "kernels/qconv/match.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

namespace cpuaccel::kernels {
namespace {

constexpr int kMost = 258;  // 127 * 258 fits 16 bits

// Of each two neighboring weights of a step: the sum of the positive ones and that of the negative
// ones, as a positive number.
using Sums = std::array<int16_t, kQconvStepBytes>;

Sums sums_of(const int8_t* weights) {
  Sums sums{};
  for (size_t i = 0; i < kQconvStepBytes; i += 2) {
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

void add(Sums& to, const Sums& from) {
  for (size_t i = 0; i < to.size(); ++i) {
    to[i] = static_cast<int16_t>(to[i] + from[i]);
  }
}

// Steps of a run, from the smallest largest sum to the largest.
using Steps = std::vector<uint16_t>;

// Moves groups of `count` steps that fit from `left` to `order`. Greedy: the step with the largest
// sum takes the smallest that fit.
void match_groups(const std::vector<Sums>& sums, size_t count, Steps& left, Steps& order) {
  // Where the smallest do not fit, the others seldom do.
  constexpr size_t kTries = 64;
  Steps alone;
  while (!left.empty()) {
    std::array<size_t, 3> partners{};  // in `left`
    size_t found = 0;
    const uint16_t step = left.back();
    left.pop_back();
    Sums sum = sums[step];
    for (size_t i = 0; i < std::min(left.size(), kTries) && found + 1 < count; ++i) {
      if (fit(sum, sums[left[i]])) {
        add(sum, sums[left[i]]);
        partners[found++] = i;
      }
    }
    if (found + 1 < count) {
      alone.push_back(step);
      continue;
    }
    const auto first = static_cast<std::ptrdiff_t>(order.size());
    order.push_back(step);
    while (found > 0) {
      const auto partner = left.begin() + static_cast<std::ptrdiff_t>(partners[--found]);
      order.push_back(*partner);
      left.erase(partner);
    }
    std::sort(order.begin() + first, order.end());  // in the order of memory
  }
  left.assign(alone.rbegin(), alone.rend());
}

// Instructions of a run for each result, apart from loads.
int64_t cost(const QconvOrder::Ends& ends, int64_t steps) {
  return ends.fours / 4 * 9 + (ends.pairs - ends.fours) / 2 * 5 + (steps - ends.pairs) * 3;
}

// Writes the steps of a run to `order`.
QconvOrder::Ends match_run(const int8_t* weights, int64_t steps, uint16_t* order) {
  std::vector<Sums> sums;
  std::vector<int16_t> largest;
  for (int64_t step = 0; step < steps; ++step) {
    sums.push_back(sums_of(weights + step * kQconvStepBytes));
    largest.push_back(*std::max_element(sums.back().begin(), sums.back().end()));
  }
  Steps sorted(static_cast<size_t>(steps));
  std::iota(sorted.begin(), sorted.end(), uint16_t{0});
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](uint16_t a, uint16_t b) { return largest[a] < largest[b]; });
  QconvOrder::Ends best{0, 0};
  std::copy(sorted.begin(), sorted.end(), order);
  // Fours may take the small steps that more pairs need.
  for (const bool fours : {true, false}) {
    Steps left = sorted, found;
    QconvOrder::Ends ends{0, 0};
    if (fours) {
      match_groups(sums, 4, left, found);
      ends.fours = static_cast<int32_t>(found.size());
    }
    match_groups(sums, 2, left, found);
    ends.pairs = static_cast<int32_t>(found.size());
    if (cost(ends, steps) < cost(best, steps)) {
      best = ends;
      std::copy(left.begin(), left.end(), std::copy(found.begin(), found.end(), order));
    }
    if (ends.fours == 0) {
      break;
    }
  }
  return best;
}

// Calls function(bytes of a run's steps, index of its first step) for each block and tap.
template <typename Function>
void for_each_run(const QconvWeights& packed, int8_t* values, const Function& function) {
  const QconvLayout& layout = packed.layout;
  const int64_t runs = layout.parts * layout.part_blocks() * layout.taps;
  for (int64_t run = 0; run < runs; ++run) {
    function(values + run * layout.steps * kQconvStepBytes, run * layout.steps);
  }
}

// Moves step from[i] of each run to place i.
void permute(const QconvWeights& packed, const std::vector<uint16_t>& from, int8_t* values) {
  const int64_t steps = packed.layout.steps;
  std::vector<int8_t> before(static_cast<size_t>(steps * kQconvStepBytes));
  for_each_run(packed, values, [&](int8_t* bytes, int64_t first) {
    std::memcpy(before.data(), bytes, before.size());
    for (int64_t place = 0; place < steps; ++place) {
      std::memcpy(bytes + place * kQconvStepBytes,
                  before.data() + from[static_cast<size_t>(first + place)] * kQconvStepBytes,
                  kQconvStepBytes);
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
                 paired += order.ends.emplace_back(match_run(bytes, layout.steps, steps)).pairs;
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
