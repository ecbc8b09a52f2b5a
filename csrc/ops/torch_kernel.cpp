#include "ops/torch_kernel.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/counters.h"
#include "base/log.h"

namespace cpuaccel::ops {
namespace {

// By name, then by key.
using KernelMap = std::map<std::string, std::map<c10::DispatchKey, TorchKernel>, std::less<>>;

// Never destroyed: ops run while the process exits.
KernelMap& saved_kernels() {
  static auto& instance = *std::make_unique<KernelMap>().release();
  return instance;
}

c10::OperatorHandle find_op(std::string_view name) {
  const auto dot = name.find('.');
  const std::string op(name.substr(0, dot));
  const std::string overload(dot == std::string_view::npos ? "" : name.substr(dot + 1));
  return c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), overload.c_str());
}

}  // namespace

TorchKernel::TorchKernel(const char* name, c10::DispatchKey key)
    : op_(find_op(name)), key_(key), kernel_(op_.getComputedKernelForDispatchKey(key)) {}

void TorchKernel::call(torch::jit::Stack& stack) const {
  kernel_.callBoxed(op_, c10::DispatchKeySet(key_), &stack);
}

void TorchKernel::call(torch::jit::Stack& stack, c10::DispatchKeySet keys) const {
  kernel_.callBoxed(op_, keys, &stack);
}

void save_torch_kernel(const char* name, c10::DispatchKey key) {
  saved_kernels()[name].try_emplace(key, name, key);
}

const TorchKernel& torch_kernel(std::string_view name) {
  const auto& kernels = saved_kernels();
  const auto found = kernels.find(name);
  TORCH_INTERNAL_ASSERT(found != kernels.end() && found->second.size() == 1,
                        "expected one saved torch kernel of ", name);
  return found->second.begin()->second;
}

const TorchKernel& torch_kernel(std::string_view name, c10::DispatchKey key) {
  const auto& kernels = saved_kernels();
  const auto found = kernels.find(name);
  TORCH_INTERNAL_ASSERT(found != kernels.end() && found->second.contains(key),
                        "no saved torch kernel of ", name, " under ", toString(key));
  return found->second.at(key);
}

void report_fallback(std::string_view name, std::string_view reason) {
  count_fallback(name, reason);
  if (log_enabled()) {
    log_decision("fallback of " + std::string(name) + ": " + std::string(reason));
  }
}

}  // namespace cpuaccel::ops
