// A type of vectors for fewer columns than a wider one has lanes. Included by ISA files.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {
namespace {

// More vectors are never needed.
template <typename V>
struct GraphBesideWider : V {
  static constexpr int64_t kMostVectors = 2;
};

}  // namespace
}  // namespace cpuaccel::kernels
