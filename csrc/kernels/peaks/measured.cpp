#include <algorithm>
#include <chrono>
#include <limits>

#include "kernels/peaks/peaks.h"

namespace cpuaccel::kernels {
namespace {

constexpr int kRounds = 5;

double best_seconds(const PeakRun& peak) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  peak.run();
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    peak.run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

Peaks measured_peaks(int threads, double footprint) {
  Peaks peaks;
  for (const auto& peak : operations_runs(threads)) {
    peak.record(peaks, best_seconds(peak));
  }
  for (const auto& peak : bytes_runs(threads, footprint)) {
    peak.record(peaks, best_seconds(peak));
  }
  return peaks;
}

}  // namespace cpuaccel::kernels
