// oneDNN implementations that must not run because of bugs that tests found.
#pragma once

#include <cstdint>
#include <string_view>

namespace cpuaccel::dnnl_layer {

// Whether an implementation writes past the results of a convolution of `pixels` pixels per image.
//
// AMX's own 1x1 loop takes pixels in tiles of up to 16, two at a time. If there are three tiles
// (27, 33, 36, 39, 42, 45 or 48 pixels in oneDNN 3.2) it writes a fourth, over whatever is there.
constexpr bool writes_past_results(std::string_view implementation, int64_t pixels) {
  constexpr int64_t kThreeTiles = 48;
  return implementation == "jit_1x1:avx512_core_amx" && pixels <= kThreeTiles;
}

}  // namespace cpuaccel::dnnl_layer
