#include "kernels/gated_product/gated_product.h"

#include <algorithm>
#include <cstddef>

#include "base/parallel.h"
#include "kernels/eltwise_f32/eltwise_f32.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBlock = 1024;     // elements that stay in L1
constexpr int64_t kGrain = 8 << 10;  // elements per thread at least

// Up to kBlock elements of one row.
class GatedBlock {
 public:
  GatedBlock(const GatedProductCall& call, const GemmKernels& kernels)
      : call_(call), kernels_(kernels), size_(data_type_size(call.type)) {}

  void run(int64_t row, int64_t column, int64_t count) {
    load(call_.gate, row * call_.gate_stride + column, count, gate_);
    eltwise_f32(call_.function, gate_, count);
    const int64_t of_up = row * call_.up_stride + column, of_dst = row * call_.N + column;
    if (call_.type == DataType::f32) {
      multiply(gate_, static_cast<const float*>(call_.up) + of_up, count,
               static_cast<float*>(call_.dst) + of_dst);
      return;
    }
    load(call_.up, of_up, count, up_);
    multiply(gate_, up_, count, gate_);
    kernels_.store(gate_, count, static_cast<std::byte*>(call_.dst) + of_dst * size_, call_.type);
  }

 private:
  static void multiply(const float* a, const float* b, int64_t count, float* to) {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = a[i] * b[i];
    }
  }
  void load(const void* data, int64_t place, int64_t count, float* to) const {
    const auto* src = static_cast<const std::byte*>(data) + place * size_;
    kernels_.load({src, call_.type, count, 1, 1, count, to, count});
  }

  const GatedProductCall& call_;
  const GemmKernels& kernels_;
  const int64_t size_;
  alignas(64) float gate_[kBlock];
  alignas(64) float up_[kBlock];
};

}  // namespace

void gated_product(const GatedProductCall& call) {
  const GemmKernels& kernels = first_usable(gemm_kernels()).function();
  const int64_t blocks = (call.N + kBlock - 1) / kBlock;
  parallel_for(0, call.M * blocks, kGrain / kBlock, [&](int64_t begin, int64_t end) {
    GatedBlock block(call, kernels);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % blocks * kBlock;
      block.run(i / blocks, column, std::min(kBlock, call.N - column));
    }
  });
}

}  // namespace cpuaccel::kernels
