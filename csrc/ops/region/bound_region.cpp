// torch.classes.cpuaccel.BoundRegion: a call of cpuaccel::graph_region or graph_region_ with all
// arguments but the inputs bound in C++.
//
// Passing hundreds of weights and two long texts from Python to an op takes torch longer than a
// small model computes.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/region/region.h"
#include "ops/torch_compat/modes.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

// Keys for which a call of the op has nothing to do if no gradients are needed.
const auto kFallThrough =
    c10::DispatchKeySet({c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView}) |
    c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset;

bool needs_gradient(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.requires_grad(); });
}

class BoundRegion final : public torch::CustomClassHolder {
 public:
  // A call writes to the first `written` inputs.
  BoundRegion(Tensors constants, std::string program, std::string torch_program, int64_t written)
      : op_(c10::Dispatcher::singleton().findSchemaOrThrow(
            written > 0 ? "cpuaccel::graph_region_" : "cpuaccel::graph_region", "")),
        constants_(std::move(constants)),
        program_(std::move(program)),
        torch_program_(std::move(torch_program)),
        written_(static_cast<size_t>(written)) {
    TORCH_CHECK(written >= 0, "BoundRegion: written: expected 0 or more, got ", written);
  }

  Tensors run(const Tensors& inputs) const {
    TORCH_CHECK(inputs.size() >= written_, "BoundRegion: inputs: expected ", written_,
                " tensors at least, got ", inputs.size());
    if (goes_to_the_kernel(inputs)) {
      return graph_region(inputs, constants_, program_, torch_program_, written_);
    }
    torch::jit::Stack stack;
    if (written_ > 0) {
      const auto end = inputs.begin() + static_cast<std::ptrdiff_t>(written_);
      torch::jit::push(stack, Tensors(inputs.begin(), end), Tensors(end, inputs.end()));
    } else {
      torch::jit::push(stack, inputs);
    }
    torch::jit::push(stack, constants_, program_, torch_program_);
    op_.callBoxed(stack);
    return stack.back().toTensorVector();
  }

 private:
  // Whether the dispatcher would only call the kernel: no transform, mode or subclass needs to see
  // the op.
  bool goes_to_the_kernel(const Tensors& inputs) const {
    c10::DispatchKeySet keys;
    for (const auto& each : inputs) {
      keys = keys | each.key_set();
    }
    const auto modes = c10::impl::tls_local_dispatch_key_set();
    keys = ((keys | modes.included_) - modes.excluded_) - kFallThrough;
    return keys.highestPriorityTypeId() == c10::DispatchKey::CPU &&
           !(at::GradMode::is_enabled() &&
             (needs_gradient(inputs) || needs_gradient(constants_))) &&
           !is_transformed(inputs) && !is_transformed(constants_);
  }

  c10::OperatorHandle op_;
  Tensors constants_;
  std::string program_, torch_program_;
  size_t written_;
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.class_<BoundRegion>("BoundRegion")
      .def(torch::init<Tensors, std::string, std::string, int64_t>())
      .def("run", &BoundRegion::run);
}

}  // namespace cpuaccel::ops
