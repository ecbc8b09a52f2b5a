#include "ops/conv_choice.h"

#include <array>
#include <atomic>

#include "base/isa.h"
#include "base/vendor.h"

namespace cpuaccel::ops {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;

std::atomic<bool> own_only{false};

bool depthwise(const Conv2dShape& s) { return s.groups == s.C && s.groups > 1; }
bool last(ImageLayout layout) { return layout == ImageLayout::channels_last; }

#define CASE [](const Conv2dShape& s [[maybe_unused]], ImageLayout layout [[maybe_unused]])

// Measured on a core of Zen 3 by benchmarks/ops/conv_providers.py, at batch 1: how many times as
// fast as torch's kernels, which are oneDNN's, or im2col and MKL.
constexpr std::array kChoices{// Not measured on Intel. AMD's cores with AVX-512 were not either,
                              // but torch's kernels are known
                              // to reach less than half of what these can do.
                              ConvChoice{"a CPU that is not AMD's", CASE{return !amd_cpu();
}  // namespace
, ConvKernel::torch
}  // namespace cpuaccel::ops
, ConvChoice{"a CPU without AVX2", CASE{return !isa_usable(Isa::avx2);
}
, ConvKernel::torch
}
,
    // 0.6 to 0.9 with 96 channels and more of large images
    ConvChoice{"channels last, depthwise, a large image",
               CASE{return depthwise(s) && last(layout) && s.C >= 64 && s.pixels() > 196;
}
, ConvKernel::torch
}
,
    // 1.2 to 5.5
    ConvChoice{"depthwise", CASE{return depthwise(s) && (!last(layout) || s.OC == s.C);
}
, ConvKernel::depthwise
}
,
    // 0.8 to 1.2
    ConvChoice{"grouped and strided, a large image",
               CASE{return s.groups > 1 && s.SW > 1 && s.pixels() >= 196;
}
, ConvKernel::torch
}
,
    // 0.7, at 3 channels; channels last 0.3
    ConvChoice{"strided, of few channels", CASE{return s.C / s.groups <= 4 && s.SW > 1;
}
, ConvKernel::torch
}
,
    // 0.7 from 1152 channels on; below 1.5, by what a call costs
    ConvChoice{"one pixel, of many channels",
               CASE{return s.pixels() == 1 && s.taps() == 1 && s.C * s.OC > 32768;
}
, ConvKernel::torch
}
,
    // 0.8 to 1.1: the bytes count there, not the arithmetic
    ConvChoice{"few channels of a large image, one tap",
               CASE{return s.taps() == 1 && s.C / s.groups <= 32 && s.pixels() >= 3136;
}
, ConvKernel::torch
}
,
    // 0.2 to 0.8, and the stem 0.6; with 32 channels in a group 1.1
    ConvChoice{"channels last, few of them", CASE{return last(layout) && s.C / s.groups < 24;
}
, ConvKernel::torch
}
,
    // 0.88 to 1.03
    ConvChoice{"channels last, a large image",
               CASE{return last(layout) && s.taps() > 1 && s.SW == 1 && s.pixels() >= 784;
}
, ConvKernel::torch
}
,
    // 0.86 to 0.94: turning the weights takes too long
    ConvChoice{"channels last, few pixels",
               CASE{return last(layout) && s.N * s.pixels() < 64 && s.C * s.OC >= 1 << 20;
}
, ConvKernel::torch
}
,
    // 1.1 to 1.9 with few exceptions
    ConvChoice{"the rest", CASE{return true;
}
, ConvKernel::gemm
}
,
}
;
#undef CASE

}  // namespace

const ConvChoice& conv_choice(const Conv2dShape& shape, ImageLayout layout) {
  const bool own = own_only.load(std::memory_order_relaxed);
  for (const auto& choice : kChoices) {
    if (!(own && choice.kernel == ConvKernel::torch) && choice.applies(shape, layout)) {
      return choice;
    }
  }
  return kChoices.back();
}

void set_own_convolutions_only(bool only) { own_only.store(only, std::memory_order_relaxed); }

}  // namespace cpuaccel::ops
