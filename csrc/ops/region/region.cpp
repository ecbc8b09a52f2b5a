// cpuaccel::graph_region: runs a region of a compiled model as a plan of oneDNN Graph partitions
// and cpuaccel kernels.
//
//   results = what `program` (csrc/plan/region.h) computes of inputs and constants
//
// cpuaccel::graph_region_ is the same on the inputs `written` followed by `inputs`, except that the
// last results, one for each of `written`, are written to these tensors in place, as to a decoder's
// cache. If a written tensor has gaps, or shares memory with another, torch's ops run.
//
// `torch_program` is the same computation in torch ops (cpuaccel/compile/bridge/torch_fallback.py).
// The fake kernel runs it, and so does cpuaccel::graph_region_by_torch, the fallback for everything
// that oneDNN rejects.

#include "ops/region/region.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/plugin.h"
#include "ops/kernel_call.h"
#include "ops/region/region_cache.h"
#include "ops/torch_kernel.h"
#include "ops/transforms.h"

namespace cpuaccel::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

// All results are computed before the first input changes.
Tensors run_torch(const Tensors& inputs, const Tensors& constants, const std::string& program,
                  size_t written) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cpuaccel::graph_region_by_torch", "");
  torch::jit::Stack stack;
  torch::jit::push(stack, inputs, constants, program);
  op.callBoxed(stack);
  auto results = stack.back().toTensorVector();
  TORCH_CHECK(results.size() >= written, "cpuaccel::graph_region_: written: expected ",
              results.size(), " tensors at most, as many as there are results, got ", written);
  const size_t fresh = results.size() - written;
  for (size_t i = 0; i < written; ++i) {
    inputs[i].copy_(results[fresh + i]);
  }
  results.resize(fresh);
  return results;
}

// A dense tensor that oneDNN can read.
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

bool has_empty(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& tensor) { return tensor.numel() == 0; });
}

// Data pointers; those of the first `written` tensors are for writing.
std::vector<void*> pointers(const Tensors& tensors, size_t written = 0) {
  std::vector<void*> result;
  result.reserve(tensors.size());
  for (const auto& tensor : tensors) {
    result.push_back(result.size() < written ? tensor.mutable_data_ptr()
                                             : const_cast<void*>(tensor.const_data_ptr()));
  }
  return result;
}

// The reason why the first `written` of `inputs` cannot be written to while others are read, or
// null.
const char* in_place_fallback_reason(size_t written, const Tensors& inputs,
                                     const Tensors& constants) {
  if (written == 0) {
    return nullptr;
  }
  std::vector<const c10::StorageImpl*> storages;
  for (size_t i = 0; i < written; ++i) {
    const auto& tensor = inputs[i];
    if (!tensor.is_non_overlapping_and_dense() || tensor.is_neg() || tensor.is_conj()) {
      return "writes to a tensor with gaps";
    }
    storages.push_back(tensor.storage().unsafeGetStorageImpl());
  }
  std::sort(storages.begin(), storages.end());
  const auto is_written = [&](const at::Tensor& tensor) {
    return std::binary_search(storages.begin(), storages.end(),
                              tensor.storage().unsafeGetStorageImpl());
  };
  if (std::adjacent_find(storages.begin(), storages.end()) != storages.end() ||
      std::any_of(inputs.begin() + static_cast<std::ptrdiff_t>(written), inputs.end(),
                  is_written) ||
      std::any_of(constants.begin(), constants.end(), is_written)) {
    return "writes to a tensor that shares its memory";
  }
  return nullptr;
}

