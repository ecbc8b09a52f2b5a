// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Sizes of pools.
#pragma once

#include <ATen/native/Pool.h>  // 2.13 to 2.15
