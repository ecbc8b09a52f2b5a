// What FBGEMM's convolution and linear kernels share: base class, accumulator buffer, loop over
// tasks.
#pragma once

#include <ATen/EmptyTensor.h>
#include <fbgemm/Fbgemm.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "quant/kernel.h"
#include "quant/requantization.h"

namespace cpuaccel::fbgemm_provider {

using ::fbgemm::QuantizationGranularity;
using quant::Int8Weights;
using quant::Kernel;
using quant::LayerKind;
using quant::LayerShape;
using quant::LayerWeight;
using quant::PostOp;
using quant::QuantCall;

// What FBGEMM adds for the zero points: the sum of each output channel's weights minus their zero
// points. `rows` has the weights of one channel after the other.
std::vector<int32_t> column_offsets(const LayerWeight& layer, const int8_t* rows);

// Base class. `Packed` is FBGEMM's class of packed weights. `Derived` has a member function
// template run_as<relu, granularity>(call), the options that FBGEMM's output stages take at compile
// time.
template <typename Derived, typename Packed>
class FbgemmKernel : public Kernel {
 public:
  // `rows` has the weights of one output channel after the other.
  FbgemmKernel(const LayerWeight& layer, std::unique_ptr<Packed> packed, const int8_t* rows)
      : layer_(layer), packed_(std::move(packed)), column_offsets_(column_offsets(layer, rows)) {
    packed_weight_bytes() += weight_bytes();
  }
  ~FbgemmKernel() override { packed_weight_bytes() -= weight_bytes(); }

  Provider provider() const override { return Provider::fbgemm; }

  const char* unsupported_reason(const QuantCall& call) override {
    return call.post == PostOp::none || call.post == PostOp::relu
               ? nullptr
               : "FBGEMM fuses no post-op except ReLU";
  }

  uint8_t largest_source() const override { return largest_source_; }

  const char* run(const QuantCall& call) override {
    auto& derived = static_cast<Derived&>(*this);
    if (const char* why = derived.unsupported_reason(call)) {
      return why;
    }
    const bool relu = call.post == PostOp::relu;
    if (layer_.per_channel) {
      relu ? derived.template run_as<true, QuantizationGranularity::OUT_CHANNEL>(call)
           : derived.template run_as<false, QuantizationGranularity::OUT_CHANNEL>(call);
    } else {
      relu ? derived.template run_as<true, QuantizationGranularity::TENSOR>(call)
           : derived.template run_as<false, QuantizationGranularity::TENSOR>(call);
    }
    return nullptr;
  }

  int64_t bytes() override { return weight_bytes(); }

 protected:
  const LayerWeight& layer_;
  quant::RequantizationCache requantization_;
  const std::unique_ptr<Packed> packed_;
  const std::vector<int32_t> column_offsets_;
  uint8_t largest_source_ = 255;

 private:
  int64_t weight_bytes() const {
    return layer_.int8_bytes() +
           layer_.shape.OC * static_cast<int64_t>(2 * sizeof(int32_t) + sizeof(float));
  }
};

// `count` int32 accumulators for FBGEMM. torch's own engine allocates them at every call; here each
// thread keeps them, up to a bound.
class AccumulatorBuffer {
 public:
  explicit AccumulatorBuffer(int64_t count) {
    const auto bytes = static_cast<size_t>(count) * sizeof(int32_t);
    if (bytes <= kCachedScratchBytes) {
      data_ = static_cast<int32_t*>(scratch(ScratchSlot::accumulator, bytes));
    } else {
      owned_ = at::detail::empty_cpu({count}, at::kInt);
      data_ = static_cast<int32_t*>(owned_.mutable_data_ptr());
    }
  }
  int32_t* data() const { return data_; }

 private:
  at::TensorBase owned_;
  int32_t* data_ = nullptr;
};

// Calls body(task, tasks) for as many tasks as torch has threads: the split that FBGEMM expects.
template <typename Body>
void for_each_task(const Body& body) {
  const int tasks = parallel_threads();
  parallel_for(0, tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      body(static_cast<int>(task), tasks);
    }
  });
}

std::unique_ptr<Kernel> make_linear(const LayerWeight& layer, const Int8Weights& values);
std::unique_ptr<Kernel> make_convolution(const LayerWeight& layer, const Int8Weights& values);

}  // namespace cpuaccel::fbgemm_provider
