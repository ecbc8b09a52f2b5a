#include "ops/post_op.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <c10/util/Exception.h>

#include <array>

namespace cpuaccel::ops {
namespace {

using kernels::FloatFunction;

constexpr std::array kPostOps{
    PostOp{"relu", FloatFunction::relu, [](const at::Tensor& x) { return at::relu(x); }},
    PostOp{"hardswish", FloatFunction::hardswish,
           [](const at::Tensor& x) { return at::hardswish(x); }},
    PostOp{"silu", FloatFunction::silu, [](const at::Tensor& x) { return at::silu(x); }},
    PostOp{"gelu", FloatFunction::gelu, [](const at::Tensor& x) { return at::gelu(x); }},
    PostOp{"gelu_tanh", FloatFunction::gelu_tanh,
           [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
};

}  // namespace

const PostOp* find_post_op(const char* op, std::string_view name) {
  for (const auto& each : kPostOps) {
    if (each.name == name) {
      return &each;
    }
  }
  TORCH_CHECK(name.empty(), op,
              ": expected function to be relu, hardswish, silu, gelu, gelu_tanh or empty, but got ",
              name);
  return nullptr;
}

kernels::GemmAfter gemm_after(const PostOp* post_op) {
  return post_op == nullptr ? kernels::GemmAfter{}
                            : kernels::GemmAfter{kernels::eltwise_f32_of, &post_op->function};
}

}  // namespace cpuaccel::ops
