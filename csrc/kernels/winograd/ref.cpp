#include <cmath>

#include "kernels/winograd/impl.h"

namespace cpuaccel::kernels {
namespace {

struct OneFloat {
  using Vector = float;
  static constexpr int64_t kLanes = 1;

  static float set1(float value) { return value; }
  static float load(const float* src) { return *src; }
  static float load(const float* src, int64_t) { return *src; }
  static void store(float* dst, float v) { *dst = v; }
  static void store(float* dst, float v, int64_t) { *dst = v; }
  static int64_t mask(int64_t count) { return count; }
  static float add(float a, float b) { return a + b; }
  static float fma(float a, float b, float c) { return std::fma(a, b, c); }
  static float max(float lowest, float v) { return v < lowest ? lowest : v; }  // NaN stays
};

}  // namespace

const WinogradKernels& winograd_ref() { return kWinogradKernels<OneFloat>; }

}  // namespace cpuaccel::kernels
