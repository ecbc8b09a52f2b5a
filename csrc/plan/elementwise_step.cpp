#include "plan/elementwise_step.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "plan/kernel_step.h"
#include "plan/widened.h"

namespace cpuaccel::plan {
namespace {

using kernels::ElementwiseOp;
using kernels::ElementwiseProgram;
using kernels::kElementwiseDims;

struct OpRow {
  std::string_view name;
  ElementwiseOp op;
  Activation activation = Activation::none;
};
constexpr std::array kOps{
    OpRow{"Add", ElementwiseOp::add},
    OpRow{"Subtract", ElementwiseOp::subtract},
    OpRow{"Multiply", ElementwiseOp::multiply},
    OpRow{"Divide", ElementwiseOp::divide},
    OpRow{"Square", ElementwiseOp::square},
    OpRow{"Exp", ElementwiseOp::exp},
    OpRow{"Sigmoid", ElementwiseOp::sigmoid},
    OpRow{"Tanh", ElementwiseOp::tanh},
    OpRow{"Clamp", ElementwiseOp::clamp},
    OpRow{"ReLU", ElementwiseOp::activation, Activation::relu},
    OpRow{"HardSwish", ElementwiseOp::activation, Activation::hardswish},
    OpRow{"GELU", ElementwiseOp::activation, Activation::gelu},
    OpRow{"GELUTanh", ElementwiseOp::activation, Activation::gelu_tanh},
};

const OpRow* op_row(const Operation& operation) {
  const auto* const found = std::ranges::find(kOps, operation.name, &OpRow::name);
  return operation.kind && found != kOps.end() ? found : nullptr;
}

// The sizes to which all these values broadcast; nullopt if they do not, or have too many
// dimensions.
std::optional<Sizes> common_sizes(const Building& building, const std::vector<Id>& ids) {
  Sizes result;
  for (const Id id : ids) {
    Sizes sizes = building.desc(id).sizes;
    if (sizes.size() > result.size()) {
      std::swap(sizes, result);
    }
    const size_t first = result.size() - sizes.size();
    for (size_t i = 0; i < sizes.size(); ++i) {
      int64_t& size = result[first + i];
      if (size != sizes[i] && size != 1 && sizes[i] != 1) {
        return std::nullopt;
      }
      size = size == 1 ? sizes[i] : size;
    }
  }
  return result.size() <= kElementwiseDims ? std::optional(result) : std::nullopt;
}

// The layout of the first operand of these sizes that is contiguous or channels_last, else
// contiguous.
TensorDesc dst_layout(const Building& building, const std::vector<Id>& ids, const Sizes& sizes) {
  for (const Id id : ids) {
    const auto& desc = building.desc(id);
    if (const auto format = memory_format_of(desc); format && desc.sizes == sizes) {
      return dense(sizes, *format);
    }
  }
  return dense(sizes, MemoryFormat::contiguous);
}

// Makes programs whose dimensions are those of a dense result, outermost in memory first.
class Program {
 public:
  Program(const Building& building, const TensorDesc& dst, DataType type)
      : building_(building), dst_(dst), rank_(dst.sizes.size()) {
    order_.resize(rank_);
    for (size_t i = 0; i < rank_; ++i) {
      order_[i] = i;
    }
    std::ranges::stable_sort(order_, [&](size_t a, size_t b) {
      return std::pair(dst.strides[a], dst.sizes[a]) > std::pair(dst.strides[b], dst.sizes[b]);
    });
    program_.type = type;
    for (size_t i = 0; i < rank_; ++i) {
      program_.sizes[kElementwiseDims - rank_ + i] = dst.sizes[order_[i]];
    }
  }

  void add(Id operand) {
    const auto& [sizes, strides] = building_.desc(operand);
    kernels::ElementwiseOperand result{building_.type(operand), {}};
    for (size_t i = 0; i < rank_; ++i) {
      const size_t missing = rank_ - sizes.size();
      if (order_[i] >= missing && sizes[order_[i] - missing] != 1) {
        result.strides[kElementwiseDims - rank_ + i] = strides[order_[i] - missing];
      }
    }
    program_.operands.push_back(result);
  }
  // An f32 number in memory. Returns how many operands come before it.
  size_t add_number() {
    program_.operands.push_back({DataType::f32, {}});
    return program_.operands.size() - 1;
  }
  void add(kernels::ElementwiseStep step) { program_.steps.push_back(step); }

  ElementwiseProgram done() && {
    program_.merge_dimensions();
    return std::move(program_);
  }

