// cpuaccel::graph_region: a piece of a compiled model, run as partitions of oneDNN Graph.
//
//   results = what `program` (csrc/graph/program.h) computes of inputs and constants
//
// `torch_program` says the same in ops of torch (cpuaccel/graph/torch_program.py): the fake kernel
// runs it, and so does cpuaccel::graph_region_by_torch, to which everything goes that oneDNN
// refuses.

#include "ops/graph/region.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/plugin.h"
#include "ops/graph/region_cache.h"
#include "ops/own_call.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

Tensors run_torch(const Tensors& inputs, const Tensors& constants, const std::string& program) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cpuaccel::graph_region_by_torch", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, inputs, constants, program);
  op.callBoxed(stack);
  return stack.back().toTensorVector();
}

// As oneDNN can read it.
at::Tensor dense(const at::Tensor& tensor) {
  const auto plain = tensor.is_neg() || tensor.is_conj() ? tensor.resolve_neg() : tensor;
  return plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
}

Tensors all_dense(const Tensors& tensors) {
  Tensors result;
  result.reserve(tensors.size());
  std::transform(tensors.begin(), tensors.end(), std::back_inserter(result), dense);
  return result;
}

std::vector<void*> pointers(const Tensors& tensors) {
  std::vector<void*> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    result.push_back(const_cast<void*>(tensor.const_data_ptr()));
  }
  return result;
}

Tensors run(const ReadyProgram& ready, const Tensors& inputs, const Tensors& constants) {
  const auto& compiled = ready.compiled();
  Tensors results;
  for (size_t i = 0; i < compiled.outputs().size(); ++i) {
    const auto& desc = compiled.outputs()[i];
    results.push_back(
        at::detail::empty_strided_cpu(desc.sizes, desc.strides, ready.output_types()[i]));
  }
  const at::Tensor arena =
      at::detail::empty_cpu({static_cast<int64_t>(compiled.arena_bytes())}, at::kByte);
  const auto run = [&](graph::StepWatch* watch) {
    compiled.run(pointers(inputs), ready.constant_data(constants), pointers(results),
                 static_cast<std::byte*>(arena.mutable_data_ptr()), watch);
  };
  if (steps_are_timed()) {
    TimedRun timed(ready.times(), compiled.step_count());
    run(&timed);
  } else if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) {
    RecordedRun recorded;
    run(&recorded);
  } else {
    run(nullptr);
  }
  return results;
}

}  // namespace

Tensors graph_region(const Tensors& inputs, const Tensors& constants, const std::string& program,
                     const std::string& torch_program) {
  if (!plugin_on()) {
    return run_torch(inputs, constants, torch_program);
  }
  const auto given = all_dense(inputs);
  const auto is_empty = [](const at::Tensor& tensor) { return tensor.numel() == 0; };
  if (std::any_of(given.begin(), given.end(), is_empty)) {
    count_refusal("graph_region", "empty input");
    return run_torch(inputs, constants, torch_program);
  }
  CPUACCEL_OWN_CALL(graph_region);
  try {
    const auto ready = RegionCache::instance().get(program, given, constants);
    return run(*ready, given, constants);
  } catch (const dnnl::error& error) {
    count_refusal("graph_region", error.what());
  } catch (const std::runtime_error& error) {  // of csrc/graph
    count_refusal("graph_region", error.what());
  }
  return run_torch(inputs, constants, torch_program);
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "graph_region(Tensor[] inputs, Tensor[] constants, str program, str torch_program) -> "
      "Tensor[]",
      {at::Tag::flexible_layout});
  library.def(
      "graph_region_by_torch(Tensor[] inputs, Tensor[] constants, str torch_program) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) { library.impl("graph_region", graph_region); }

}  // namespace cpuaccel::ops
