#include "ops/conv_choice.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/isa.h"

namespace cpuaccel::ops {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;

std::atomic<bool> cpuaccel_only{false};

bool depthwise(const Conv2dShape& s) { return s.groups == s.C && s.groups > 1; }
bool last(ImageLayout layout) { return layout == ImageLayout::channels_last; }

bool avx512() { return isa_usable(Isa::avx512); }

const char* cpu_fallback_reason() {
  return !isa_usable(Isa::avx2) ? "torch runs convolutions on CPUs without AVX2"
         : cpu_vendor() != "AuthenticAMD"
             ? "torch runs convolutions on CPUs other than AMD's unless cpuaccel's were "
               "faster here"
             : "";
}

bool first(ImageLayout layout) { return !last(layout); }
bool one_tap(const Conv2dShape& s) { return s.groups == 1 && s.taps() == 1; }
bool many_taps(const Conv2dShape& s) { return s.groups == 1 && s.taps() > 1 && s.C > 4; }

// Measured on a core of Zen 3, and on one of Zen 4 where AVX-512 is named, by
// benchmarks/ops/conv_providers.py at batch 1. Figures are speeds relative to torch's kernels,
// which are oneDNN's, or im2col and MKL. Not measured on Intel. "By CPU time" are ratios of process
// time on Zen 4 for all shapes of benchmarks/shapes/qconv.csv; rows without AVX-512 were measured
// in its AVX2 instructions, where Zen 3 agrees.
constexpr std::array kChoices{
    ConvChoice{
        .name = "a CPU without AVX2, or not AMD's",
        .applies = [](const Conv2dShape&, ImageLayout) { return cpu_fallback_reason()[0] != '\0'; },
        .kernel = ConvKernel::torch},
    // 0.2 to 0.8
    ConvChoice{.name = "AVX-512, depthwise, of more than 25 taps",
               .applies = [](const Conv2dShape& s,
                             ImageLayout) { return avx512() && depthwise(s) && s.taps() > 25; },
               .kernel = ConvKernel::torch},
    // 0.5 to 0.9, channels last 0.1 to 0.9
    ConvChoice{.name = "AVX-512, grouped",
               .applies = [](const Conv2dShape& s,
                             ImageLayout) { return avx512() && !depthwise(s) && s.groups > 1; },
               .kernel = ConvKernel::torch},
    // 0.6 to 0.9 with 96 channels and more of large images; with AVX-512 0.7 to 2.1, 1.0 overall
    ConvChoice{.name = "channels last, depthwise, a large image",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return depthwise(s) && last(layout) && s.C >= 64 && s.pixels() > 196;
                   },
               .kernel = ConvKernel::torch},
    // 0.7 to 0.96 for 3x3 at 112x112; 0.7 and 0.9 for 5x5 at 56x56. Smaller images 1.1 to 5,
    // strided ones 1.2 to 6.
    ConvChoice{.name = "AVX-512, channels last, depthwise, a larger image",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return avx512() && last(layout) && depthwise(s) && s.SW == 1 &&
                            s.pixels() >= (s.taps() > 9 ? 3136 : 12544);
                   },
               .kernel = ConvKernel::torch},
    // 1.2 to 5.5
    ConvChoice{.name = "depthwise",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return depthwise(s) && (!last(layout) || s.OC == s.C);
                   },
               .kernel = ConvKernel::depthwise},
    // 0.8 to 1.2
    ConvChoice{.name = "grouped and strided, a large image",
               .applies = [](const Conv2dShape& s,
                             ImageLayout) { return s.groups > 1 && s.SW > 1 && s.pixels() >= 196; },
               .kernel = ConvKernel::torch},
    // 0.7, at 3 channels; channels last 0.3. With AVX-512 0.9 to 1.4
    ConvChoice{.name = "strided, of few channels",
               .applies = [](const Conv2dShape& s,
                             ImageLayout) { return !avx512() && s.C / s.groups <= 4 && s.SW > 1; },
               .kernel = ConvKernel::torch},
    // 0.7 from 1152 channels on; with fewer 1.5, because of the overhead of a call. With AVX-512
    // 1.6 to 2.3.
    ConvChoice{.name = "one pixel, of many channels",
               .applies =
                   [](const Conv2dShape& s, ImageLayout) {
                     return !avx512() && s.pixels() == 1 && s.taps() == 1 && s.C * s.OC > 32768;
                   },
               .kernel = ConvKernel::torch},
    // By CPU time 0.6 to 1.1, 0.88 overall: oneDNN multiplies the image in place, gemm and the
    // direct kernel copy it first. Up to 100 pixels 1.0 to 2.1; up to 196 pixels with 65 to 192
    // channels 1.0 to 1.5.
    ConvChoice{.name = "channels first, one tap, not few pixels",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !avx512() && first(layout) && one_tap(s) && s.SW == 1 &&
                            (s.pixels() > 196 || (s.pixels() > 100 && (s.OC <= 64 || s.OC > 192)));
                   },
               .kernel = ConvKernel::torch,
               .images_only = true},
    // By CPU time 0.8 to 1.2, 0.92 overall
    ConvChoice{.name = "AVX-512, channels first, one tap, few channels of a large image",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     const bool few = (s.C <= 128 && s.OC <= 64 && s.pixels() >= 1024) ||
                                      (s.C <= 64 && s.pixels() >= 3136);
                     return avx512() && first(layout) && one_tap(s) && s.SW == 1 && few;
                   },
               .kernel = ConvKernel::torch,
               .images_only = true},
    // By CPU time 0.7 to 1.0: the weights are packed in every call and do not stay in L2. With
    // fewer weights 0.9 to 1.5, with fewer pixels 1.2 to 2.9.
    ConvChoice{.name = "channels first, many weights, not few pixels",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !avx512() && first(layout) && s.groups == 1 && s.pixels() > 100 &&
                            s.C * s.OC > 1 << 16;
                   },
               .kernel = ConvKernel::torch,
               .images_only = true},
    // By CPU time 0.7 to 1.1, 0.92 overall; 1.5 with 16 channels, 1.4 with 64 channels and 50,000
    // pixels
    ConvChoice{.name = "channels first, several taps, a large image",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !avx512() && first(layout) && many_taps(s) && s.pixels() > 196 &&
                            s.pixels() < 50000 && !(s.C <= 16 && s.pixels() < 1024);
                   },
               .kernel = ConvKernel::torch,
               .images_only = true},
    // By CPU time 0.78 to 1.01, and 1.1 for 192 channels, channels last, at 14x14. With fewer
    // multiply-adds 0.9 to 1.7. With fewer pixels 1.1 to 1.7: there the weights dominate, which
    // oneDNN reorders in each call. With fewer channels, channels first, 0.98 to 1.8.
    ConvChoice{.name = "AVX-512, several taps, much work",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return avx512() && many_taps(s) && (last(layout) || s.C >= 48) &&
                            s.N * s.pixels() >= 64 && multiply_adds(s) >= 1 << 23;
                   },
               .kernel = ConvKernel::torch,
               .images_only = true},
    // 0.8 to 1.1: bound by memory, not arithmetic. With AVX-512, channels last, 1.1 to 1.2
    ConvChoice{.name = "few channels of a large image, one tap",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !(avx512() && last(layout)) && s.taps() == 1 && s.C / s.groups <= 32 &&
                            s.pixels() >= 3136;
                   },
               .kernel = ConvKernel::torch},
    // 0.2 to 0.8, and the stem 0.6; with 32 channels in a group 1.1. With AVX-512 0.8 to 1.2
    ConvChoice{.name = "channels last, few of them",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !avx512() && last(layout) && s.C / s.groups < 24;
                   },
               .kernel = ConvKernel::torch},
    // 0.88 to 1.03; with AVX-512 0.9 to 1.1, 0.95 overall
    ConvChoice{.name = "channels last, a large image",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return last(layout) && s.taps() > 1 && s.SW == 1 && s.pixels() >= 784;
                   },
               .kernel = ConvKernel::torch},
    // 0.86 to 0.94: transposing the weights takes too long. With AVX-512 1.1 to 3.4.
    ConvChoice{.name = "channels last, few pixels",
               .applies =
                   [](const Conv2dShape& s, ImageLayout layout) {
                     return !avx512() && last(layout) && s.N * s.pixels() < 64 &&
                            s.C * s.OC >= 1 << 20;
                   },
               .kernel = ConvKernel::torch},
    // 1.1 to 1.9 with few exceptions; with AVX-512 0.8 to 2.9: 3x3 layers 1.0 to 1.4, 1x1 layers
    // 1.2
    ConvChoice{.name = "the rest",
               .applies = [](const Conv2dShape&, ImageLayout) { return true; },
               .kernel = ConvKernel::gemm},
};

}  // namespace

