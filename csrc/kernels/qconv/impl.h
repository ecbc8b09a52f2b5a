// Loop of the qconv kernels, templated on a vector type of csrc/kernels/dot4. Included by ISA
// sources only.
//
// A tile is some pixels by some vectors of output channels, with all accumulators in registers. A
// step broadcasts four source bytes of a pixel and multiplies them with four weights of each lane.
// If several groups share a block, each lane takes the four bytes of its own group.
#pragma once

#include <cstdint>

#include "kernels/conv_activation.h"
#include "kernels/qconv/qconv.h"
#include "kernels/qconv/steps.h"
#include "kernels/read_ahead.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
struct QconvLoop {
  using Int = typename V::Int;
  using Float = typename V::Float;
  static constexpr int64_t kLanes = V::kLanes;
  static constexpr int64_t kBytes = V::kBytes;
  static constexpr int kParts = V::kParts;
  static constexpr int64_t kVectors = kQconvBlock / kLanes;  // per block

  const QconvCall& call;
  const QconvPanel& panel;
  const QconvLayout& layout;
  typename V::Quantizer quantizer;

  static QconvLoop of(const QconvCall& call, const QconvPanel& panel) {
    const ConvDst& dst = call.dst;
    return {call, panel, call.weights->layout,
            typename V::Quantizer(dst.zero_point, dst.min, dst.max, dst.flip())};
  }

  // The end of the panel's vectors that have output channels.
  int64_t last_vector() const {
    const int64_t end = (panel.block + panel.blocks) * kVectors;
    const int64_t filled = divide_up(layout.part_outputs, kLanes);
    return end < filled ? end : filled;
  }

