// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. torch's random generator on CPU.
#pragma once

#include <ATen/CPUGeneratorImpl.h>  // 2.13 to 2.15
