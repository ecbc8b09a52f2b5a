#include "ops/conv_choice.h"

#include <array>
#include <atomic>

#include "base/isa.h"

namespace cpuaccel::ops {
namespace {

using kernels::Conv2dShape;
using kernels::ImageLayout;

std::atomic<bool> own_only{false};

#define CASE [](const Conv2dShape& s [[maybe_unused]], ImageLayout layout [[maybe_unused]])

constexpr std::array kChoices{
    ConvChoice{"depthwise",
               CASE {
                 return s.groups == s.C && s.groups > 1 &&
                        (layout == ImageLayout::channels_first || s.OC == s.C);
               },
               ConvKernel::depthwise},
    ConvChoice{"the rest", CASE { return true; }, ConvKernel::gemm},
};
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
