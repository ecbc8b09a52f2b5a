// Packed weights of a matrix product: f32 for kernel family gemm, or pairs of bf16 for gemm_bf16.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <variant>

#include "base/scratch.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/packed.h"

namespace cpuaccel::plan {

class PackedMatrix {
 public:
  // Whether this CPU can compute `call` with packed weights. `bf16`: in BF16 arithmetic.
  static bool takes(const kernels::GemmCall& call, bool bf16);

  // Packs b, K x N, which is not needed afterwards.
  PackedMatrix(const kernels::GemmMatrix& b, int64_t K, int64_t N, bool bf16);

  // Computes `call` with this matrix as its right operand.
  void multiply(kernels::GemmCall call) const;
  size_t bytes() const;
  // Kernel family and the name of the row of its kernel list.
  std::string kernel() const;

 private:
  AlignedBlock memory_;  // for pairs of bf16; GemmPacked has its own
  std::variant<std::monostate, kernels::GemmPacked, kernels::GemmBf16Packed> packed_;
};

}  // namespace cpuaccel::plan
