// Building: the interface through which partitions of a region become steps of a plan. Also helpers
// that copy a value to another layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/api.h"
#include "plan/packed_weights.h"
#include "plan/region.h"
#include "plan/step.h"
#include "plan/tensor_desc.h"

namespace cpuaccel::plan {

class Building {
 public:
  virtual ~Building() = default;

  virtual DataType type(Id id) const = 0;
  // The layout of a value that exists already.
  virtual const TensorDesc& desc(Id id) const = 0;
  virtual bool is_constant(Id id) const = 0;
  // The data of a constant. The plan counts as caching something made of it, so later calls check
  // whether the constant changed. Null if steps are only tried.
  virtual const void* constant(Id id) const = 0;
  // Whether `to` may overwrite `from`: no later partition needs `from`, and both are in the arena.
  virtual bool may_overwrite(Id to, Id from) const = 0;
  // Whether `to` shares the memory of `from`, an input that a call mutates.
  virtual bool is_in_place(Id to, Id from) const = 0;
  virtual PackedWeights& packed() = 0;
  // Whether f32 layers multiply in bfloat16, with sums and results in f32.
  virtual bool fast_math() const = 0;

  // Makes `to` a view of `from`, with the layout `desc` and `offset` elements from the start of
  // `from`. Steps may write to it. Returns false, and changes nothing, if the plan has to write
  // `to` to memory of its own.
  virtual bool alias(Id to, Id from, const TensorDesc& desc, int64_t offset) = 0;
  // A new value that the region does not name.
  virtual Id new_value(DataType type) = 0;
  // Adds a step. Steps run in the order in which they are added. `facts.kinds` may say what the
  // step does, if it is no copy.
  virtual void add(std::unique_ptr<Step> step) = 0;

  // Values that steps make of `from` in the way that `how` says, for all layers that need them. The
  // list is empty at first: the first layer adds the steps and fills it.
  virtual std::vector<Id>& derived(Id from, const std::string& how) = 0;
};

dnnl::memory::desc memory_desc(DataType type, const TensorDesc& desc);

// Adds a step that copies `from` to `to`, which gets the layout `desc`. The types of both are
// known, and both have the same sizes.
CPUACCEL_API void add_copy(Building& building, Id from, Id to, const TensorDesc& desc);

// The value itself if it has the layout `desc`, else a new value: a copy with that layout.
CPUACCEL_API Id with_layout(Building& building, Id id, const TensorDesc& desc);

}  // namespace cpuaccel::plan
