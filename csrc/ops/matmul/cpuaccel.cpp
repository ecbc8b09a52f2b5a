#include <utility>

#include "base/isa.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm_bf16/gemm_bf16.h"
#include "kernels/gemm_bf16/packed.h"
#include "ops/data_type.h"
#include "ops/matmul/run.h"

namespace cpuaccel::ops {
namespace {

kernels::GemmMatrix matrix(const Operand& operand, DataType type) {
  return {operand.data, type, operand.strides[1], operand.strides[2], operand.strides[0]};
}

// Whether `call` runs in BF16 arithmetic rather than f32.
bool in_bf16(const MatmulCall& call) {
  const bool halves = call.src_type == at::kBFloat16 && call.weights_type == at::kBFloat16;
  if (!has_bf16_arithmetic() || !(halves || call.rounds)) {
    return false;
  }
  if (call.M > kernels::kGemmBf16Few && call.N > kernels::kGemmBf16Few) {
    return true;
  }
  // Columns of bf16 are multiplied in place, as dot products.
  return halves && call.N > kernels::kGemmBf16Few && call.weights.strides[1] == 1;
}

void transpose(kernels::GemmMatrix& matrix) { std::swap(matrix.row_stride, matrix.column_stride); }

}  // namespace

const char* run_cpuaccel_matmul(const MatmulCall& call) {
  const auto type = data_type(call.type);
  kernels::GemmCall gemm;
  gemm.M = call.M;
  gemm.N = call.N;
  gemm.K = call.K;
  gemm.batch = call.batch;
  gemm.a = matrix(call.src, data_type(call.src_type));
  gemm.b = matrix(call.weights, data_type(call.weights_type));
  gemm.alpha = call.alpha;
  gemm.beta = call.beta;
  if (call.beta != 0.0f) {
    gemm.c = matrix(call.c, type);
  }
  if (call.bias != nullptr) {
    gemm.bias = {call.bias, type, kernels::GemmBiasAxis::n};
  }
  gemm.dst = {call.dst, type, call.dst_strides[1], call.dst_strides[0]};
  // Family gemm writes rows. If dst has columns, its transpose is the product of the transposes.
  const bool transposed = call.dst_strides[2] != 1 && call.N > 1;
  if (transposed) {
    std::swap(gemm.a, gemm.b);
    std::swap(gemm.M, gemm.N);
    transpose(gemm.a);
    transpose(gemm.b);
    transpose(gemm.c);
    gemm.dst.row_stride = call.dst_strides[2];
    if (call.bias != nullptr) {
      gemm.bias.axis = kernels::GemmBiasAxis::m;
    }
  }
  if (call.pairs != nullptr && !transposed) {
    const auto row = kernels::first_usable(kernels::gemm_bf16_kernels()).function;
    kernels::gemm_bf16(gemm, {const_cast<void*>(call.pairs), call.K, call.N, row});
  } else if (call.panels != nullptr && !transposed) {
    const auto row = kernels::first_usable(kernels::gemm_kernels()).function;
    const kernels::GemmPacked panels(const_cast<void*>(call.panels), gemm.b.type, call.K, call.N,
                                     row);
    gemm.packed = &panels;
    kernels::gemm(gemm, row);
  } else {
    in_bf16(call) ? kernels::gemm_bf16(gemm) : kernels::gemm(gemm);
  }
  return nullptr;
}

}  // namespace cpuaccel::ops
