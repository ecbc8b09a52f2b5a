// The ops that cpuaccel.quant.fuse() puts into a graph: a quantized layer fused with a table, add
// or mul.
//
//   own = conv2d or linear (qx, packed), quantized with (own_scale, own_zero_point), with a relu if
//         `relu`
//   conv2d_table, linear_table:  result = table[own]
//   conv2d_add, ...:             result = quantized::add(table[own], other), or own if the table is
//                                None; add_relu if `then_relu`
//   conv2d_mul, ...:             the same with quantized::mul
//
// Results equal those of torch's ops one after the other. `packed` may belong to any engine. qx is
// quint8; `other` is quint8 of any shape that torch's op takes. (scale, zero_point) is the
// quantizer of the result and (table_scale, table_zero_point) that of table[own].

#include <c10/util/Exception.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <utility>

#include "base/plugin.h"
#include "torch_ao/conv_params.h"
#include "torch_ao/linear_params.h"
#include "torch_ao/names.h"
#include "torch_ao/quantized_checks.h"
#include "torch_ao/quantized_table.h"
#include "torch_ao/tensor_post_ops.h"

namespace cpuaccel::torch_ao {
namespace {

using c10::intrusive_ptr;
using kernels::BinaryOp;

// The packed-weight classes of one kind of layer.
struct Conv2d {
  using Base = ConvPackedParamsBase<2>;
  using CpuaccelParams = ConvParams<2>;
};
struct Linear {
  using Base = LinearPackedParamsBase;
  using CpuaccelParams = LinearParams;
};

template <typename Kind>
at::Tensor run_with_post_ops(const char* op, const at::Tensor& qx,
                             const intrusive_ptr<typename Kind::Base>& packed, double own_scale,
                             int64_t own_zero_point, bool relu, const TensorPostOps& post_ops) {
  check_quint8(op, "qx", qx);
  check_output_quantizer(op, own_scale, own_zero_point, "own_");
  check_output_quantizer(op, post_ops.scale, post_ops.zero_point, "");
  TORCH_CHECK(packed, op, ": expected packed to be packed weights, but got None");
  auto* params = plugin_on() ? dynamic_cast<typename Kind::CpuaccelParams*>(packed.get()) : nullptr;
  if (params != nullptr) {
    at::Tensor result = params->apply_with_post_ops(qx, own_scale, own_zero_point, relu, post_ops);
    if (result.defined()) {
      return result;
    }
  }
  if (post_ops.binary && post_ops.table.defined()) {
    TensorPostOps table = post_ops;
    table.binary.reset();
    table.scale = post_ops.own_scale;
    table.zero_point = post_ops.own_zero_point;
    TensorPostOps binary = post_ops;
    binary.table.reset();
    return run_separately(
        binary, run_with_post_ops<Kind>(op, qx, packed, own_scale, own_zero_point, relu, table));
  }
  return run_separately(post_ops, relu ? packed->apply_relu(qx, own_scale, own_zero_point)
                                       : packed->apply(qx, own_scale, own_zero_point));
}

template <OpName kName, typename Kind>
at::Tensor layer_table(at::Tensor qx, const intrusive_ptr<typename Kind::Base>& packed,
                       double own_scale, int64_t own_zero_point, bool relu, at::Tensor table,
                       double scale, int64_t zero_point) {
  check_table(kName.text, table);
  TensorPostOps post_ops;
  post_ops.table = std::move(table);
  post_ops.scale = scale;
  post_ops.zero_point = zero_point;
  return run_with_post_ops<Kind>(kName.text, qx, packed, own_scale, own_zero_point, relu, post_ops);
}

template <OpName kName, typename Kind, BinaryOp kBinary>
at::Tensor layer_binary(at::Tensor qx, const intrusive_ptr<typename Kind::Base>& packed,
                        double own_scale, int64_t own_zero_point, bool relu,
                        std::optional<at::Tensor> table, double table_scale,
                        int64_t table_zero_point, at::Tensor other, double scale,
                        int64_t zero_point, bool then_relu) {
  check_quint8(kName.text, "other", other);
  TensorPostOps post_ops;
  post_ops.own_scale = own_scale;
  post_ops.own_zero_point = own_zero_point;
  if (table) {
    check_table(kName.text, *table);
    check_output_quantizer(kName.text, table_scale, table_zero_point, "table_");
    post_ops.table = std::move(*table);
    post_ops.own_scale = table_scale;
    post_ops.own_zero_point = table_zero_point;
  }
  post_ops.binary = kBinary;
  post_ops.relu = then_relu;
  post_ops.other = std::move(other);
  post_ops.scale = scale;
  post_ops.zero_point = zero_point;
  return run_with_post_ops<Kind>(kName.text, qx, packed, own_scale, own_zero_point, relu, post_ops);
}

#define CPUACCEL_CONV "__torch__.torch.classes.quantized.Conv2dPackedParamsBase packed"
#define CPUACCEL_LINEAR "__torch__.torch.classes.quantized.LinearPackedParamsBase packed"
#define CPUACCEL_OWN ", float own_scale, int own_zero_point, bool relu"
#define CPUACCEL_TABLE_ARGUMENTS ", Tensor table, float scale, int zero_point) -> Tensor"
#define CPUACCEL_BINARY_ARGUMENTS                                                         \
  ", Tensor? table, float table_scale, int table_zero_point, Tensor other, float scale, " \
  "int zero_point, bool then_relu) -> Tensor"

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def("conv2d_table(Tensor qx, " CPUACCEL_CONV CPUACCEL_OWN CPUACCEL_TABLE_ARGUMENTS);
  library.def("conv2d_add(Tensor qx, " CPUACCEL_CONV CPUACCEL_OWN CPUACCEL_BINARY_ARGUMENTS);
  library.def("conv2d_mul(Tensor qx, " CPUACCEL_CONV CPUACCEL_OWN CPUACCEL_BINARY_ARGUMENTS);
  library.def("linear_table(Tensor qx, " CPUACCEL_LINEAR CPUACCEL_OWN CPUACCEL_TABLE_ARGUMENTS);
  library.def("linear_add(Tensor qx, " CPUACCEL_LINEAR CPUACCEL_OWN CPUACCEL_BINARY_ARGUMENTS);
  library.def("linear_mul(Tensor qx, " CPUACCEL_LINEAR CPUACCEL_OWN CPUACCEL_BINARY_ARGUMENTS);
}

TORCH_LIBRARY_IMPL(cpuaccel, QuantizedCPU, library) {
  library.impl("conv2d_table", TORCH_FN((layer_table<"cpuaccel::conv2d_table", Conv2d>)));
  library.impl("conv2d_add",
               TORCH_FN((layer_binary<"cpuaccel::conv2d_add", Conv2d, BinaryOp::add>)));
  library.impl("conv2d_mul",
               TORCH_FN((layer_binary<"cpuaccel::conv2d_mul", Conv2d, BinaryOp::mul>)));
  library.impl("linear_table", TORCH_FN((layer_table<"cpuaccel::linear_table", Linear>)));
  library.impl("linear_add",
               TORCH_FN((layer_binary<"cpuaccel::linear_add", Linear, BinaryOp::add>)));
  library.impl("linear_mul",
               TORCH_FN((layer_binary<"cpuaccel::linear_mul", Linear, BinaryOp::mul>)));
}

}  // namespace
}  // namespace cpuaccel::torch_ao
