// A panel's weights as floats, with NEON. Included by the ISA source only.
#pragma once

#include <arm_neon.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm_wq/codes_neon.h"
#include "kernels/gemm_wq/gemm_wq.h"
#include "kernels/gemm_wq/group_end_neon.h"
#include "kernels/inline.h"

namespace cpuaccel::kernels {
namespace {

// Of four columns.
struct Weighing {
  float32x4_t scale, zero, real;
};

// The weights of four k of a run.
template <int kBits, int kHalf>
CPUACCEL_INLINE void unpack_four(const std::byte* codes, const Weighing& by, float* dst,
                                 int64_t nr) {
  const auto four = FourCodes<kBits>::template load<kHalf>(codes);
  const auto store = [&](float32x4_t code, float* to) __attribute__((always_inline)) {
    vst1q_f32(to, vfmaq_f32(by.real, vsubq_f32(code, by.zero), by.scale));
  };
  store(four.template at<0>(), dst);
  store(four.template at<1>(), dst + nr);
  store(four.template at<2>(), dst + 2 * nr);
  store(four.template at<3>(), dst + 3 * nr);
}

template <int kBits>
CPUACCEL_INLINE void unpack_run(const std::byte* codes, const Weighing& by, float* dst,
                                int64_t nr) {
  unpack_four<kBits, 0>(codes, by, dst, nr);
  if constexpr (kBits == 4) {
    unpack_four<kBits, 1>(codes, by, dst + 4 * nr, nr);
  }
}

// The k of a group in [begin, end), of four columns.
template <int kBits>
CPUACCEL_INLINE void unpack_group(const std::byte* codes, const Weighing& by, int64_t begin,
                                  int64_t end, float* dst, int64_t nr) {
  constexpr int64_t kRun = wq_run(kBits);
  for (int64_t k = begin / kRun * kRun; k < end; k += kRun) {
    const std::byte* run = codes + k / kRun * kWqColumns * 4;
    if (k >= begin && k + kRun <= end) [[likely]] {
      unpack_run<kBits>(run, by, dst + (k - begin) * nr, nr);
      continue;
    }
    float whole[kRun * 4];
    unpack_run<kBits>(run, by, whole, 4);
    for (int64_t i = std::max(k, begin); i < std::min(k + kRun, end); ++i) {
      vst1q_f32(dst + (i - begin) * nr, vld1q_f32(whole + (i - k) * 4));
    }
  }
}

template <int kBits>
void unpack_as(const WqUnpack& u) {
  const int64_t size = u.format->group;
  GroupEnd<InRows> of_group(*u.format, *u.layout, 0);
  for (int64_t done = 0; done < u.depth;) {
    const int64_t k = u.k0 + done, begin = k % size, end = std::min(begin + u.depth - done, size);
    const std::byte* group = u.panel + k / size * u.layout->group_bytes();
    of_group.load(group + u.layout->code_bytes);
    of_group.choose([&]<bool kZeros, bool kReals>() __attribute__((always_inline)) {
      for (int64_t n = 0; n < u.columns; n += 4) {
        const int64_t column = u.column + n;
        const float32x4_t none = vdupq_n_f32(0.0f);
        const Weighing by{vld1q_f32(of_group.scales() + column),
                          kZeros ? vld1q_f32(of_group.zeros() + column) : none,
                          kReals ? vld1q_f32(of_group.reals() + column) : none};
        unpack_group<kBits>(group + column * 4, by, begin, end, u.dst(k, n), u.nr);
      }
    });
    done += end - begin;
  }
}

void unpack(const WqUnpack& u) { u.format->bits == 4 ? unpack_as<4>(u) : unpack_as<8>(u); }

}  // namespace
}  // namespace cpuaccel::kernels
