// Measured peak rates of this machine: operations and bytes per second, for all threads in use.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/api.h"
#include "base/isa.h"

namespace cpuaccel::kernels {

enum class Rate {
  clock,            // cycles of all threads, counted by additions that depend on each other
  fp32,             // multiply-adds of floats
  bf16,             // multiply-adds of bfloat16, to floats: vdpbf16ps
  int8,             // exact multiply-adds: vpdpbusd, or vpmaddwd of widened values and vpaddd
  bf16_tiles,       // multiply-adds of AMX tiles: tdpbf16ps
  int8_tiles,       // multiply-adds of AMX tiles: tdpbusd
  int8_saturating,  // sums of two products saturate at 16 bits
  int8_low,         // 16-bit sums of four products
  read,             // bytes
  copy,             // bytes read plus bytes written
};

const char* rate_name(Rate rate);

// The unit of 10^9 per second, such as "GB/s".
const char* rate_unit(Rate rate);

// Measured rates: operations per second by ISA, and bytes per second for one footprint.
class CPUACCEL_API Peaks {
 public:
  // Operations per second with named_isa(isa), or with the best lower ISA that was measured; 0 if
  // none was.
  double operations(Rate rate, Isa isa) const;

  // Seconds that it takes to read and, at the same time, write these bytes.
  double moving(double bytes_read, double bytes_written) const;

  void set_operations(Rate rate, Isa isa, double per_second);
  void set_bytes(Rate rate, double per_second);

 private:
  std::map<std::pair<Rate, Isa>, double> operations_;
  std::map<Rate, double> bytes_;
};

// A measurement of one peak: time `run`, then pass `record` the seconds of one call.
struct PeakRun {
  std::string name;
  Isa isa = Isa::ref;
  Rate rate = Rate::clock;
  double work = 0;  // operations or bytes of one call, all threads together
  std::function<void()> run;
  std::function<void(Peaks&, double seconds)> record;
};

// Measurements of every operations peak that this machine can run.
CPUACCEL_API std::vector<PeakRun> operations_runs(int threads);

// Reads at least `footprint` bytes once; the footprint is that of all threads together.
CPUACCEL_API PeakRun reading_run(int threads, int64_t footprint);

// Reads and copies within `footprint` bytes, those of all threads together.
std::vector<PeakRun> bytes_runs(int threads, double footprint);

// Measures all operations peaks, and reading and copying within `footprint` bytes, now. Takes some
// milliseconds; keeps the best of a few rounds.
CPUACCEL_API Peaks measured_peaks(int threads, double footprint);

// Footprints in bytes at which to report reading and copying: half of each cache, and one that is
// larger than the caches.
std::vector<std::pair<std::string, double>> typical_footprints(int threads);

}  // namespace cpuaccel::kernels
