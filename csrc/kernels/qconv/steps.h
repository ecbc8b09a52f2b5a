// Steps of the qconv kernels, templated on a vector type of csrc/kernels/dot4. Included by ISA
// sources only.
//
// acc[j * kPixels + i] is the sum of pixel i and vector j of channels; run[i] are that pixel's
// source bytes, w[j] that vector's weights of the step.
#pragma once

#include <cstdint>

#include "kernels/inline.h"
#include "kernels/qconv/qconv.h"
#include "kernels/read_ahead.h"

namespace cpuaccel::kernels {
namespace {

// The addresses of the weights of kWide vectors from v, at the first step of the panel's part.
template <typename V, int kWide>
CPUACCEL_INLINE void qconv_weights(const QconvCall& call, const QconvPanel& panel, int64_t v,
                                   const int8_t** w) {
  constexpr int64_t kVectors = kQconvBlock / V::kLanes;
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) {
    // No more vectors than a block has lie in one block.
    const int64_t first = kWide <= kVectors ? v : v + j, next = v + j - first;
    w[j] =
        call.weights->block(panel.part, first / kVectors) + (first % kVectors + next) * V::kBytes;
  }
}

// Moves the addresses on by some steps.
template <int kWide>
CPUACCEL_INLINE void qconv_advance(const int8_t** w, int64_t steps) {
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) {
    w[j] += steps * kQconvStepBytes;
  }
}

// Adds the run's step `step`.
template <typename V, int kPixels, int kWide>
CPUACCEL_INLINE void qconv_one_step(const uint8_t* const* run, int64_t step, const int8_t* const* w,
                                    typename V::Int* acc) {
  typename V::Int weights[kWide][V::kParts];
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) {
    V::expand_weights(V::load(w[j]), weights[j]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) {
    typename V::Int bytes[V::kParts];
    V::expand(V::broadcast4(run[i] + step * 4), bytes);
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
#pragma GCC unroll 4
      for (int p = 0; p < V::kParts; ++p) {
        acc[j * kPixels + i] = V::dot(acc[j * kPixels + i], bytes[p], weights[j][p]);
      }
    }
  }
}

// Adds kSteps steps, steps[k] of the runs, whose products fit 16 bits together and whose weights
// are neighbors.
template <typename V, int kPixels, int kWide, int kSteps>
CPUACCEL_INLINE void qconv_steps_together(const uint8_t* const* run, const int64_t* steps,
                                          const int8_t* const* w, typename V::Int* acc) {
  typename V::Int weights[kWide][kSteps];
#pragma GCC unroll 4
  for (int j = 0; j < kWide; ++j) {
#pragma GCC unroll 4
    for (int k = 0; k < kSteps; ++k) {
      weights[j][k] = V::load(w[j] + k * kQconvStepBytes);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPixels; ++i) {
    typename V::Int bytes[kSteps];
#pragma GCC unroll 4
    for (int k = 0; k < kSteps; ++k) {
      bytes[k] = V::broadcast4(run[i] + steps[k] * 4);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      typename V::Int& sum = acc[j * kPixels + i];
      sum = V::template dot_together<kSteps>(sum, bytes, weights[j]);
    }
  }
}

// All steps of weights of the form `matched`, for pixels from `pixel` and vectors from `v`.
template <typename V, int kPixels, int kWide>
CPUACCEL_INLINE void qconv_matched_steps(const QconvCall& call, const QconvPanel& panel,
                                         int64_t pixel, int64_t v, typename V::Int* acc) {
  constexpr int64_t kVectors = kQconvBlock / V::kLanes;
  constexpr int kTogether = kWide < kVectors ? kWide : kVectors;  // vectors in one block
  const QconvLayout& layout = call.weights->layout;
  const QconvOrder& order = call.weights->order;
  [[maybe_unused]] const ReadAhead ahead = read_ahead();
#pragma GCC unroll 4
  for (int first = 0; first < kWide; first += kTogether) {
    const int64_t block = panel.part * layout.part_blocks() + (v + first) / kVectors;
    const uint16_t* steps = order.steps.data() + block * layout.taps * layout.steps;
    const QconvOrder::Ends* ends = order.ends.data() + block * layout.taps;
    const int8_t* w[kTogether];
    qconv_weights<V, kTogether>(call, panel, v + first, w);
    // One pixel reads each line of weights once. A step of a block is a line.
    const auto advance = [&](int64_t count) __attribute__((always_inline)) {
      if constexpr (kPixels == 1) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < count; ++i) {
          ahead.ask(w[0] + i * kQconvStepBytes);
        }
      }
      qconv_advance<kTogether>(w, count);
    };
    for (int64_t tap = 0; tap < layout.taps; ++tap, steps += layout.steps) {
      const uint8_t* run[kPixels];
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) {
        run[i] = panel.runs[tap * kQconvPanel + pixel + i] + panel.part * layout.part_inputs;
      }
      typename V::Int* const sums = acc + first * kPixels;
      int64_t place = 0;
      if constexpr (requires { V::kAddsSteps; }) {
        for (const int64_t end = ends[tap].fours; place < end; place += 4) {
          const int64_t of[4] = {steps[place], steps[place + 1], steps[place + 2],
                                 steps[place + 3]};
          qconv_steps_together<V, kPixels, kTogether, 4>(run, of, w, sums);
          advance(4);
        }
        for (const int64_t end = ends[tap].pairs; place < end; place += 2) {
          const int64_t of[2] = {steps[place], steps[place + 1]};
          qconv_steps_together<V, kPixels, kTogether, 2>(run, of, w, sums);
          advance(2);
        }
      }
      for (; place < layout.steps; ++place) {
        qconv_one_step<V, kPixels, kTogether>(run, steps[place], w, sums);
        advance(1);
      }
    }
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
