#include "kernels/broadcast_add/broadcast_add.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"
#include "kernels/kernel_list.h"

namespace cpuaccel::kernels {
namespace {

constexpr int64_t kBlock = 1024;      // elements whose sums stay in L1
constexpr int64_t kGrain = 16 << 10;  // elements per thread at least

void add(float* sum, const float* other, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] += other[i];
  }
}

// Sums one block of elements in f32.
class Block {
 public:
  Block(const BroadcastAddCall& call, const GemmKernels& kernels)
      : call_(call), kernels_(kernels) {}

  void run(int64_t begin, int64_t count) {
    bool first = true;
    for (const auto& operand : call_.operands) {
      each_run(operand, begin, count, [&](int64_t at, int64_t from, int64_t run) {
        const char* src = static_cast<const char*>(operand.data) + from * size_;
        float* const sum = sum_ + at;
        if (first) {
          load(src, sum, run);
        } else if (call_.type == DataType::f32) {
          add(sum, reinterpret_cast<const float*>(src), run);
        } else {
          load(src, other_, run);
          add(sum, other_, run);
        }
      });
      first = false;
    }
    kernels_.store(sum_, count, static_cast<char*>(call_.dst) + begin * size_, call_.type);
  }

 private:
  // Splits a block where the operand wraps around and calls body(index in the block, index in the
  // operand, length) for each part.
  template <typename Body>
  static void each_run(const BroadcastOperand& operand, int64_t begin, int64_t count,
                       const Body& body) {
    for (int64_t at = 0; at < count;) {
      const int64_t from = (begin + at) % operand.count;
      const int64_t run = std::min(count - at, operand.count - from);
      body(at, from, run);
      at += run;
    }
  }
  void load(const char* src, float* to, int64_t count) const {
    kernels_.load({src, call_.type, count, 1, 1, count, to, count});
  }

  const BroadcastAddCall& call_;
  const GemmKernels& kernels_;
  const int64_t size_ = data_type_size(call_.type);
  alignas(64) float sum_[kBlock];
  alignas(64) float other_[kBlock];
};

}  // namespace

void broadcast_add(const BroadcastAddCall& call) {
  const GemmKernels& kernels = first_usable(gemm_kernels()).function();
  parallel_for(0, call.count, kGrain, [&](int64_t begin, int64_t end) {
    Block block(call, kernels);
    for (int64_t i = begin; i < end; i += kBlock) {
      block.run(i, std::min(kBlock, end - i));
    }
  });
}

}  // namespace cpuaccel::kernels