  // Computes kPixels pixels from `pixel` by kWide vectors of channels from `v`.
  template <int kPixels, int kWide, bool kSeveralGroups>
  void tile(int64_t pixel, int64_t v) const {
    Int acc[kWide * kPixels];
    const int32_t* sums = call.weights->sums(panel.part);
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      const Int start = V::multiply(V::set1(V::kSourceOffset - call.src_zero_point),
                                    V::load(sums + (v + j) * kLanes));
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) {
        acc[j * kPixels + i] = start;
      }
    }
    // For each lane, the index of its group's first dword in the 16 bytes of four or two groups.
    [[maybe_unused]] Int group_dwords[kWide];
    if constexpr (kSeveralGroups) {
      const int64_t group = layout.run / 4;  // dwords of a group
      alignas(kBytes) int32_t picks[kLanes];
      for (int j = 0; j < kWide; ++j) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          const int64_t output = ((v + j) % kVectors) * kLanes + lane;
          picks[lane] = static_cast<int32_t>(output / layout.run * group);
        }
        group_dwords[j] = V::load(picks);
      }
    }
    if constexpr (requires { V::kMatched; }) {
      qconv_matched_steps<V, kPixels, kWide>(call, panel, pixel, v, acc);
    } else {
      all_steps<kPixels, kWide, kSeveralGroups>(pixel, v, group_dwords, acc);
    }
    if constexpr (requires { V::kHasRest; }) {
      add_rest<kPixels, kWide>(pixel, v, acc);
    }
    if constexpr (requires { V::kHasExcess; }) {
      add_excess<kPixels, kWide, kSeveralGroups>(pixel, v, group_dwords, acc);
    }
    finish<kPixels, kWide>(pixel, v, acc);
  }

  // Adds all steps in order. `group_dwords`: see tile().
  template <int kPixels, int kWide, bool kSeveralGroups>
  CPUACCEL_INLINE void all_steps(int64_t pixel, int64_t v, const Int* group_dwords,
                                 Int* acc) const {
    const int8_t* w[kWide];
    qconv_weights<V, kWide>(call, panel, v, w);
    const int64_t channel = panel.part * layout.part_inputs;
    for (int64_t tap = 0; tap < layout.taps; ++tap) {
      const uint8_t* run[kPixels];
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) {
        run[i] = panel.runs[tap * kQconvPanel + pixel + i] + channel;
      }
      int64_t step = 0;
      if constexpr (V::kSteps > 1 && !kSeveralGroups) {
        for (; step + V::kSteps <= layout.steps; step += V::kSteps) {
          Int sources[kPixels];
#pragma GCC unroll 8
          for (int i = 0; i < kPixels; ++i) {
            sources[i] = V::load_steps(run[i] + step * 4);
          }
          steps_from<0, kPixels, kWide>(sources, w, acc);
          qconv_advance<kWide>(w, V::kSteps);
        }
      }
      if constexpr (requires { V::kAddsSteps; } && !kSeveralGroups) {
        for (; step + 2 <= layout.steps; step += 2) {
          const int64_t of[2] = {step, step + 1};
          qconv_steps_together<V, kPixels, kWide, 2>(run, of, w, acc);
          qconv_advance<kWide>(w, 2);
        }
      }
      for (; step < layout.steps; ++step) {
        if constexpr (kSeveralGroups) {
          step_of_groups<kPixels, kWide>(run, step, group_dwords, w, acc);
        } else {
          qconv_one_step<V, kPixels, kWide>(run, step, w, acc);
        }
        qconv_advance<kWide>(w, 1);
      }
    }
  }

  // Computes one pixel, for which reading the weights dominates the time: kWide vectors of channels
  // from `v`, block by block in memory order, with prefetching. Several independent sums hide the
  // latency of a dot product.
  template <int kWide>
  void one_pixel(int64_t v) const {
    constexpr int kSums = 4;
    const int64_t channel = panel.part * layout.part_inputs;
    const int32_t* sums = call.weights->sums(panel.part);
    const Int offset = V::set1(V::kSourceOffset - call.src_zero_point);
    const ReadAhead ahead = read_ahead();
    Int acc[kWide];
    // Not unrolled: one loop for all blocks, as in gemm/dot.h.
#pragma GCC unroll 1
    for (int first = 0; first < kWide; first += kVectors) {
      Int sum[kSums][kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        sum[0][j] = V::multiply(offset, V::load(sums + (v + first + j) * kLanes));
#pragma GCC unroll 4
        for (int s = 1; s < kSums; ++s) {
          sum[s][j] = V::zero();
        }
      }
      const int8_t* w = nullptr;
      qconv_weights<V, 1>(call, panel, v + first, &w);
      const auto add_step = [&](const uint8_t* run, Int* to) __attribute__((always_inline)) {
        ahead.ask(w);
        const Int bytes = V::broadcast4(run);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) {
          to[j] = V::dot(to[j], bytes, V::load(w + j * kBytes));
        }
        w += kQconvStepBytes;
      };
      for (int64_t tap = 0; tap < layout.taps; ++tap) {
        const uint8_t* run = panel.runs[tap * kQconvPanel] + channel;
        int64_t step = 0;
        for (; step + kSums <= layout.steps; step += kSums) {
#pragma GCC unroll 4
          for (int s = 0; s < kSums; ++s) {
            add_step(run + (step + s) * 4, sum[s]);
          }
        }
        for (; step < layout.steps; ++step) {
          add_step(run + step * 4, sum[0]);
        }
      }
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        acc[first + j] = V::add(V::add(sum[0][j], sum[1][j]), V::add(sum[2][j], sum[3][j]));
      }
    }
    finish<1, kWide>(0, v, acc);
  }
  // Whether one_pixel() is possible: a step's dot product is one instruction, without rest or
  // excess.
  static constexpr bool kReadsInTurn =
      kParts == 1 && V::kSteps == 1 && !requires { V::kHasRest; } && !requires { V::kHasExcess; };

  // Computes a step of which each lane multiplies the bytes of its own group.
  template <int kPixels, int kWide>
  CPUACCEL_INLINE void step_of_groups(const uint8_t* const* run, int64_t step,
                                      const Int* group_dwords, const int8_t* const* w,
                                      Int* acc) const {
    Int step_weights[kWide][kParts];
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      V::expand_weights(V::load(w[j]), step_weights[j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPixels; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) {
        const Int picks = V::add(group_dwords[j], V::set1(static_cast<int32_t>(step)));
        Int bytes[kParts];
        V::expand(V::pick_dwords(V::broadcast16(run[i]), picks), bytes);
#pragma GCC unroll 4
        for (int p = 0; p < kParts; ++p) {
          acc[j * kPixels + i] = V::dot(acc[j * kPixels + i], bytes[p], step_weights[j][p]);
        }
      }
    }
  }

  // Adds the products of the steps in QconvRest.
  template <int kPixels, int kWide>
  CPUACCEL_INLINE void add_rest(int64_t pixel, int64_t v, Int* acc) const {
    constexpr int kTogether = kWide < kVectors ? kWide : kVectors;  // vectors in one block
    const auto& rest = call.weights->rest;
    const int64_t channel = panel.part * layout.part_inputs;
    const auto* values = reinterpret_cast<const int8_t*>(rest.values.get());
#pragma GCC unroll 4
    for (int first = 0; first < kWide; first += kTogether) {
      const int64_t block = panel.part * layout.part_blocks() + (v + first) / kVectors;
      const int32_t end = rest.first[static_cast<size_t>(block + 1)];
      for (int32_t i = rest.first[static_cast<size_t>(block)]; i < end; ++i) {
        const auto [tap, step] = rest.places[static_cast<size_t>(i)];
        const uint8_t* const* runs = panel.whole_runs + tap * kQconvPanel + pixel;
        const int8_t* w = values + i * kQconvStepBytes + (v + first) % kVectors * kBytes;
#pragma GCC unroll 8
        for (int p = 0; p < kPixels; ++p) {
          const Int bytes = V::broadcast4(runs[p] + channel + step * 4);
#pragma GCC unroll 4
          for (int j = 0; j < kTogether; ++j) {
            Int& sum = acc[(first + j) * kPixels + p];
            sum = dot_bytes(sum, bytes, V::load(w + j * kBytes));
          }
        }
      }
    }
  }

  // Where the packed weights of vector v have a run's step.
  CPUACCEL_INLINE int64_t place_of(int64_t v, int64_t tap, int64_t step) const {
    if constexpr (requires { V::kMatched; }) {
      const int64_t block = panel.part * layout.part_blocks() + v / kVectors;
      return call.weights->order.places[(block * layout.taps + tap) * layout.steps + step];
    } else {
      return step;
    }
  }

  // Adds the products of the excess that was removed from the sources. `group_dwords`: see tile().
  template <int kPixels, int kWide, bool kSeveralGroups>
  CPUACCEL_INLINE void add_excess(int64_t pixel, int64_t v, const Int* group_dwords,
                                  Int* acc) const {
    const int8_t* w[kWide];
    qconv_weights<V, kWide>(call, panel, v, w);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      for (int32_t i = panel.excess_first[pixel + p]; i < panel.excess_first[pixel + p + 1]; ++i) {
        const auto [tap, at, four] = panel.excess[i];
        const int64_t step = kSeveralGroups ? at % layout.steps : at;
#pragma GCC unroll 4
        for (int j = 0; j < kWide; ++j) {
          Int bytes = V::set1(static_cast<int32_t>(four));
          if constexpr (kSeveralGroups) {
            bytes =
                V::where_equal(group_dwords[j], V::set1(static_cast<int32_t>(at - step)), bytes);
          }
          Int& sum = acc[j * kPixels + p];
          const int64_t place = place_of(v + j, tap, step);
          sum =
              dot_bytes(sum, bytes, V::load(w[j] + (tap * layout.steps + place) * kQconvStepBytes));
        }
      }
    }
  }

  // Computes the steps from kStep to the end of those that `sources` hold.
  template <int kStep, int kPixels, int kWide>
  CPUACCEL_INLINE void steps_from(const Int* sources, const int8_t* const* w, Int* acc) const {
    if constexpr (kStep < V::kSteps) {
      Int step_weights[kWide];
#pragma GCC unroll 4
      for (int j = 0; j < kWide; ++j) {
        V::expand_weights(V::load(w[j] + kStep * kQconvStepBytes), &step_weights[j]);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) {
#pragma GCC unroll 4
        for (int j = 0; j < kWide; ++j) {
          Int& sum = acc[j * kPixels + i];
          sum = V::template dot_step<kStep>(sum, sources[i], step_weights[j]);
        }
      }
      steps_from<kStep + 1, kPixels, kWide>(sources, w, acc);
    }
  }

  // Scales and stores a tile.
  template <int kPixels, int kWide>
  CPUACCEL_INLINE void finish(int64_t pixel, int64_t v, const Int* acc) const {
    const bool whole =
        pixel + kPixels <= panel.pixels && (v + kWide) * kLanes <= layout.part_outputs;
    if (whole && call.dst.activation == Activation::none) [[likely]] {
      if (call.dst.type == DataType::f32) {
        finish_floats<kPixels, kWide>(pixel, v, acc);
      } else {
        finish_bytes<kPixels, kWide>(pixel, v, acc);
      }
    } else {
      // Passes a copy: finish_any() indexes its array in a loop, so that array lives in memory, and
      // `acc` would otherwise not stay in registers.
      Int results[kPixels * kWide];
#pragma GCC unroll 16
      for (int i = 0; i < kPixels * kWide; ++i) {
        results[i] = acc[i];
      }
      finish_any<kPixels, kWide>(pixel, v, results);
    }
  }

  // Stores a whole tile as bytes, without a post-op. For short sums this is half of the work, so
  // the channels of a pixel are stored together and no result is checked on its own.
  template <int kPixels, int kWide>
  CPUACCEL_INLINE void finish_bytes(int64_t pixel, int64_t v, const Int* acc) const {
    constexpr int kTogether = kWide < 4 ? kWide : 4;  // vectors of a pixel in one store
    constexpr int kAtOnce = 4 / kTogether;            // pixels per store
    static_assert(kWide % kTogether == 0 && kPixels % kAtOnce == 0);
    const int64_t OC = call.weights->shape.OC;
    const int64_t channel = panel.part * layout.part_outputs + v * kLanes;
    const float* scales = call.dst.scales + channel;
    const float* biases = call.dst.bias + channel;
    uint8_t* dst =
        static_cast<uint8_t*>(call.dst.data) + (panel.first_pixel + pixel) * OC + channel;
    const auto q = quantizer;
#pragma GCC unroll 4
    for (int first = 0; first < kWide; first += kTogether) {
      Float scale[kTogether], bias[kTogether];
#pragma GCC unroll 4
      for (int j = 0; j < kTogether; ++j) {
        scale[j] = V::load(scales + (first + j) * kLanes);
        bias[j] = V::load(biases + (first + j) * kLanes);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; i += kAtOnce) {
        Float real[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const int j = k % kTogether;
          real[k] = V::to_real(acc[(first + j) * kPixels + i + k / kTogether], scale[j], bias[j]);
        }
        const Int bytes = V::quantize4(real, q);
        uint8_t* to = dst + i * OC + first * kLanes;
        if constexpr (kAtOnce == 1) {
          V::store(to, bytes);
        } else if constexpr (kAtOnce == 2) {
          V::store_halves(to, to + OC, bytes);
        } else {
          uint8_t* const quarters[4] = {to, to + OC, to + 2 * OC, to + 3 * OC};
          const int64_t counts[4] = {kLanes, kLanes, kLanes, kLanes};
          V::store4(quarters, bytes, counts);
        }
      }
    }
  }

  // Stores a whole tile as floats, without a post-op.
  template <int kPixels, int kWide>
  CPUACCEL_INLINE void finish_floats(int64_t pixel, int64_t v, const Int* acc) const {
    const int64_t OC = call.weights->shape.OC;
    const int64_t channel = panel.part * layout.part_outputs + v * kLanes;
    float* dst = static_cast<float*>(call.dst.data) + (panel.first_pixel + pixel) * OC + channel;
#pragma GCC unroll 4
    for (int j = 0; j < kWide; ++j) {
      const Float scale = V::load(call.dst.scales + channel + j * kLanes);
      const Float bias = V::load(call.dst.bias + channel + j * kLanes);
#pragma GCC unroll 8
      for (int i = 0; i < kPixels; ++i) {
        const Float real = V::to_real(acc[j * kPixels + i], scale, bias);
        V::store_floats(dst + i * OC + j * kLanes, real, kLanes);
      }
    }
  }

  // Stores any tile, four vectors of results at a time: of four pixels if the tile has them, else
  // of one pixel.
  template <int kPixels, int kWide>
  [[gnu::noinline]] void finish_any(int64_t pixel, int64_t v, const Int* acc) const {
    static_assert(kPixels * kWide % 4 == 0);
    Float scales[kWide], biases[kWide];
    int64_t counts[kWide];
    uint8_t* dst[kWide];
    const int64_t element = call.dst.element_size();
    const int64_t OC = call.weights->shape.OC;
    for (int j = 0; j < kWide; ++j) {
      const int64_t output = (v + j) * kLanes;
      const int64_t left = layout.part_outputs - output;
      counts[j] = left > kLanes ? kLanes : left < 0 ? 0 : left;
      const int64_t channel = panel.part * layout.part_outputs + output;
      scales[j] = V::load_floats(call.dst.scales + channel, counts[j]);
      biases[j] = V::load_floats(call.dst.bias + channel, counts[j]);
      dst[j] = static_cast<uint8_t*>(call.dst.data) +
               ((panel.first_pixel + pixel) * OC + channel) * element;
    }
    constexpr int kResults = kPixels * kWide;
    for (int first = 0; first < kResults; first += 4) {
      Float real[4];
      uint8_t* to[4];
      int64_t count[4];
      for (int i = 0; i < 4; ++i) {
        const int j = (first + i) / kPixels;
        // Repeated pixels at the end of a panel are written once.
        const int64_t at = (first + i) % kPixels;
        real[i] = V::to_real(acc[first + i], scales[j], biases[j]);
        to[i] = dst[j] + at * OC * element;
        count[i] = pixel + at < panel.pixels ? counts[j] : 0;
      }
      apply_activation<typename V::Floats, 4>(call.dst, real);
      if (call.dst.type == DataType::f32) {
        for (int i = 0; i < 4; ++i) {
          V::store_floats(reinterpret_cast<float*>(to[i]), real[i], count[i]);
        }
      } else {
        V::store4(to, V::quantize4(real, quantizer), count);
      }
    }
  }

  template <bool kSeveralGroups>
  void run() const {
    const int64_t end = (panel.block + panel.blocks) * kVectors, last = last_vector();
    for (int64_t v = panel.block * kVectors; v < last;) {
      const int64_t left = last - v;
      if (panel.pixels == 1 && !kSeveralGroups && left >= 3 && end - v >= 4) {
        if constexpr (kReadsInTurn) {
          one_pixel<4>(v);
        } else {
          tile<1, 4, false>(0, v);
        }
        v += 4;
        continue;
      }
      // Blocks are padded, so vectors past the last channel can be read.
      const bool wide = left > V::kWide / 2;
      wide ? pixels<V::kWide, kSeveralGroups>(v) : pixels<V::kWide / 2, kSeveralGroups>(v);
      v += wide ? V::kWide : V::kWide / 2;
    }
  }

  // The tiles of all pixels.
  template <int kWide, bool kSeveralGroups>
  CPUACCEL_INLINE void pixels(int64_t v) const {
    int64_t pixel = 0;
    if constexpr (requires { V::kRestPixels; }) {
      if (panel.pixels <= V::kRestPixels) {
        tile<V::kRestPixels, kWide, kSeveralGroups>(0, v);
        return;
      }
    }
    if constexpr (requires { V::kRestPixels; } && kWide == V::kWide) {
      const int64_t padded = (panel.pixels + kQconvTallest - 1) / kQconvTallest * kQconvTallest;
      for (; (padded - pixel) % V::kPixels != 0; pixel += V::kRestPixels) {
        tile<V::kRestPixels, kWide, kSeveralGroups>(pixel, v);
      }
    }
    constexpr int kPixels = kWide < V::kWide ? V::kPixelsOfHalf : V::kPixels;
    for (; pixel < panel.pixels; pixel += kPixels) {
      tile<kPixels, kWide, kSeveralGroups>(pixel, v);
    }
  }
};

template <typename V>
void qconv_panel(const QconvCall& call, const QconvPanel& panel) {
  const auto loop = QconvLoop<V>::of(call, panel);
  if (call.weights->layout.several_groups) {
    loop.template run<true>();
  } else {
    loop.template run<false>();
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
