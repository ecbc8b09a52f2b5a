// A matrix of weights packed for family gemm, or in pairs of bf16 for gemm_bf16.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

#include "base/scratch.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/packed.h"

namespace cpuaccel::graph {

class PackedMatrix {
 public:
  // Whether `call` can be multiplied so on this CPU. `bf16`: in BF16 arithmetic.
  static bool takes(const kernels::GemmCall& call, bool bf16);

  // Of b, K x N, which is not needed behind it.
  PackedMatrix(const kernels::GemmMatrix& b, int64_t K, int64_t N, bool bf16);

  // `call`, whose right matrix is this one.
  void multiply(kernels::GemmCall call) const;
  size_t bytes() const;
  // Family and row.
  std::string kernel() const;

 private:
  AlignedBlock memory_;  // of pairs; floats bring their own
  std::variant<std::monostate, kernels::GemmPacked, kernels::GemmBf16Packed> packed_;
};

}  // namespace cpuaccel::graph
