// Elementwise operations in one pass by kernel family elementwise, in f32 arithmetic: those of
// 16-bit floats on CPUs without arithmetic of the type, for which oneDNN has no primitives, and
// those of f32 whose operands are broadcast, which oneDNN Graph may read slowly.
#pragma once

#include <span>

#include "plan/step_maker.h"

namespace cpuaccel::plan {

// Adds a step that computes `operations`, each of which reads what exists or results of those
// before it. Only the last result is written. The reason if it cannot.
DeclineReason add_elementwise(Building& building, std::span<const Operation> operations);

// The kind of op `scale` (step_registry.h): the product with a number, or the sum with one.
void add_scale(Building& building, const Region& region, const Operation& operation);

// Adds a step that copies `from` to `to`, which has a float type of its own and gets the dense
// layout `desc`.
void add_cast(Building& building, Id from, Id to, const TensorDesc& desc);

// with_layout for a dense layout, also of a type that oneDNN cannot copy.
Id dense_copy(Building& building, Id id, const TensorDesc& desc);

// The maker of these steps (step_makers.h).
DeclineReason make_elementwise(StepRequest& request);

// Whether something else reads a result of the partition before its last one.
bool is_read_on_the_way(const StepRequest& request);

}  // namespace cpuaccel::plan
