// Collectives of torch.distributed that write to their first argument. torch leaves the version of
// these tensors alone, so cpuaccel counts the writes: packed weights depend on it.
#include "ops/region/collectives.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ops/region/hidden_writes.h"
#include "ops/torch_kernel.h"

namespace cpuaccel::ops {
namespace {

constexpr std::array kWritingCollectives{
    "_allgather_base_",
    "_reduce_scatter_base_",
    "allgather_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "allreduce_",
    "allreduce_coalesced_",
    "alltoall_",
    "alltoall_base_",
    "broadcast_",
    "gather_",
    "recv_",
    "recv_any_source_",
    "reduce_",
    "reduce_scatter_",
    "reduce_scatter_tensor_coalesced_",
    "scatter_",
};

// `written` is a tensor or lists of them, nested or not.
void note_writes(const c10::IValue& written) {
  if (written.isTensor()) {
    if (written.toTensor().defined()) {
      note_hidden_write(written.toTensor());
    }
  } else if (written.isList()) {
    for (const c10::IValue& each : written.toListRef()) {
      note_writes(each);
    }
  }
}

// Before torch's kernel, because threads of the process group may finish it at any time; and after
// it, for a plan that ran meanwhile.
void counted_collective(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/,
                        torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  const c10::IValue written = (*stack)[stack->size() - arguments];
  note_writes(written);
  torch_kernel(op.schema().name()).call(*stack);
  note_writes(written);
}

}  // namespace

void count_writes_of_collectives() {
  // Never destroyed: ops run while the process exits.
  static auto& library =
      *std::make_unique<std::vector<std::unique_ptr<torch::Library>>>().release();
  if (!library.empty()) {
    return;
  }
  for (const char* const name : kWritingCollectives) {
    const std::string full = std::string("c10d::") + name;
    if (!c10::Dispatcher::singleton().findSchema({full, ""})) {
      continue;  // a torch without torch.distributed
    }
    save_torch_kernel(full.c_str(), c10::DispatchKey::CPU);
    auto& each = *library.emplace_back(std::make_unique<torch::Library>(
        torch::Library::IMPL, "c10d", c10::DispatchKey::CPU, __FILE__, __LINE__));
    each.impl(name, torch::CppFunction::makeFromBoxedFunction<&counted_collective>());
  }
}

}  // namespace cpuaccel::ops
