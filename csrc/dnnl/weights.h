// int8 weights in oneDNN's blocked layouts: packed once, unpacked again when a model is saved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/api.h"
#include "base/scratch.h"
#include "dnnl/api.h"
#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// Layout of the plain weights as in torch, contiguous:
// convolution OC x IC/groups x taps, deconvolution IC x OC/groups x taps, matmul OC x IC.
dnnl::memory::desc plain_weights_desc(const Problem& problem);

class CPUACCEL_API PackedWeights {
 public:
  // Packs `plain` (layout of plain_weights_desc) to `desc`, including compensations.
  PackedWeights(const Problem& problem, const int8_t* plain, const dnnl::memory::desc& desc);

  // Writes the plain weights back to `plain`, value for value.
  void unpack(const Problem& problem, int8_t* plain) const;

  const dnnl::memory::desc& desc() const { return desc_; }
  const void* data() const { return data_.get(); }
  size_t bytes() const { return desc_.get_size(); }

 private:
  dnnl::memory::desc desc_;
  AlignedBlock data_;
};

}  // namespace cpuaccel::dnnl_layer
