// torch.classes.cpuaccel.BoundRegion: cpuaccel::graph_region with all but its inputs, kept in C++.
//
// From Python, handing weights by the hundred and two long texts to an op takes torch longer than
// small models compute.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ops/graph/region.h"

namespace cpuaccel::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

// Keys for which a call of the op has nothing to do where no gradients are asked for.
const auto kFallThrough =
    c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView}) |
    c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;

bool needs_gradient(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

class BoundRegion final : public torch::CustomClassHolder {
 public:
  BoundRegion(Tensors constants, std::string program, std::string torch_program)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow("cpuaccel::graph_region", "")),
        constants_(std::move(constants)),
        program_(std::move(program)),
        torch_program_(std::move(torch_program)) {}

  Tensors run(const Tensors& inputs) const {
    if (goes_to_the_kernel(inputs)) {
      return graph_region(inputs, constants_, program_, torch_program_);
    }
    torch::jit::Stack stack;
    torch::jit::push(stack, inputs, constants_, program_, torch_program_);
    op_.callBoxed(stack);
    return stack.back().toTensorVector();
  }

 private:
  // Whether the dispatcher would do nothing but call the kernel: no transform, mode or subclass
  // is to see the op.
  bool goes_to_the_kernel(const Tensors& inputs) const {
    c10::DispatchKeySet keys;
    for (const auto& each : inputs) {
      keys = keys | each.key_set();
    }
    const auto modes = c10::impl::tls_local_dispatch_key_set();
    keys = ((keys | modes.included_) - modes.excluded_) - kFallThrough;
    return keys.highestPriorityTypeId() == c10::DispatchKey::CPU &&
           !(at::GradMode::is_enabled() && (needs_gradient(inputs) || needs_gradient(constants_)));
  }

  c10::OperatorHandle op_;
  Tensors constants_;
  std::string program_, torch_program_;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.class_<BoundRegion>("BoundRegion")
      .def(torch::init<Tensors, std::string, std::string>())
      .def("run", &BoundRegion::run);
}

}  // namespace cpuaccel::ops
