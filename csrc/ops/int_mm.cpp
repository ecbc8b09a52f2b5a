// _int_mm: products of int8 into int32, for which torch has no kernel but loops on Arm.

#include "kernels/qgemm/qgemm.h"

#include <ATen/EmptyTensor.h>

#include <array>

#include "ops/lists.h"
#include "ops/own_call.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

bool is_matrix(const at::Tensor& x) {
  return x.scalar_type() == at::kChar && x.layout() == at::kStrided && x.dim() == 2;
}

// What is wrong with operands is for torch to say.
const char* refuses(const at::Tensor& self, const at::Tensor& mat2) {
  if (!is_matrix(self) || !is_matrix(mat2)) {
    return "not matrices of int8";
  }
  if (self.size(1) != mat2.size(0)) {
    return "sizes that do not match";
  }
  return self.numel() == 0 || mat2.numel() == 0 ? "empty" : nullptr;
}

const char* refuses_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  if (out.scalar_type() != at::kInt || out.layout() != at::kStrided || !out.is_contiguous() ||
      out.sizes() != at::IntArrayRef{self.size(0), mat2.size(1)}) {
    return "out that is no contiguous int32 of the result's shape";
  }
  return out.is_alias_of(self) || out.is_alias_of(mat2) ? "out that shares memory with an operand"
                                                        : nullptr;
}

// mat2 is packed in every call: whose it is, and whether it will come again, nobody says. Reading
// it to see whether it is the same would take as long.
void multiply(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& out) {
  CPUACCEL_OWN_CALL(int_mm);
  const at::Tensor rows = self.stride(1) == 1 || self.size(1) == 1 ? self : self.contiguous();
  const auto weights = kernels::qgemm_pack({.data = mat2.const_data_ptr<int8_t>(),
                                            .K = mat2.size(0),
                                            .N = mat2.size(1),
                                            .k_stride = mat2.stride(0),
                                            .n_stride = mat2.stride(1)});
  kernels::QgemmCall call;
  call.weights = &weights;
  call.M = rows.size(0);
  call.src = {.data = rows.const_data_ptr<int8_t>(),
              .type = kernels::QgemmSrcType::s8,
              .row_stride = rows.stride(0)};
  call.dst = {.data = out.data_ptr<int32_t>(),
              .type = kernels::QgemmDstType::s32,
              .row_stride = out.size(1)};
  const char* why = kernels::qgemm(call);
  TORCH_INTERNAL_ASSERT(why == nullptr, "qgemm computes all sums modulo 2^32, but: ", why);
}

template <OpName kName>
at::Tensor int_mm(const at::Tensor& self, const at::Tensor& mat2) {
  const char* why = refuses(self, mat2);
  if (why == nullptr) {
    const at::Tensor out = at::detail::empty_cpu({self.size(0), mat2.size(1)}, at::kInt);
    multiply(self, mat2, out);
    return out;
  }
  count_refusal(kName.text, why);
  return call_torch(kName.text, self, mat2).toTensor();
}

template <OpName kName>
at::Tensor& int_mm_out(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out) {
  const char* why = refuses(self, mat2);
  why = why == nullptr ? refuses_out(self, mat2, out) : why;
  if (why == nullptr) {
    multiply(self, mat2, out);
    return out;
  }
  count_refusal(kName.text, why);
  call_torch(kName.text, self, mat2, out);
  return out;
}

constexpr std::array kOverrides{
    CPUACCEL_OVERRIDE("aten::_int_mm", c10::DispatchKey::CPU, int_mm),
    CPUACCEL_OVERRIDE("aten::_int_mm.out", c10::DispatchKey::CPU, int_mm_out),
};

}  // namespace

std::span<const Override> int_mm_overrides() {
  // Where the family has the reference alone, on x86, torch's is oneDNN.
  return kernels::qgemm_kernels().size() > 1 ? kOverrides : std::span<const Override>();
}

}  // namespace cpuaccel::ops
