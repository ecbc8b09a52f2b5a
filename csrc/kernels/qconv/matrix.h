// qconv by matrix instructions, products of 2 x 8 by 8 x 2 bytes: twice the multiply-adds of a dot
// product of four bytes. Templated on a vector type of csrc/kernels/dot4 that has them. Included by
// ISA sources only.
//
// A tile is eight pixels by two vectors of output channels; an accumulator is two pixels by two
// channels. Runs must be a multiple of one source load (V::kSteps steps); impl.h computes all
// others.
#pragma once

#include <cstdint>

#include "kernels/qconv/impl.h"
#include "kernels/qconv/steps.h"

namespace cpuaccel::kernels {
namespace {

template <typename V>
struct QconvMatrix : QconvLoop<V> {
  using Base = QconvLoop<V>;
  using Int = typename V::Int;
  using Base::call, Base::layout, Base::panel;
  static constexpr int kPixels = 8;
  static constexpr int kWide = 2;
  static constexpr int kPairs = kPixels / 2;

  bool fits() const { return !layout.several_groups && layout.steps % V::kSteps == 0; }

  void matrix_tile(int64_t pixel, int64_t v) const {
    Int blocks[kPairs][2 * kWide];
    const int32_t* sums = call.weights->sums(panel.part);
    for (int j = 0; j < kWide; ++j) {
      const Int start = V::multiply(V::set1(V::kSourceOffset - call.src_zero_point),
                                    V::load(sums + (v + j) * V::kLanes));
      for (int i = 0; i < kPairs; ++i) {
        blocks[i][2 * j] = V::low_halves(start, start);
        blocks[i][2 * j + 1] = V::high_halves(start, start);
      }
    }
    const int8_t* w = nullptr;  // of both vectors: they lie side by side in a block
    qconv_weights<V, 1>(call, panel, v, &w);
    const int64_t channel = panel.part * layout.part_inputs;
    for (int64_t tap = 0; tap < layout.taps; ++tap) {
      const uint8_t* run[kPixels];
      for (int i = 0; i < kPixels; ++i) {
        run[i] = panel.runs[tap * kQconvPanel + pixel + i] + channel;
      }
      for (int64_t step = 0; step < layout.steps; step += V::kSteps) {
        Int sources[2][kPairs];  // first eight bytes, last eight bytes
#pragma GCC unroll 4
        for (int i = 0; i < kPairs; ++i) {
          const Int a = V::load_steps(run[2 * i] + step * 4);
          const Int b = V::load_steps(run[2 * i + 1] + step * 4);
          sources[0][i] = V::low_halves(a, b);
          sources[1][i] = V::high_halves(a, b);
        }
        two_steps(sources[0], w, blocks);
        two_steps(sources[1], w + 2 * kQconvStepBytes, blocks);
        w += V::kSteps * kQconvStepBytes;
      }
    }
    Int acc[kWide * kPixels];
    for (int j = 0; j < kWide; ++j) {
      for (int i = 0; i < kPairs; ++i) {
        acc[j * kPixels + 2 * i] = V::low_halves(blocks[i][2 * j], blocks[i][2 * j + 1]);
        acc[j * kPixels + 2 * i + 1] = V::high_halves(blocks[i][2 * j], blocks[i][2 * j + 1]);
      }
    }
    this->template finish<kPixels, kWide>(pixel, v, acc);
  }

  // A column of the product is a channel's weights of two steps, side by side.
  CPUACCEL_INLINE static void two_steps(const Int* sources, const int8_t* w,
                                        Int (*blocks)[2 * kWide]) {
#pragma GCC unroll 2
    for (int j = 0; j < kWide; ++j) {
      const Int first = V::load(w + j * V::kBytes);
      const Int second = V::load(w + kQconvStepBytes + j * V::kBytes);
      const Int low = V::low_dwords(first, second), high = V::high_dwords(first, second);
#pragma GCC unroll 4
      for (int i = 0; i < kPairs; ++i) {
        blocks[i][2 * j] = V::matrix_product(blocks[i][2 * j], sources[i], low);
        blocks[i][2 * j + 1] = V::matrix_product(blocks[i][2 * j + 1], sources[i], high);
      }
    }
  }

  void run() const {
    const int64_t last = this->last_vector();
    for (int64_t v = panel.block * Base::kVectors; v < last; v += kWide) {
      for (int64_t pixel = 0; pixel < panel.pixels; pixel += kPixels) {
        if (panel.pixels - pixel > V::kPixels) {
          matrix_tile(pixel, v);
        } else {
          this->template tile<V::kPixels, kWide, false>(pixel, v);
        }
      }
    }
  }
};

template <typename V>
void qconv_matrix_panel(const QconvCall& call, const QconvPanel& panel) {
  const QconvMatrix<V> loop{QconvLoop<V>::of(call, panel)};
  if (panel.pixels > V::kPixels && loop.fits()) {
    loop.run();
  } else {
    qconv_panel<V>(call, panel);
  }
}

}  // namespace
}  // namespace cpuaccel::kernels
