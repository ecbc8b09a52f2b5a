// Innermost loops of gemm_w8. W is an ISA's vector class with widen<k>: the weights of the k-th k
// of a run of kLanes columns as floats. Included by x86's sources only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/gemm/unroll.h"
#include "kernels/gemm_w8/finish.h"
#include "kernels/gemm_w8/gemm_w8.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kPanelVectors = 3;
constexpr int64_t kRunLength = 4;

template <typename W>
constexpr int64_t kPanelColumns = kPanelVectors * W::kLanes;

// k number kStep of a run, and the ones after it.
template <typename W, bool kFloats, int kRows, int kVectors, int kStep = 0>
CPUACCEL_INLINE void run_step(typename W::Vector (&sums)[kRows][kVectors],
                              const typename W::Bytes (&bytes)[kVectors], const float* floats,
                              const float* rows) {
  if constexpr (kStep < kRunLength) {
    typename W::Vector b[kVectors];
    CPUACCEL_UNROLL
    for (int j = 0; j < kVectors; ++j) {
      if constexpr (kFloats) {
        b[j] = W::load(floats + kStep * kPanelColumns<W> + j * W::kLanes);
      } else {
        b[j] = W::template widen<kStep>(bytes[j]);
      }
    }
    CPUACCEL_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto a = W::set1(rows[kStep * kRows + i]);
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        sums[i][j] = W::fma(a, b[j], sums[i][j]);
      }
    }
    run_step<W, kFloats, kRows, kVectors, kStep + 1>(sums, bytes, floats, rows);
  }
}

template <typename W, bool kFloats, int kRows, int kVectors>
void tile_of(const GemmW8Tile& t) {
  typename W::Vector sums[kRows][kVectors];
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i) {
    float* from = t.sums + i / kVectors * kPanelColumns<W> + i % kVectors * W::kLanes;
    sums[i / kVectors][i % kVectors] = t.add ? W::load(from) : W::set1(0.0f);
  }
  const float *rows = t.rows, *floats = t.floats;
  const int8_t* panel = t.panel;
  for (int64_t left = t.runs; left > 0; --left) {
    typename W::Bytes bytes[kVectors];
    if constexpr (!kFloats) {
      CPUACCEL_UNROLL
      for (int j = 0; j < kVectors; ++j) {
        bytes[j] = W::load_bytes(panel + j * kRunLength * W::kLanes);
      }
    }
    run_step<W, kFloats>(sums, bytes, floats, rows);
    rows += kRunLength * kRows;
    panel += kRunLength * kPanelColumns<W>;
    floats += kFloats ? kRunLength * kPanelColumns<W> : 0;
    // Keeps the compiler from loading several runs ahead, which would spill the sums.
    asm volatile("" : "+r"(panel), "+r"(rows));
  }
  CPUACCEL_UNROLL
  for (int i = 0; i < kRows * kVectors; ++i) {
    W::store(t.sums + i / kVectors * kPanelColumns<W> + i % kVectors * W::kLanes,
             sums[i / kVectors][i % kVectors]);
  }
}

template <typename W, int kRows, int kVectors>
void tile_from(const GemmW8Tile& t) {
  t.floats != nullptr ? tile_of<W, true, kRows, kVectors>(t)
                      : tile_of<W, false, kRows, kVectors>(t);
}

template <typename W, int kMostRows, int kVectors>
void tile_by_rows(const GemmW8Tile& t) {
  switch (t.width) {
    case 1:
      return tile_from<W, 1, kVectors>(t);
    case 2:
      return tile_from<W, 2, kVectors>(t);
    case 4:
      return tile_from<W, 4, kVectors>(t);
    default:
      if constexpr (kMostRows == 8) {
        return tile_from<W, 8, kVectors>(t);
      }
  }
}

template <typename W, int kMostRows>
void tile(const GemmW8Tile& t) {
  if (t.n > 2 * W::kLanes) {
    tile_by_rows<W, kMostRows, 3>(t);
  } else if (t.n > W::kLanes) {
    tile_by_rows<W, kMostRows, 2>(t);
  } else {
    tile_by_rows<W, kMostRows, 1>(t);
  }
}

template <typename W>
void widen(const int8_t* panel, int64_t runs, float* floats) {
  for (int64_t run = 0; run < runs; ++run) {
    CPUACCEL_UNROLL
    for (int j = 0; j < kPanelVectors; ++j) {
      const auto bytes = W::load_bytes(panel + j * kRunLength * W::kLanes);
      W::store(floats + j * W::kLanes, W::template widen<0>(bytes));
      W::store(floats + kPanelColumns<W> + j * W::kLanes, W::template widen<1>(bytes));
      W::store(floats + 2 * kPanelColumns<W> + j * W::kLanes, W::template widen<2>(bytes));
      W::store(floats + 3 * kPanelColumns<W> + j * W::kLanes, W::template widen<3>(bytes));
    }
    panel += kRunLength * kPanelColumns<W>;
    floats += kRunLength * kPanelColumns<W>;
  }
}

template <typename W, int kMostRows>
constexpr GemmW8Kernels kGemmW8{kMostRows, kPanelColumns<W>, kRunLength, tile<W, kMostRows>,
                                widen<W>,  finish,           add_bytes};

}  // namespace
}  // namespace cpuaccel::kernels
