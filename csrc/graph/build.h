// What those need to know who make steps of partitions.
#pragma once

#include <memory>

#include "graph/packed_weights.h"
#include "graph/program.h"
#include "graph/step.h"
#include "graph/tensor_desc.h"

namespace cpuaccel::graph {

class Building {
 public:
  virtual ~Building() = default;

  virtual DataType type(Id id) const = 0;
  // How a value that is there already lies.
  virtual const TensorDesc& desc(Id id) const = 0;
  virtual bool is_constant(Id id) const = 0;
  // The bytes of a constant, of which something is kept from now on, so that calls look whether it
  // changed; null where steps are only tried.
  virtual const void* constant(Id id) const = 0;
  // Whether `to` may be written where `from` lies: nobody needs that after the partition that steps
  // are made of, and the memory of both is the program's own.
  virtual bool may_be_over(Id to, Id from) const = 0;
  // Whether `to` is the memory of `from`, an input that a call writes to.
  virtual bool is_in_place(Id to, Id from) const = 0;
  virtual PackedWeights& packed() = 0;
  // Whether layers of f32 are to multiply in bfloat16, with sums and results in f32.
  virtual bool fast_math() const = 0;

  // Says that `to`, which lies as `desc` says from `offset` numbers on, is the memory of `from`, if
  // that may be: false, and nothing said, of what the program has to write elsewhere. Steps may
  // write to it.
  virtual bool alias(Id to, Id from, const TensorDesc& desc, int64_t offset) = 0;
  // A value that the program does not name.
  virtual Id new_value(DataType type) = 0;
  // In the order in which they run.
  virtual void add(std::unique_ptr<Step> step) = 0;
};

dnnl::memory::desc memory_desc(DataType type, const TensorDesc& desc);

// Writes the numbers of `from` to `to`, which lies as `desc` says. Both have a type, and the same
// sizes.
void add_copy(Building& building, Id from, Id to, const TensorDesc& desc);

// The value itself if its numbers lie in the places of `desc`, else a copy that lies so.
Id lying_as(Building& building, Id id, const TensorDesc& desc);

}  // namespace cpuaccel::graph
