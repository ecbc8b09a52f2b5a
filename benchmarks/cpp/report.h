// Prints results as an aligned table, and writes them as CSV for benchmarks/ops/kernels.py.
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
  std::string unit;          // 10^9 of it per second: "GMAC/s", "GB/s" or "GHz"
  double peak_seconds = 0;   // time of a call at that peak, 0 if it was not measured
  double bound_seconds = 0;  // least time of the whole loop, 0 if the family has no model
};

// One table for each family.
void print_tables(std::ostream& out, const std::vector<Result>& results);

// A header line and a line for each result; times in seconds.
void write_csv(std::ostream& out, const std::vector<Result>& results);

}  // namespace cpuaccel::bench
