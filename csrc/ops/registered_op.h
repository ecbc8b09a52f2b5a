// Calls of cpuaccel's ops through torch's dispatcher, from other ops.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace cpuaccel::ops {

// The op `name`, such as "cpuaccel::edge_sum". The lookup is slow: store the handle in a static.
template <typename Signature>
c10::TypedOperatorHandle<Signature> registered_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace cpuaccel::ops
