// Results as an aligned table for people and as CSV for benchmarks/ops/kernels.py.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/isa.h"
#include "timing.h"

namespace cpuaccel::bench {

// One candidate of one case, or one peak (family "peaks").
struct Result {
  std::string family;
  std::string shape;
  std::string row;
  Isa isa = Isa::ref;
  Sample sample;
  double work = 0;           // of one call
  std::string unit;          // of 10^9 of it in a second: "GMAC/s", "GB/s" or "GHz"
  double peak_seconds = 0;   // what a call takes at that peak, 0 where none was measured
  double bound_seconds = 0;  // what the whole loop takes at least, 0 where the family does not say
};

// The families one after another, each a table.
void print_tables(std::ostream& out, const std::vector<Result>& results);

// A header line and a line for each result; times in seconds.
void write_csv(std::ostream& out, const std::vector<Result>& results);

}  // namespace cpuaccel::bench
