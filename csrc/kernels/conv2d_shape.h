// The sizes of a 2-d convolution of floats, shared by the float convolution families.
#pragma once

#include <cstdint>

namespace cpuaccel::kernels {

// src is N x C x IH x IW, weights OC x C / groups x KH x KW, dst N x OC x OH x OW, in these orders
// or channels last. The images are dense. Outside of the image src counts as 0.
struct Conv2dShape {
  int64_t N = 1, C = 1, IH = 1, IW = 1, OC = 1, OH = 1, OW = 1, groups = 1;
  int64_t KH = 1, KW = 1, SH = 1, SW = 1, PH = 0, PW = 0, DH = 1, DW = 1;

  int64_t taps() const { return KH * KW; }
  int64_t pixels() const { return OH * OW; }  // of one dst image
};

enum class ImageLayout { channels_first, channels_last };

}  // namespace cpuaccel::kernels
