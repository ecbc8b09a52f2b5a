#include "kernels/rotary/rotary.h"

#include <algorithm>
#include <array>

#include "base/parallel.h"
#include "base/scratch_arrays.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/kernels.h"

namespace cpuaccel::kernels {
namespace {

constexpr std::array kRows{
#define CPUACCEL_KERNEL(name) CPUACCEL_ROW(KernelRow<RotaryFunction>, name, rotary_##name)
#include "kernels/rotary/kernels.inc"
#undef CPUACCEL_KERNEL
};

// Elements; about 10 us of work.
constexpr int64_t kGrain = 16384;

const std::byte* at(const void* data, int64_t elements, DataType type) {
  return static_cast<const std::byte*>(data) + elements * data_type_size(type);
}

int64_t place(const RotaryHeads& heads, int64_t n, int64_t h, int64_t t) {
  return n * heads.n_stride + h * heads.h_stride + t * heads.t_stride;
}

// Embeds the heads of one position after another.
class Positions {
 public:
  Positions(const RotaryCall& call, RotaryFunction* function)
      : call_(call),
        function_(function),
        kernels_(first_usable(gemm_kernels()).function()),
        memory_(ScratchSlot::gemm_a,
                2 * ScratchArrays::room<float>(call.R) + 2 * ScratchArrays::room<float>(call.D)),
        cos_(memory_.take<float>(call.R)),
        sin_(memory_.take<float>(call.R)),
        src_(memory_.take<float>(call.D)),
        dst_(memory_.take<float>(call.D)) {}

  void run(int64_t n, int64_t t) {
    const float* const cos = of_position(call_.cos, n, t, cos_);
    const float* const sin = of_position(call_.sin, n, t, sin_);
    for (int64_t h = 0; h < call_.H; ++h) {
      const auto* src = at(call_.src.data, place(call_.src, n, h, t), call_.type);
      auto* dst = const_cast<std::byte*>(at(call_.dst.data, place(call_.dst, n, h, t), call_.type));
      if (call_.type == DataType::f32) {
        embed(reinterpret_cast<const float*>(src), cos, sin, reinterpret_cast<float*>(dst));
      } else {
        load(src, call_.type, call_.D, src_);
        embed(src_, cos, sin, dst_);
        kernels_.store(dst_, call_.D, dst, call_.type);
      }
    }
  }

 private:
  void embed(const float* src, const float* cos, const float* sin, float* dst) const {
    function_({call_.R / 2, src, cos, sin, dst});
    std::copy(src + call_.R, src + call_.D, dst + call_.R);
  }
  // The row of a table as floats, in `room` if it has another type.
  const float* of_position(const RotaryTable& table, int64_t n, int64_t t, float* room) const {
    const auto* data = at(table.data, n * table.n_stride + t * table.t_stride, table.type);
    if (table.type == DataType::f32) {
      return reinterpret_cast<const float*>(data);
    }
    load(data, table.type, call_.R, room);
    return room;
  }
  void load(const void* src, DataType type, int64_t count, float* to) const {
    kernels_.load({src, type, count, 1, 1, count, to, count});
  }

  const RotaryCall& call_;
  RotaryFunction* function_;
  const GemmKernels& kernels_;
  ScratchArrays memory_;
  float *cos_, *sin_, *src_, *dst_;
};

}  // namespace

std::span<const KernelRow<RotaryFunction>> rotary_kernels() { return kRows; }

void rotary(const RotaryCall& call) { rotary(call, first_usable(rotary_kernels()).function); }

void rotary(const RotaryCall& call, RotaryFunction* function) {
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, call.H * call.D));
  parallel_for(0, call.N * call.T, grain, [&](int64_t begin, int64_t end) {
    Positions positions(call, function);
    for (int64_t i = begin; i < end; ++i) {
      positions.run(i / call.T, i % call.T);
    }
  });
}

}  // namespace cpuaccel::kernels
