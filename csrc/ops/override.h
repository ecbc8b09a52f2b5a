// Override lists: the torch ops that cpuaccel overrides, each with its dispatch key and the
// cpuaccel function that replaces torch's kernel. Each file that overrides ops has a list of them:
//
//   CPUACCEL_OVERRIDES{
//       CPUACCEL_OVERRIDE("aten::silu", c10::DispatchKey::CPU, silu),
//   };
#pragma once

#include <torch/library.h>

#include <cstddef>
#include <initializer_list>
#include <type_traits>

namespace cpuaccel::ops {

// An op's name as a template argument, so that each override knows which op it replaces.
struct OpName {
  char text[56]{};
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

// Adds rows to op_overrides() (overrides.h) when the library is loaded. register_overrides() in
// csrc/bind registers them with torch's dispatcher.
struct RegisterOverrides {
  RegisterOverrides(std::initializer_list<Override> rows);
};

// Defines the registration of a list, which follows in braces. __COUNTER__ gives it a name of its
// own, because several files may be one translation unit.
#define CPUACCEL_OVERRIDES \
  static const ::cpuaccel::ops::RegisterOverrides CPUACCEL_OVERRIDES_NAME(__COUNTER__)
#define CPUACCEL_OVERRIDES_NAME(number) CPUACCEL_OVERRIDES_JOINED(number)
#define CPUACCEL_OVERRIDES_JOINED(number) overrides_##number

}  // namespace cpuaccel::ops
