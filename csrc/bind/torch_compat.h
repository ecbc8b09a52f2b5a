// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Tensors of Python objects.
#pragma once

#include <torch/csrc/autograd/python_variable.h>  // 2.13 to 2.15
