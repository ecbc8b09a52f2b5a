// A vector class for matrices with fewer columns than a wider vector has lanes. Included by ISA
// sources.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {
namespace {

// More vectors than these are never needed.
template <typename V>
struct GraphBesideWider : V {
  static constexpr int64_t kMostVectors = 2;
};

}  // namespace
}  // namespace cpuaccel::kernels
