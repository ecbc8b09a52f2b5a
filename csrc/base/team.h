// Thread team: threads that are woken once for many calls of parallel_for.
//
// A parallel region costs a wake-up and a barrier, which take microseconds, as long as a small step
// of a model. A team is one region of the hook. The leading thread runs the code; the others wait
// for the ranges that it shares. Each thread has its own range, so that what it wrote is in its
// cache when it reads it again. A thread that is done takes ranges that no thread has begun, so
// nothing depends on how many threads came. The hook has to run its ranges concurrently, or the
// first one first, as OpenMP and ATen's own threads do.
#pragma once

#include <cstdint>
#include <functional>

#include "base/api.h"
#include "base/parallel.h"

namespace cpuaccel {

// Calls `body` on one thread. The ranges that parallel_for splits in it go to threads that are
// woken once for all of them. `body` cannot use threads of other libraries, because it is in a
// parallel region. Throws what `body` throws, and so do its parallel_fors.
void in_team(const std::function<void()>& body);

// Whether in_team opens a region at all; true by default.
CPUACCEL_API void set_teams(bool on);
bool teams_on();

// Regions opened by in_team since the process began.
CPUACCEL_API int64_t teams_opened();

class Team {
 public:
  // The team that the calling thread leads, unless it is inside of one of the team's ranges; else
  // null.
  static Team* led();

  virtual int threads() const = 0;
  // Like parallel_ranges.
  virtual void share(int64_t begin, int64_t end, int64_t grain_size, const RangeBody& body) = 0;

 protected:
  ~Team() = default;
};

}  // namespace cpuaccel
