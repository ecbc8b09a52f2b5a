// torch's own kernels of the ops that cpuaccel overrides, for fallbacks.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string_view>
#include <utility>

namespace cpuaccel::ops {

// The kernel registered for `name` ("aten::mean.dim") under `key` before cpuaccel's.
class TorchKernel {
 public:
  TorchKernel(const char* name, c10::DispatchKey key);
  // Calls it with the arguments on `stack`, which then holds its result.
  void call(torch::jit::Stack& stack) const;
  // The same for kernels that read the dispatch keys of the call, as those of autograd do.
  void call(torch::jit::Stack& stack, c10::DispatchKeySet keys) const;

 private:
  c10::OperatorHandle op_;
  c10::DispatchKey key_;
  c10::SafeKernelFunction kernel_;
};

// Saves torch's kernel of an op before cpuaccel overrides it. Once per op; not thread-safe.
void save_torch_kernel(const char* name, c10::DispatchKey key);

// The saved kernel of an op that is overridden under one key, or under this key. Throws if there is
// none.
const TorchKernel& torch_kernel(std::string_view name);
const TorchKernel& torch_kernel(std::string_view name, c10::DispatchKey key);

// Calls torch's kernel of `name` with these arguments, all of them: defaults are not filled in.
template <typename... Arguments>
c10::IValue call_torch(std::string_view name, Arguments&&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  torch_kernel(name).call(stack);
  return std::move(stack.back());
}

template <typename... Arguments>
c10::IValue call_torch_under(c10::DispatchKey key, std::string_view name,
                             Arguments&&... arguments) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Arguments>(arguments)...);
  torch_kernel(name, key).call(stack);
  return std::move(stack.back());
}

// Counts (and logs, if logging is on) that a call of `name` falls back to torch's kernel.
void report_fallback(std::string_view name, std::string_view reason);

}  // namespace cpuaccel::ops
