// Tuning results for problems that were not timed, taken from timed problems of other sizes.
//
// A model that is called with new sizes must run at once, and its layers were timed for other
// sizes. Each new problem takes the result of the nearest timed one, instead of some milliseconds
// of timing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/api.h"

namespace cpuaccel::dnnl_layer {

// While an instance lives on a thread, tuning is limited there: hardly anything new is timed
// (`similar_tuning_result`).
class CPUACCEL_API LimitedTuning {
 public:
  explicit LimitedTuning(bool on = true);
  ~LimitedTuning();
  LimitedTuning(const LimitedTuning&) = delete;
  LimitedTuning& operator=(const LimitedTuning&) = delete;

 private:
  LimitedTuning* outer_;
  int left_;

  friend bool take_tuning_run();
  friend bool limited_tuning();
};

// Whether tuning is limited on this thread.
bool limited_tuning();
// Whether a problem to which no timed one is near may still be timed. Counts it.
bool take_tuning_run();

// Tuning results by key (dnnl/tuning_cache.h), to find the nearest problem. Not thread-safe.
class SimilarProblems {
 public:
  void add(std::string_view key, int result);
  void clear() { by_skeleton_.clear(); }

  struct Found {
    int result;
    bool is_near;  // no size is more than four times the other problem's
  };
  // The result of the problem whose key differs from `key` in numbers only, and in them the least;
  // nullopt if there is none. Threads, ISAs, windows and groups must be equal.
  std::optional<Found> nearest(std::string_view key) const;

 private:
  struct Entry {
    std::vector<double> logarithms;
    int result;
  };
  std::unordered_map<std::string, std::vector<Entry>> by_skeleton_;
};

}  // namespace cpuaccel::dnnl_layer
