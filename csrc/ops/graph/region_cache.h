// Pieces of compiled models, ready to run: by what they compute, on which weights, for which sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/compiled.h"
#include "graph/program.h"
#include "ops/cache_stats.h"
#include "ops/graph/step_times.h"
#include "ops/graph/watch.h"

namespace cpuaccel::ops {

// A program compiled for some sizes, and what its runs read besides inputs.
class ReadyProgram {
 public:
  const graph::CompiledProgram& compiled() const { return *compiled_; }
  // In the program's order.
  const std::vector<at::ScalarType>& output_types() const { return output_types_; }
  // The data of the constants that runs read, null of others; `given` are those of the call.
  std::vector<void*> constant_data(const std::vector<at::Tensor>& given) const;
  StepTimes& times() const { return times_; }

 private:
  friend class RegionCache;
  std::vector<at::ScalarType> output_types_;
  std::shared_ptr<graph::PackedWeights> packed_;
  std::vector<at::Tensor> prepared_;  // undefined where a call brings it, or no run reads it
  std::unique_ptr<graph::CompiledProgram> compiled_;
  mutable StepTimes times_;
};

// Bounded by how many programs are compiled: each shape of each counts, and of one program on the
// same weights there are kMostShapes. Least recently used goes first. The weights of a program are
// looked at in every call (WatchedTensors): what was made of others than they are now is dropped.
class RegionCache {
 public:
  static RegionCache& instance();

  // `text` is a program whose first line tells it from all others; `inputs` are dense, and to so
  // many of them as `written` says runs write (CompiledProgram). Threads that miss wait for each
  // other.
  // Throws what parsing and compiling throw, and std::runtime_error where `constants` are not
  // dense; what did not compile is not tried again, and throws
  // std::runtime_error with the same reason.
  std::shared_ptr<const ReadyProgram> get(std::string_view text,
                                          const std::vector<at::Tensor>& inputs,
                                          const std::vector<at::Tensor>& constants,
                                          size_t written = 0);

  // Says that nobody writes to these tensors, nor ever will: looks leave their bytes out.
  void keep_private(at::TensorList tensors);

  // capacity >= 0; what is over it goes at once. 0 keeps nothing.
  void set_capacity(int64_t capacity);
  void clear();
  CacheStats stats();
  void reset_stats();

  // Programs that were run while steps were timed, each with its first line.
  std::vector<std::pair<std::string, std::shared_ptr<const ReadyProgram>>> timed();
  void clear_times();

 private:
  RegionCache();

  struct Shape {
    std::vector<int64_t> inputs;  // rank, sizes and strides of each: one block, which is cold
    size_t written;               // so many of them
    int threads;
    bool fast_math;
    bool operator==(const Shape&) const = default;
  };
  // Of one program: whoever brings a thousand sizes does not fill the memory with their code.
  static constexpr size_t kMostShapes = 128;

  // Programs compiled on one set of weights.
  struct Weights {
    explicit Weights(at::TensorList tensors) : watched(tensors, false) {}

    WatchedTensors watched;
    std::shared_ptr<graph::PackedWeights> packed = std::make_shared<graph::PackedWeights>();
  };
  struct Region {
    graph::Program program;
    std::list<std::shared_ptr<Weights>> weights;
  };
  struct Entry {
    std::shared_ptr<Weights> weights;
    Shape shape;
    std::shared_ptr<const ReadyProgram> ready;  // null where it does not compile
    std::string why_not;
  };

  // Makes what `get` did not find.
  std::shared_ptr<const ReadyProgram> make(std::string_view text, Shape shape,
                                           const std::vector<at::Tensor>& constants);

  // Under the lock, all of them.
  Region& region_of(std::string_view text);
  static std::shared_ptr<Weights> find_weights(const Region& region,
                                               const std::vector<at::Tensor>& constants);
  // Null if there is none. Throws the reason of one that does not compile.
  std::shared_ptr<const ReadyProgram> find(const Weights* weights, const Shape& shape);
  std::shared_ptr<const ReadyProgram> compile(const Region& region, Weights& weights,
                                              const Shape& shape,
                                              const std::vector<at::Tensor>& constants) const;
  // Whether any program was compiled on these weights.
  bool is_known(const std::vector<at::Tensor>& constants) const;
  void drop(const std::shared_ptr<Weights>& weights);
  // Those whose tensors are gone, and those that were `constants` before they were written to.
  void drop_outdated(Region& region, const std::vector<at::Tensor>& constants);
  void shrink_to(size_t capacity);
  // Keeps at most kMostShapes programs that are compiled on these weights.
  void shrink(const Weights* weights);
  // Programs that nothing is compiled of any more.
  void drop_unused_regions();

  std::mutex& mutex_;
  std::unordered_map<std::string, std::unique_ptr<Region>> regions_;
  std::list<Entry> order_;  // front: used last
  // Of tensors that nobody writes to: as long as a weak pointer is held, no other has its address.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> private_;
  size_t capacity_ = 1024;
  int64_t misses_ = 0, stale_ = 0, evictions_ = 0;
  std::atomic<int64_t> hits_{0};
};

}  // namespace cpuaccel::ops
