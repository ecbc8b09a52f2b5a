// Primitive: a compiled oneDNN primitive for one problem, safe to run from several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/api.h"
#include "base/idle.h"
#include "dnnl/api.h"
#include "dnnl/matmul_problem.h"
#include "dnnl/problem.h"

namespace cpuaccel::dnnl_layer {

// The kinds of problems that a primitive can be created from.
using AnyProblem = std::variant<Problem, MatmulProblem>;

// Pointers of one execution; shapes are the problem's.
struct Arguments {
  const void* src = nullptr;
  const void* weights = nullptr;  // packed to Primitive::weights_desc()
  const void* bias = nullptr;     // for int8: f32, in units of the result before requantization
  const float* scales = nullptr;  // for int8: OC values
  int32_t src_zero_point = 0;
  int32_t dst_zero_point = 0;
  void* dst = nullptr;
};

class CPUACCEL_API Primitive {
 public:
  // Throws dnnl::error if oneDNN has no implementation.
  explicit Primitive(const AnyProblem& problem);
  ~Primitive();
  Primitive(const Primitive&) = delete;
  Primitive& operator=(const Primitive&) = delete;

  void execute(const Arguments& arguments) const;

  // Layout in which the weights must be packed.
  const dnnl::memory::desc& weights_desc() const { return weights_desc_; }
  // oneDNN's name for the implementation, for example "jit_int8_1x1:avx512_core_vnni".
  const std::string& implementation() const { return implementation_; }
  // Whether each thread runs a slice, by parallel_for (dnnl/slices.h).
  bool is_sliced() const { return !slices_.empty(); }
  // True for oneDNN's scalar reference implementation, which is too slow to run.
  bool is_reference() const { return implementation_.starts_with("ref"); }
  // Bytes that oneDNN reports for it: scratchpad and descriptors, without generated code.
  size_t bytes() const { return bytes_; }

 private:
  // The memory objects of one execution.
  struct Context;
  std::unique_ptr<Context> acquire() const;

  // One slice and the offsets of its src and dst in bytes.
  struct Part {
    std::unique_ptr<const Primitive> primitive;
    size_t src_first, dst_first;
  };
  void make_slices(const Problem& problem);

  // If not empty, only weights_desc_, implementation_ and bytes_ below are set
  std::vector<Part> slices_;
  dnnl::primitive primitive_;
  dnnl::memory::desc src_desc_, weights_desc_, bias_desc_, dst_desc_, scratchpad_desc_;
  int64_t scales_ = 0;  // how many; none for floating point
  bool src_zero_point_ = false;
  bool dst_zero_point_ = false;
  std::string implementation_;
  size_t bytes_ = 0;
  mutable Idle<Context> idle_;
};

// The calling thread's stream.
dnnl::stream& stream();

}  // namespace cpuaccel::dnnl_layer
