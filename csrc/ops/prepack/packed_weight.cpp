#include "ops/prepack/packed_weight.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include "base/counters.h"
#include "base/plugin.h"
#include "kernels/gemm/kernels.h"
#include "kernels/round_up.h"
#include "ops/gemm_type.h"

namespace cpuaccel::ops {
namespace {

// A row of the list with panels so wide; one that may run, if there is one.
PackedRow find_row(const char* op, int64_t panel) {
  kernels::GemmFunction* other = nullptr;
  for (const auto& row : kernels::gemm_kernels()) {
    if (row.function().nr == panel) {
      if (isa_usable(row.isa)) {
        return {row.function, true};
      }
      other = row.function;
    }
  }
  TORCH_CHECK(other != nullptr, op, ": expected panel to be that of a kernel, but got ", panel);
  return {other, false};
}

const kernels::KernelRow<kernels::GemmFunction>& best_row() {
  return kernels::first_usable(kernels::gemm_kernels());
}

kernels::GemmPacked view(const char* op, const at::Tensor& packed, const PackedShape& shape,
                         kernels::GemmFunction* row) {
  TORCH_CHECK(packed.device().is_cpu() && packed.layout() == at::kStrided &&
                  is_gemm_type(packed.scalar_type()) && packed.dim() == 1 && packed.is_contiguous(),
              op, ": expected packed to be what pack_linear returned");
  // No larger than what their product may be without overflow.
  const auto possible = [](int64_t size) { return size >= 0 && size < int64_t{1} << 31; };
  TORCH_CHECK(
      possible(shape.out_features) && possible(shape.in_features) &&
          packed.numel() == shape.in_features * kernels::round_up(shape.out_features, shape.panel),
      op, ": expected packed to hold weights of ", shape.out_features, " x ", shape.in_features,
      " in panels of ", shape.panel, ", but got ", packed.numel(), " elements");
  return {const_cast<void*>(packed.const_data_ptr()), gemm_type(packed.scalar_type()),
          shape.in_features, shape.out_features, row};
}

constexpr auto kPack = "cpuaccel::pack_linear";
constexpr auto kUnpack = "cpuaccel::unpack_linear";

at::Tensor pack_linear(const at::Tensor& weight, int64_t panel) {
  TORCH_CHECK(weight.dim() == 2 && is_gemm_type(weight.scalar_type()) &&
                  weight.layout() == at::kStrided && !weight.is_neg(),
              kPack, ": expected weight to be a matrix of float32, bfloat16 or float16, but got ",
              weight.scalar_type(), " of ", weight.dim(), " dimensions");
  const auto row = find_row(kPack, panel).row;
  const int64_t N = weight.size(0);
  const int64_t K = weight.size(1);
  at::Tensor packed =
      at::detail::empty_cpu({K * kernels::round_up(N, panel)}, weight.scalar_type());
  view(kPack, packed, {panel, N, K}, row)
      .pack({weight.const_data_ptr(), gemm_type(weight.scalar_type()), weight.stride(1),
             weight.stride(0), 0});
  prepacks().add(Op::packed_linear, Provider::own);
  return packed;
}

}  // namespace

int64_t gemm_panel() { return best_row().function().nr; }

PackedView::PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape)
    : PackedView(op, packed, shape, find_row(op, shape.panel)) {}

PackedView::PackedView(const char* op, const at::Tensor& packed, const PackedShape& shape,
                       const PackedRow& row)
    : usable_(row.usable), weights_(view(op, packed, shape, row.row)) {}

const char* PackedView::why_refused() const {
  if (!plugin_on()) {
    return "cpuaccel is off";
  }
  return usable_ ? nullptr : "packed for instructions that may not be used now";
}

kernels::GemmCall PackedView::product(int64_t M, const kernels::GemmMatrix& src, void* dst,
                                      kernels::GemmType dst_type) const {
  kernels::GemmCall call;
  call.M = M;
  call.N = weights_.N();
  call.K = weights_.K();
  call.a = src;
  call.packed = &weights_;
  call.dst = {dst, dst_type, call.N, 0};
  return call;
}

at::Tensor unpack_linear(const at::Tensor& packed, int64_t panel, int64_t out_features,
                         int64_t in_features) {
  const auto weights =
      view(kUnpack, packed, {panel, out_features, in_features}, find_row(kUnpack, panel).row);
  at::Tensor weight = at::detail::empty_cpu({out_features, in_features}, packed.scalar_type());
  weights.unpack(weight.mutable_data_ptr(), 1, in_features);
  return weight;
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("pack_linear(Tensor weight, int panel) -> Tensor");
  library.def(
      "unpack_linear(Tensor packed, int panel, int out_features, int in_features) -> Tensor");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("pack_linear", TORCH_FN(pack_linear));
  library.impl("unpack_linear", TORCH_FN(unpack_linear));
}

}  // namespace cpuaccel::ops
