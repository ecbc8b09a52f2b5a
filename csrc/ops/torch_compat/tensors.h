// Headers of torch that are not part of its public C++ interface, each with the versions that have
// it. Layouts, sizes and overlaps of tensors.
#pragma once

#include <ATen/ExpandUtils.h>      // 2.13 to 2.15
#include <ATen/MemoryOverlap.h>    // 2.13 to 2.15
#include <ATen/WrapDimUtils.h>     // 2.13 to 2.15
#include <ATen/core/IListRef.h>    // 2.13 to 2.15
#include <ATen/native/Resize.h>    // 2.13 to 2.15
#include <c10/util/FunctionRef.h>  // 2.13 to 2.15
#include <c10/util/MaybeOwned.h>   // 2.13 to 2.15