Tensors run(const CachedPlan& ready, const Tensors& inputs, const Tensors& constants,
            size_t written) {
  const auto& compiled = ready.compiled();
  Tensors results;
  for (size_t i = 0; i < compiled.outputs().size(); ++i) {
    const auto& desc = compiled.outputs()[i];
    results.push_back(
        at::detail::empty_strided_cpu(desc.sizes, desc.strides, ready.output_types()[i]));
  }
  const at::Tensor arena =
      at::detail::empty_cpu({static_cast<int64_t>(compiled.arena_bytes())}, at::kByte);
  const auto run = [&](plan::StepObserver* observer) {
    compiled.run(pointers(inputs, written), ready.constant_data(constants), pointers(results),
                 static_cast<std::byte*>(arena.mutable_data_ptr()), observer);
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
                     const std::string& torch_program, size_t written) {
  const auto by_torch = [&] { return run_torch(inputs, constants, torch_program, written); };
  if (!plugin_on()) {
    return by_torch();
  }
  const auto given = all_dense(inputs);
  const char* reason =
      has_empty(given) ? "empty input" : in_place_fallback_reason(written, inputs, constants);
  if (reason != nullptr) {
    report_fallback("graph_region", reason);
    return by_torch();
  }
  CPUACCEL_KERNEL_CALL(graph_region);
  try {
    const auto ready = RegionCache::instance().get(program, given, constants, written);
    std::for_each_n(inputs.begin(), written,
                    [](const at::Tensor& tensor) { tensor.unsafeGetTensorImpl()->bump_version(); });
    return run(*ready, given, constants, written);
  } catch (const std::invalid_argument& error) {
    // Callers expect a ValueError. From 2.15 on, torch turns exceptions of std into RuntimeError.
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const dnnl::error& error) {
    report_fallback("graph_region", error.what());
  } catch (const std::runtime_error& error) {  // thrown by csrc/plan
    report_fallback("graph_region", error.what());
  }
  return by_torch();
}

TORCH_LIBRARY_FRAGMENT(cpuaccel, library) {
  library.def(
      "graph_region(Tensor[] inputs, Tensor[] constants, str program, str torch_program) -> "
      "Tensor[]",
      {at::Tag::flexible_layout});
  library.def(
      "graph_region_(Tensor(a!)[] written, Tensor[] inputs, Tensor[] constants, str program, "
      "str torch_program) -> Tensor[]",
      {at::Tag::flexible_layout});
  library.def("keep_private(Tensor[] tensors) -> ()");
  library.def(
      "graph_region_by_torch(Tensor[] inputs, Tensor[] constants, str torch_program) -> Tensor[]");
}

namespace {

Tensors functional(const Tensors& inputs, const Tensors& constants, const std::string& program,
                   const std::string& torch_program) {
  return graph_region(inputs, constants, program, torch_program);
}

// For constants of future regions: nobody writes to them, so no call has to look at them.
void keep_private(const Tensors& tensors) { RegionCache::instance().keep_private(tensors); }

Tensors in_place(const Tensors& written, const Tensors& others, const Tensors& constants,
                 const std::string& program, const std::string& torch_program) {
  auto inputs = written;
  inputs.insert(inputs.end(), others.begin(), others.end());
  return graph_region(inputs, constants, program, torch_program, written.size());
}

// For both ops. Under torch.func and forward-mode derivatives torch's ops run, which pass tangents
// on.
void autograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  constexpr size_t kTexts = 2;  // the last arguments; the others are lists of tensors
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const auto lists = arguments.slice(0, arguments.size() - kTexts);
  const bool runs_on_torch =
      in_a_transform() || std::ranges::any_of(lists, [](const c10::IValue& list) {
        return std::ranges::any_of(list.toListRef(), [](const c10::IValue& tensor) {
          return has_tangent(tensor.toTensor());
        });
      });
  if (!runs_on_torch) {
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
    return;
  }
  report_fallback("graph_region", kTransformed);
  Tensors inputs;
  for (const auto& list : lists.slice(0, lists.size() - 1)) {
    const auto tensors = list.toTensorVector();
    inputs.insert(inputs.end(), tensors.begin(), tensors.end());
  }
  const size_t written = lists.size() > 2 ? lists[0].toListRef().size() : 0;
  auto results =
      run_torch(inputs, lists.back().toTensorVector(), arguments.back().toStringRef(), written);
  torch::jit::drop(*stack, arguments.size());
  torch::jit::push(*stack, std::move(results));
}

}  // namespace

TORCH_LIBRARY_IMPL(cpuaccel, CPU, library) {
  library.impl("graph_region", functional);
  library.impl("graph_region_", in_place);
  library.impl("keep_private", keep_private);
}

TORCH_LIBRARY_IMPL(cpuaccel, AutogradCPU, library) {
  library.impl("graph_region", torch::CppFunction::makeFromBoxedFunction<&autograd>());
  library.impl("graph_region_", torch::CppFunction::makeFromBoxedFunction<&autograd>());
}

// Under this key every call is within a transform.
TORCH_LIBRARY_IMPL(cpuaccel, FuncTorchBatched, library) {
  library.impl("graph_region", torch::CppFunction::makeFromBoxedFunction<&autograd>());
  library.impl("graph_region_", torch::CppFunction::makeFromBoxedFunction<&autograd>());
}

}  // namespace cpuaccel::ops