 private:
  const Building& building_;
  const TensorDesc& dst_;
  const size_t rank_;
  std::vector<size_t> order_;
  ElementwiseProgram program_;
};

std::unique_ptr<KernelStep> step_of(ElementwiseProgram program, std::vector<Id> inputs, Id to,
                                    TensorDesc desc) {
  return std::make_unique<KernelStep>(
      std::move(inputs), to, std::move(desc),
      [program = std::move(program)](std::span<void* const> in, std::span<void* const> out) {
        std::array<const void*, kernels::kElementwiseValues> operands{};
        std::ranges::copy(in, operands.begin());
        kernels::elementwise(program, std::span(operands).first(in.size()), out[0]);
      });
}

// The operand in whose place the result may be written.
std::optional<Id> overwritten_by(const Building& building, Id dst, const TensorDesc& layout,
                                 std::span<const Id> operands) {
  std::optional<Id> found;
  for (const Id id : operands) {
    if (building.type(id) == building.type(dst) && same_layout(building.desc(id), layout) &&
        building.may_overwrite(dst, id)) {
      found = id;
    }
  }
  return found;
}

// What operations read that is not a result of those before them.
std::vector<Id> operands_of(std::span<const Operation> operations) {
  std::vector<Id> made, result;
  for (const auto& operation : operations) {
    for (const Id id : operation.inputs) {
      if (std::ranges::find(made, id) == made.end() &&
          std::ranges::find(result, id) == result.end()) {
        result.push_back(id);
      }
    }
    made.push_back(operation.outputs[0]);
  }
  return result;
}

// Whether an operand is broadcast. oneDNN Graph reads some such operands number by number: 800
// times as long as the kernel takes, where a shift of AdaLN is a part of a row.
bool broadcasts(const Building& building, std::span<const Operation> operations) {
  const auto operands = operands_of(operations);
  return std::ranges::any_of(
      operands, [&](Id id) { return building.desc(id).sizes != building.desc(operands[0]).sizes; });
}

// Whether numbers that are neighbors in `layout` lie apart in a value of its sizes. The kernel
// would read them one by one; oneDNN copies them 30 times as fast.
bool lies_across(const Building& building, Id id, const TensorDesc& layout) {
  const auto& desc = building.desc(id);
  if (desc.sizes != layout.sizes || building.type(id) == DataType::f16) {
    return false;
  }
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.strides[i] == 1 && layout.sizes[i] > 1) {
      return desc.strides[i] != 1;
    }
  }
  return false;
}

}  // namespace

DeclineReason add_elementwise(Building& building, std::span<const Operation> operations) {
  const auto operands = operands_of(operations);
  if (operands.size() + operations.size() > kernels::kElementwiseValues) {
    return "too many elementwise operations";
  }
  if (!std::ranges::all_of(operations, op_row)) {
    return "an operation that the elementwise kernel lacks";
  }
  if (!std::ranges::all_of(operands, [&](Id id) { return is_f32_or_half(building.type(id)); })) {
    return "an operand that is no float";
  }
  const auto sizes = common_sizes(building, operands);
  if (!sizes) {
    return "operands that do not broadcast, or have too many dimensions";
  }
  const Id dst = operations.back().outputs[0];
  auto layout = dst_layout(building, operands, *sizes);
  Program program(building, layout, building.type(dst));
  std::map<Id, size_t> numbers;
  std::vector<Id> read;
  for (const Id id : operands) {
    numbers.emplace(id, numbers.size());
    read.push_back(lies_across(building, id, layout) ? with_layout(building, id, layout) : id);
    program.add(read.back());
  }
  for (const auto& operation : operations) {
    const OpRow& row = *op_row(operation);
    const size_t a = numbers.at(operation.inputs[0]);
    const size_t b = operation.inputs.size() > 1 ? numbers.at(operation.inputs[1]) : a;
    program.add({row.op, a, b, row.activation, attribute(operation.attributes, "min", 0.0f),
                 attribute(operation.attributes, "max", 0.0f)});
    numbers.emplace(operation.outputs[0], numbers.size());
  }
  const auto overwritten = overwritten_by(building, dst, layout, read);
  auto step = step_of(std::move(program).done(), read, dst, std::move(layout));
  step->overwritten = overwritten;
  building.add(std::move(step));
  return kAdded;
}

void add_scale(Building& building, const Region&, const Operation& operation) {
  const std::vector<Id> src{operation.inputs[0]};
  const Id dst = operation.outputs[0];
  const DataType type = building.type(src[0]);
  const auto& sizes = building.desc(src[0]).sizes;
  if (!is_f32_or_half(type) || building.type(dst) != type || sizes.size() > kElementwiseDims) {
    throw std::runtime_error("scale: no float, or too many dimensions");
  }
  auto layout = dst_layout(building, src, sizes);
  const bool is_sum = operation.attributes.contains("offset");
  const float number = attribute(operation.attributes, is_sum ? "offset" : "factor", 0.0f);
  Program program(building, layout, type);
  program.add(src[0]);
  program.add({is_sum ? ElementwiseOp::add : ElementwiseOp::multiply, 0, program.add_number()});
  const auto overwritten = overwritten_by(building, dst, layout, src);
  auto step =
      std::make_unique<KernelStep>(src, dst, std::move(layout),
                                   [program = std::move(program).done(), number](
                                       std::span<void* const> in, std::span<void* const> out) {
                                     const std::array<const void*, 2> operands{in[0], &number};
                                     kernels::elementwise(program, operands, out[0]);
                                   });
  step->overwritten = overwritten;
  building.add(std::move(step));
}

void add_cast(Building& building, Id from, Id to, const TensorDesc& desc) {
  Program program(building, desc, building.type(to));
  program.add(from);
  building.add(step_of(std::move(program).done(), {from}, to, desc));
}

Id dense_copy(Building& building, Id id, const TensorDesc& desc) {
  if (same_layout(building.desc(id), desc) || desc.sizes.size() > kElementwiseDims) {
    return with_layout(building, id, desc);
  }
  const Id copy = building.new_value(building.type(id));
  add_cast(building, id, copy, desc);
  return copy;
}

bool is_read_on_the_way(const StepRequest& request) {
  const auto& operations = request.partition().operations;
  return std::any_of(operations.begin(), operations.end() - 1, [&](const auto& operation) {
    return request.region.is_read_outside(operation.outputs[0], request.number);
  });
}

DeclineReason make_elementwise(StepRequest& request) {
  auto& building = request.building;
  const auto& operations = request.partition().operations;
  const DataType type = building.type(operations.back().outputs[0]);
  if (!is_widened(type) && (type != DataType::f32 || !broadcasts(building, operations))) {
    return "the CPU has arithmetic of the type, and no operand is broadcast";
  }
  if (is_read_on_the_way(request)) {
    return "a result on the way is read by other operations";
  }
  return add_elementwise(request.building, operations);
}

}  // namespace cpuaccel::plan
