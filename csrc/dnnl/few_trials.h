// Ranks of problems that were not timed: those of problems that differ in their sizes alone.
//
// A model that is called with new sizes is to run at once. Its layers were timed for other sizes:
// each new one takes the rank of the nearest problem, in place of some milliseconds of trial.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cpuaccel::dnnl_layer {

// While one of them lives on a thread, what is not known there is hardly timed (`rank_alike`).
class FewTrials {
 public:
  explicit FewTrials(bool on = true);
  ~FewTrials();
  FewTrials(const FewTrials&) = delete;
  FewTrials& operator=(const FewTrials&) = delete;

 private:
  FewTrials* outer_;
  int left_;

  friend bool take_trial();
  friend bool few_trials();
};

// Whether one lives on this thread, and is on.
bool few_trials();
// Whether something may be timed that nothing is like; counts it.
bool take_trial();

// Ranks by the texts of problems, to find the nearest. Not safe to use from several threads.
class AlikeRanks {
 public:
  void add(std::string_view problem, int rank);
  void clear() { by_skeleton_.clear(); }

  struct Found {
    int rank;
    bool is_near;  // no size is more than four times the other
  };
  // Of the problem that differs from `problem` in numbers alone, and in them the least; nothing if
  // there is none. Threads, instruction sets, windows and groups have to be the same.
  std::optional<Found> nearest(std::string_view problem) const;

 private:
  struct Entry {
    std::vector<double> logarithms;
    int rank;
  };
  std::unordered_map<std::string, std::vector<Entry>> by_skeleton_;
};

}  // namespace cpuaccel::dnnl_layer
