// Override lists: the torch ops that cpuaccel overrides, each with its dispatch key and the
// cpuaccel function that replaces torch's kernel. The file of an op defines its list and registers
// it:
//
//   constexpr std::array kOverrides{
//       CPUACCEL_OVERRIDE("aten::silu", c10::DispatchKey::CPU, silu),
//   };
//   CPUACCEL_REGISTER_OVERRIDES(kOverrides);
#pragma once

#include <torch/library.h>

#include <cstddef>
#include <span>
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

// Adds a list to op_overrides() (overrides.h) when the library is loaded. register_overrides() in
// csrc/bind registers the lists with torch's dispatcher.
struct RegisterOverrides {
  explicit RegisterOverrides(std::span<const Override> list);
};

#define CPUACCEL_REGISTER_OVERRIDES(list) \
  const ::cpuaccel::ops::RegisterOverrides register_overrides(list)

}  // namespace cpuaccel::ops
