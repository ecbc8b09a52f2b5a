// The command line of cpuaccel_bench.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/isa.h"
#include "timing.h"

namespace cpuaccel::bench {

struct Options {
  std::vector<std::string> families;                      // empty: all
  std::string filter;                                     // only shapes whose text contains it
  double most = std::numeric_limits<double>::infinity();  // operations or bytes of a shape
  int threads = 1;
  Timing timing;
  std::string csv;             // file to write, or empty
  std::optional<Isa> max_isa;  // like CPUACCEL_MAX_ISA, which it overrides
  bool quiet = false;          // no tables
  bool list = false;           // print the names of the families and end
};

extern const char* const kUsage;

// Throws std::invalid_argument, whose text names the argument and what was expected.
Options parse(const std::vector<std::string>& arguments);

}  // namespace cpuaccel::bench
