#include "plan/packed_matrix.h"

#include "base/huge_page_block.h"
#include "base/isa.h"

namespace cpuaccel::plan {
namespace {

using kernels::GemmBf16Packed;
using kernels::GemmPacked;

const auto& pairs_row() { return first_usable(kernels::gemm_bf16_kernels()); }

}  // namespace

bool PackedMatrix::takes(const kernels::GemmCall& call, bool bf16) {
  return bf16 ? has_bf16_arithmetic()
              : call.a.type == DataType::f32 && call.b.type == DataType::f32;
}

PackedMatrix::PackedMatrix(const kernels::GemmMatrix& b, int64_t K, int64_t N, bool bf16) {
  if (!bf16) {
    packed_.emplace<GemmPacked>(b, K, N);
    return;
  }
  const auto row = pairs_row().function;
  memory_ = huge_page_block(GemmBf16Packed(nullptr, K, N, row).bytes());
  packed_.emplace<GemmBf16Packed>(memory_.get(), K, N, row).pack(b);
}

void PackedMatrix::multiply(kernels::GemmCall call) const {
  if (const auto* pairs = std::get_if<GemmBf16Packed>(&packed_)) {
    gemm_bf16(call, *pairs);
    return;
  }
  call.packed = std::get_if<GemmPacked>(&packed_);
  gemm(call);
}

size_t PackedMatrix::bytes() const {
  const auto* pairs = std::get_if<GemmBf16Packed>(&packed_);
  return pairs != nullptr ? pairs->bytes() : std::get<GemmPacked>(packed_).bytes();
}

std::string PackedMatrix::kernel() const {
  return std::holds_alternative<GemmBf16Packed>(packed_)
             ? std::string("gemm_bf16:") + pairs_row().name
             : std::string("gemm:") + first_usable(kernels::gemm_kernels()).name;
}

}  // namespace cpuaccel::plan
