#include "ops/matmul/fastmath.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <string>

#include "base/isa.h"
#include "ops/tensor_cache.h"

namespace cpuaccel::ops {
namespace {

std::atomic<FastmathMode> g_mode{FastmathMode::automatic};

bool environment_asks() {
  static const bool asks = [] {
    const char* value = std::getenv("DNNL_DEFAULT_FPMATH_MODE");
    std::string mode(value == nullptr ? "" : value);
    for (char& letter : mode) {
      letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
    return mode == "BF16" || mode == "ANY";
  }();
  return asks;
}

}  // namespace

void set_fastmath_mode(FastmathMode mode) { g_mode.store(mode, std::memory_order_relaxed); }

bool fastmath_asked() {
  return environment_asks() ||
         at::globalContext().float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL) ==
             at::Float32Precision::BF16;
}

// The check that fails most often comes first: every product of floats calls this.
bool fastmath_on() {
  const FastmathMode mode = g_mode.load(std::memory_order_relaxed);
  return mode != FastmathMode::off && fastmath_asked() &&
         (mode == FastmathMode::emulate || has_bf16_arithmetic());
}

bool rounds_while_packing() { return has_bf16_arithmetic() && !has_amx_arithmetic(); }

at::Tensor to_bfloat16(const at::Tensor& x) { return x.to(at::kBFloat16); }

at::Tensor weight_to_bfloat16(const at::Tensor& weight) {
  if (c10::GradMode::is_enabled()) {
    return to_bfloat16(weight);
  }
  return cached_cast_of(weight, at::kBFloat16);
}

}  // namespace cpuaccel::ops
