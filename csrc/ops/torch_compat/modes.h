// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Which dispatch keys and modes a thread has, and tensor subclasses.
#pragma once

#include <ATen/TensorSubclassLikeUtils.h>        // 2.13 to 2.15
#include <c10/core/impl/LocalDispatchKeySet.h>   // 2.13 to 2.15
#include <c10/core/impl/TorchDispatchModeTLS.h>  // 2.13 to 2.15
