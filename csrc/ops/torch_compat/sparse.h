// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Members of sparse tensors.
#pragma once

#include <ATen/SparseCsrTensorUtils.h>      // 2.13 to 2.15
#include <ATen/native/SparseTensorUtils.h>  // 2.13 to 2.15
