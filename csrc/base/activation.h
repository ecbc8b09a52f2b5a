// Activation: the elementwise functions that cpuaccel's kernels apply to their results, by the
// names that compiled graphs use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cpuaccel {

enum class Activation : uint8_t {
  none,
#define CPUACCEL_ACTIVATION(name, ...) name,
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
};

// All of them, each at the index of its number.
inline constexpr std::array kActivations{
    Activation::none,
#define CPUACCEL_ACTIVATION(name, ...) Activation::name,
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
};

inline constexpr std::array<std::string_view, kActivations.size()> kActivationNames{
    "",
#define CPUACCEL_ACTIVATION(name, ...) #name,
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
};

// For errors: "relu, hardswish, ..., or empty".
inline constexpr const char* kExpectedActivation =
#define CPUACCEL_ACTIVATION(name, ...) #name ", "
#include "base/activations.inc"
#undef CPUACCEL_ACTIVATION
    "or empty";

constexpr std::string_view activation_name(Activation activation) {
  return kActivationNames[static_cast<size_t>(activation)];
}

// none for "", nullopt for other unknown names.
constexpr std::optional<Activation> activation_named(std::string_view name) {
  for (const Activation activation : kActivations) {
    if (activation_name(activation) == name) {
      return activation;
    }
  }
  return std::nullopt;
}

}  // namespace cpuaccel
