// One row of an override list: a torch op, its dispatch key, and the cpuaccel function that
// replaces its kernel.
#pragma once

#include <torch/library.h>

#include <cstddef>
#include <type_traits>

namespace cpuaccel::ops {

// An op's name as a template argument, so that each override knows which op it replaces.
struct OpName {
  char text[48]{};
  template <size_t kSize>
  consteval OpName(const char (&name)[kSize]) {  // NOLINT: implicit, to be written as a literal
    static_assert(kSize <= sizeof(text));
    for (size_t i = 0; i < kSize; ++i) {
      text[i] = name[i];
    }
  }
};

struct Override {
  const char* name;  // with its overload: "aten::mean.dim"
  c10::DispatchKey key;
  torch::CppFunction (*function)();
};

template <auto kFunction>
torch::CppFunction as_cpp_function() {
  return torch::CppFunction(
      c10::CompileTimeFunctionPointer<std::remove_pointer_t<decltype(kFunction)>, kFunction>());
}

// A row for `function<name, further template arguments>` under `key`.
#define CPUACCEL_OVERRIDE(name, key, function, ...)                                         \
  ::cpuaccel::ops::Override {                                                               \
    name, key, ::cpuaccel::ops::as_cpp_function<&function<name __VA_OPT__(, ) __VA_ARGS__>> \
  }

}  // namespace cpuaccel::ops