double multiply_adds(const Conv2dShape& s) {
  return static_cast<double>(s.N * s.pixels()) * static_cast<double>(s.OC) *
         static_cast<double>(s.C / s.groups * s.taps());
}

const ConvChoice& conv_choice(const Conv2dShape& shape, ImageLayout layout, bool volume) {
  const bool skips_torch = cpuaccel_convolutions_only();
  for (const auto& choice : kChoices) {
    const bool left_out =
        (skips_torch && choice.kernel == ConvKernel::torch) || (volume && choice.images_only);
    if (!left_out && choice.applies(shape, layout)) {
      return choice;
    }
  }
  return kChoices.back();
}

ConvKernel cpuaccel_conv_kernel(const Conv2dShape& shape, ImageLayout layout) {
  const auto* const found = std::ranges::find_if(kChoices, [&](const ConvChoice& choice) {
    return choice.kernel != ConvKernel::torch && choice.applies(shape, layout);
  });
  return found->kernel;  // the last row applies to all
}

bool convolutions_measured_here() {
  return cpu_vendor() == "AuthenticAMD" && (cpu_core() == "Zen 3" || cpu_core() == "Zen 4");
}

const char* convolution_fallback_reason() {
  return cpuaccel_convolutions_only() ? "" : cpu_fallback_reason();
}

bool cpuaccel_convolutions_only() { return cpuaccel_only.load(std::memory_order_relaxed); }

void set_cpuaccel_convolutions_only(bool only) {
  cpuaccel_only.store(only, std::memory_order_relaxed);
}

}  // namespace cpuaccel::ops
