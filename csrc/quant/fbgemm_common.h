// Helpers that the FBGEMM convolution and linear kernels share: accumulator buffer, loop over
// tasks.
#pragma once

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/native/quantized/cpu/fbgemm_utils.h>

#include <memory>

#include "base/scratch.h"
#include "quant/fbgemm_kernel.h"
#include "quant/folded.h"
#include "quant/kernel.h"

namespace cpuaccel::quant {

constexpr const char* kFbgemmPostOp = "FBGEMM fuses no other post-op than relu";

// Null if FBGEMM can run the call, else the reason.
inline const char* fbgemm_refuses_call(const QuantCall& call) {
  return call.post == PostOp::none || call.post == PostOp::relu ? nullptr : kFbgemmPostOp;
}

// `count` int32 accumulators for FBGEMM. torch's own engine allocates them at every call; here each
// thread keeps them, up to a bound.
class AccumulatorBuffer {
 public:
  explicit AccumulatorBuffer(int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(int32_t);
    if (bytes <= kKeptScratchBytes) {
      data_ = static_cast<int32_t*>(scratch(ScratchSlot::accumulator, bytes));
    } else {
      owned_ = at::empty({count}, at::kInt);
      data_ = owned_.data_ptr<int32_t>();
    }
  }
  int32_t* data() const { return data_; }

 private:
  at::Tensor owned_;
  int32_t* data_ = nullptr;
};

// Calls body(task, tasks) for as many tasks as torch has threads: the split that FBGEMM expects.
template <typename Body>
void for_each_task(const Body& body) {
  const int tasks = at::get_num_threads();
  at::parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      body(static_cast<int>(task), tasks);
    }
  });
}

std::unique_ptr<Kernel> make_fbgemm_linear(const LayerWeight& layer, const at::Tensor& int8_values);
std::unique_ptr<Kernel> make_fbgemm_conv(const LayerWeight& layer, const at::Tensor& int8_values);

}  // namespace cpuaccel::quant
