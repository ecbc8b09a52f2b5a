#include "plan/sum_step.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/broadcast_add/broadcast_add.h"
#include "plan/kernel_step.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using kernels::BroadcastOperand;

// Operands with fewer elements are left to oneDNN Graph: the kernel adds them one by one.
constexpr int64_t kLeastRun = 16;

// The operands of a chain of additions, each of which adds one value to the sum before it.
std::optional<std::vector<Id>> terms_of(const Partition& partition) {
  std::vector<Id> terms;
  const Operation* before = nullptr;
  for (const auto& operation : partition.operations) {
    auto inputs = operation.inputs;
    if (before != nullptr) {
      const auto sum = std::find(inputs.begin(), inputs.end(), before->outputs[0]);
      if (sum == inputs.end()) {
        return std::nullopt;
      }
      inputs.erase(sum);
      if (inputs[0] == before->outputs[0]) {
        return std::nullopt;  // twice the sum
      }
    }
    terms.insert(terms.end(), inputs.begin(), inputs.end());
    before = &operation;
  }
  return terms;
}

// The sizes of the sum. The sizes of every operand, without leading ones, must be the end of them.
// nullopt if they are not, if an operand is too small, or if one is not contiguous.
std::optional<Sizes> sizes_of_sum(const Building& building, const std::vector<Id>& terms) {
  const auto longest = std::max_element(terms.begin(), terms.end(), [&](Id a, Id b) {
    const auto &of_a = building.desc(a).sizes, &of_b = building.desc(b).sizes;
    return std::pair(count_of(of_a), of_a.size()) < std::pair(count_of(of_b), of_b.size());
  });
  const Sizes sizes = building.desc(*longest).sizes;
  for (const Id id : terms) {
    const auto& desc = building.desc(id);
    const auto from =
        std::find_if(desc.sizes.begin(), desc.sizes.end(), [](int64_t size) { return size != 1; });
    const auto count = static_cast<size_t>(desc.sizes.end() - from);
    if (desc.sizes.size() > sizes.size() || count_of(desc.sizes) < kLeastRun ||
        !std::equal(from, desc.sizes.end(), sizes.end() - static_cast<ptrdiff_t>(count)) ||
        !same_layout(desc, dense(desc.sizes, MemoryFormat::contiguous))) {
      return std::nullopt;
    }
  }
  return sizes;
}

bool are_additions(const Partition& partition) {
  return std::all_of(
      partition.operations.begin(), partition.operations.end(),
      [](const auto& operation) { return operation.kind == dnnl::graph::op::kind::Add; });
}

// Whether nothing else reads the partition's results before its last one.
bool is_read_at_end_only(const StepRequest& request) {
  const auto& operations = request.partition().operations;
  return std::none_of(operations.begin(), operations.end() - 1, [&](const auto& operation) {
    return request.region.is_read_outside(operation.outputs[0], request.number);
  });
}

}  // namespace

DeclineReason make_sum(StepRequest& request) {
  auto& building = request.building;
  const auto& partition = request.partition();
  if (!are_additions(partition)) {
    return "other operations than additions";
  }
  if (!is_read_at_end_only(request)) {
    return "a sum on the way is read by other operations";
  }
  const auto terms = terms_of(partition);
  if (!terms) {
    return "not a chain of additions of one value each";
  }
  const Id dst = partition.operations.back().outputs[0];
  const auto type = building.type(dst);
  const auto is_of_type = [&](Id id) { return building.type(id) == type; };
  if (!is_f32_or_half(type) || !std::all_of(terms->begin(), terms->end(), is_of_type)) {
    return "not all f32, all bf16 or all f16";
  }
  const auto sizes = sizes_of_sum(building, *terms);
  if (!sizes) {
    return "operands that are small, not contiguous, or broadcast along inner dimensions";
  }
  std::vector<int64_t> counts;
  std::optional<Id> overwritten;
  for (const Id id : *terms) {
    counts.push_back(count_of(building.desc(id).sizes));
    if (counts.back() == count_of(*sizes) && building.may_overwrite(dst, id)) {
      overwritten = id;
    }
  }
  auto step =
      std::make_unique<KernelStep>(*terms, dst, dense(*sizes, MemoryFormat::contiguous),
                                   [counts, type, count = count_of(*sizes)](
                                       std::span<void* const> in, std::span<void* const> out) {
                                     std::vector<BroadcastOperand> operands(in.size());
                                     for (size_t i = 0; i < in.size(); ++i) {
                                       operands[i] = {in[i], counts[i]};
                                     }
                                     kernels::broadcast_add({operands, out[0], count, type});
                                   });
  step->overwritten = overwritten;
  building.add(std::move(step));
  return kAdded;
}

}  // namespace cpuaccel::plan
