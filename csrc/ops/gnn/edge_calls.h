// The ops on sorted edges, for ops that are made of several of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace cpuaccel::ops {

// The op cpuaccel::`name`, which is looked up: keep it in a static.
template <typename Signature>
c10::TypedOperatorHandle<Signature> edge_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace cpuaccel::ops
