// What this machine does at most, measured: operations and bytes a second, of all threads in use.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/isa.h"

namespace cpuaccel::kernels {

enum class Rate {
  clock,            // cycles of all threads: additions that wait for each other
  fp32,             // multiply-adds of floats
  bf16,             // multiply-adds of bfloat16, to floats: vdpbf16ps
  int8,             // exact multiply-adds: vpdpbusd, or vpmaddwd of widened values and vpaddd
  bf16_tiles,       // those of AMX: tdpbf16ps
  int8_tiles,       // tdpbusd
  int8_saturating,  // vpmaddubsw, vpmaddwd and vpaddd: sums of two products have 16 bits
  int8_low,         // two vpmaddubsw, vpaddw, vpmaddwd and vpaddd: those of four products
  read,             // bytes
  copy,             // bytes, those read and those written
};

const char* rate_name(Rate rate);

// The unit of 10^9 a second, such as "GB/s".
const char* rate_unit(Rate rate);

// Measured rates: of operations by instruction set, of bytes for data of the size at hand.
class Peaks {
 public:
  // Operations a second with the instructions of `isa` or of a rung below it; 0 if none is known.
  double operations(Rate rate, Isa isa) const;

  // Seconds in which so many bytes can be read and, at the same time, written.
  double moving(double bytes_read, double bytes_written) const;

  void set_operations(Rate rate, Isa isa, double per_second);
  void set_bytes(Rate rate, double per_second);

 private:
  std::map<std::pair<Rate, Isa>, double> operations_;
  std::map<Rate, double> bytes_;
};

// A measurement of one peak: time `run`, then give `record` the seconds of one call.
struct PeakRun {
  std::string name;
  Isa isa = Isa::ref;
  Rate rate = Rate::clock;
  double work = 0;  // of one call, all threads together
  std::function<void()> run;
  std::function<void(Peaks&, double seconds)> record;
};

// Every peak of operations that this machine can run.
std::vector<PeakRun> operations_runs(int threads);

// Reading `footprint` bytes, at least, those of all threads together, once.
PeakRun reading_run(int threads, int64_t footprint);

// Reading and copying within `footprint` bytes, those of all threads together.
std::vector<PeakRun> bytes_runs(int threads, double footprint);

// All of these of the instructions in use and of `footprint` bytes, measured now: some
// milliseconds, the best of a few rounds.
Peaks measured_peaks(int threads, double footprint);

// Sizes in bytes to show reading and copying at: half of each cache, and what no cache holds.
std::vector<std::pair<std::string, double>> typical_footprints(int threads);

}  // namespace cpuaccel::kernels
