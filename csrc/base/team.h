// Threads that are woken once for many calls of parallel_for.
//
// A parallel region costs a wake-up and a barrier, microseconds in which a small step of a model
// computes. A team is one region of the hook's: the thread that leads runs the code, the others
// wait between the ranges that it shares. Each thread has a range of its own, so that what it wrote
// is in its cache when it reads it again; who is done first takes what nobody has begun, so nothing
// depends on how many threads came. The hook has to run its ranges side by side, or the first of
// them first, as OpenMP and ATen's own threads do.
#pragma once

#include <cstdint>
#include <functional>

#include "base/parallel.h"

namespace cpuaccel {

// Calls `body` on one thread; what parallel_for splits up in it goes to threads that are woken once
// for all of it. Threads of other libraries are not to be had in `body`: it is in a parallel
// region. Throws what `body` throws, and so do its parallel_fors.
void in_team(const std::function<void()>& body);

// Whether in_team opens a region at all; true until somebody says otherwise.
void set_teams(bool on);
bool teams_on();

// Regions opened by in_team since the process began.
int64_t teams_opened();

class Team {
 public:
  // That which the calling thread leads, if it is not in a range of it; else null.
  static Team* led();

  virtual int threads() const = 0;
  // As parallel_ranges.
  virtual void share(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) = 0;

 protected:
  ~Team() = default;
};

}  // namespace cpuaccel
