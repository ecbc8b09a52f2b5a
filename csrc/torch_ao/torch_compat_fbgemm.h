// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. torch's packed weights of FBGEMM. It includes FBGEMM's headers, which only one file needs.
#pragma once

#include <ATen/native/quantized/cpu/fbgemm_utils.h>  // 2.13 to 2.15
