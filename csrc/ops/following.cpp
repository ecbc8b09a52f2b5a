#include "ops/following.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <c10/util/Exception.h>

#include <array>

namespace cpuaccel::ops {
namespace {

using kernels::FloatFunction;
using Following = FollowingFunction;

constexpr std::array kFollowing{
    Following{"relu", FloatFunction::relu, [](const at::Tensor& x) { return at::relu(x); }},
    Following{"hardswish", FloatFunction::hardswish,
              [](const at::Tensor& x) { return at::hardswish(x); }},
    Following{"silu", FloatFunction::silu, [](const at::Tensor& x) { return at::silu(x); }},
    Following{"gelu", FloatFunction::gelu, [](const at::Tensor& x) { return at::gelu(x); }},
    Following{"gelu_tanh", FloatFunction::gelu_tanh,
              [](const at::Tensor& x) { return at::gelu(x, "tanh"); }},
};

}  // namespace

const FollowingFunction* find_following(const char* op, std::string_view name) {
  for (const auto& each : kFollowing) {
    if (each.name == name) {
      return &each;
    }
  }
  TORCH_CHECK(name.empty(), op,
              ": expected function to be relu, hardswish, silu, gelu, gelu_tanh or empty, but got ",
              name);
  return nullptr;
}

kernels::GemmAfter after_of(const FollowingFunction* following) {
  return following == nullptr ? kernels::GemmAfter{}
                              : kernels::GemmAfter{kernels::function_f32_of, &following->function};
}

}  // namespace cpuaccel::ops
