#include "kernels/peaks/peaks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>

#include "base/huge_page_block.h"
#include "base/parallel.h"
#include "kernels/kernel_list.h"
#include "kernels/peaks/peak_kernels.h"
#include "kernels/round_up.h"

namespace cpuaccel::kernels {
namespace {

template <typename Function>
struct PeakRow {
  std::string_view name;
  Isa isa;
  Function* function;
  Rate rate;
};

constexpr std::array kOperationsRows{
#define CPUACCEL_OPERATIONS_KERNEL(rate, name) \
  CPUACCEL_ROW(PeakRow<OperationsPeak>, name, peak_##rate##_##name, Rate::rate)
#define CPUACCEL_BYTES_KERNEL(rate, name)
#include "kernels/peaks/kernels.inc"
#undef CPUACCEL_OPERATIONS_KERNEL
#undef CPUACCEL_BYTES_KERNEL
};
constexpr std::array kBytesRows{
#define CPUACCEL_OPERATIONS_KERNEL(rate, name)
#define CPUACCEL_BYTES_KERNEL(rate, name) \
  CPUACCEL_ROW(PeakRow<BytesPeak>, name, peak_##rate##_##name, Rate::rate)
#include "kernels/peaks/kernels.inc"
#undef CPUACCEL_OPERATIONS_KERNEL
#undef CPUACCEL_BYTES_KERNEL
};

struct RateText {
  const char* name;
  const char* unit;
};
constexpr std::array kRates{
    RateText{"clock", "GHz"},
    RateText{"fp32", "GMAC/s"},
    RateText{"bf16", "GMAC/s"},
    RateText{"int8", "GMAC/s"},
    RateText{"bf16 tiles", "GMAC/s"},
    RateText{"int8 tiles", "GMAC/s"},
    RateText{"int8 saturating", "GMAC/s"},
    RateText{"int8 low", "GMAC/s"},
    RateText{"read", "GB/s"},
    RateText{"copy", "GB/s"},
};

// About 100 us per call, so that waking the threads does not show.
constexpr int64_t kIterations = 32768;
constexpr double kBytesOfACall = 4 << 20;

constexpr int64_t kStep = 512;

constexpr double kMiB = 1 << 20;
constexpr double kSmallestMemory = 256 * kMiB;
constexpr double kLargestMemory = 1024 * kMiB;

// Capacities: of one core for L1 and L2, of all cores for L3. `usual` is the fallback if the system
// does not report a size.
struct Cache {
  const char* name;
  int query;
  double usual;
  bool shared;
};
constexpr std::array kCaches{
    Cache{"L1", _SC_LEVEL1_DCACHE_SIZE, 32 * 1024.0, false},
    Cache{"L2", _SC_LEVEL2_CACHE_SIZE, 512 * 1024.0, false},
    Cache{"L3", _SC_LEVEL3_CACHE_SIZE, 16 * kMiB, true},
};

double capacity_of(const Cache& cache, int threads) {
  const auto told = static_cast<double>(sysconf(cache.query));
  return (told > 0 ? told : cache.usual) * (cache.shared ? 1 : threads);
}

// Calls `body` once on each of `threads` threads.
template <typename Body>
void on_each_thread(int threads, const Body& body) {
  parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      body(thread);
    }
  });
}

PeakRun operations_run(const PeakRow<OperationsPeak>& row, int threads) {
  PeakRun run{std::string(row.name), row.isa, row.rate, 0, {}, {}};
  run.work = static_cast<double>(threads * kIterations * row.function(1));
  run.run = [threads, function = row.function] {
    on_each_thread(threads, [function](int64_t) { function(kIterations); });
  };
  run.record = [row, work = run.work](Peaks& peaks, double seconds) {
    peaks.set_operations(row.rate, row.isa, work / seconds);
  };
  return run;
}

// One filled block per thread.
using Memory = std::vector<AlignedBlock>;

std::shared_ptr<Memory> memory(int threads, int64_t bytes) {
  auto blocks = std::make_shared<Memory>();
  for (int thread = 0; thread < threads; ++thread) {
    blocks->push_back(huge_page_block(static_cast<size_t>(bytes)));
    std::memset(blocks->back().get(), 1, static_cast<size_t>(bytes));
  }
  return blocks;
}

// `bytes` is the block of one thread. A copy reads one half of it and writes the other.
PeakRun bytes_run(const PeakRow<BytesPeak>& row, int threads, int64_t bytes, int64_t times,
                  const std::shared_ptr<Memory>& blocks) {
  const int64_t part = row.rate == Rate::copy ? bytes / 2 : bytes;
  PeakRun run{std::string(row.name), row.isa, row.rate, 0, {}, {}};
  run.work = static_cast<double>(threads * times * bytes);
  run.run = [=, function = row.function] {
    on_each_thread(threads, [&](int64_t thread) {
      std::byte* const block = (*blocks)[static_cast<size_t>(thread)].get();
      for (int64_t i = 0; i < times; ++i) {
        function(block, block + (bytes - part), part);
      }
    });
  };
  run.record = [rate = row.rate, work = run.work](Peaks& peaks, double seconds) {
    peaks.set_bytes(rate, work / seconds);
  };
  return run;
}

// Bytes of `footprint` for each thread, a multiple of two steps for the halves of a copy.
int64_t bytes_of_thread(int64_t footprint, int threads) {
  return std::max<int64_t>(footprint / threads / (2 * kStep), 1) * 2 * kStep;
}

const PeakRow<BytesPeak>& best_row(Rate rate) {
  return *std::find_if(kBytesRows.begin(), kBytesRows.end(), [rate](const auto& each) {
    return each.rate == rate && isa_usable(each.isa);
  });
}

}  // namespace

const char* rate_name(Rate rate) { return kRates[static_cast<size_t>(rate)].name; }

const char* rate_unit(Rate rate) { return kRates[static_cast<size_t>(rate)].unit; }

double Peaks::operations(Rate rate, Isa isa) const {
  // The entries of a rate are adjacent, lowest ISA first.
  const auto above = operations_.upper_bound({rate, named_isa(isa)});
  if (above == operations_.begin() || std::prev(above)->first.first != rate) {
    return 0.0;
  }
  return std::prev(above)->second;
}

double Peaks::moving(double bytes_read, double bytes_written) const {
  const double reading = bytes_read / bytes_.at(Rate::read);
  const double writing = 2 * bytes_written / bytes_.at(Rate::copy);
  return std::max(reading, writing);
}

void Peaks::set_operations(Rate rate, Isa isa, double per_second) {
  operations_[{rate, named_isa(isa)}] = per_second;
}

void Peaks::set_bytes(Rate rate, double per_second) { bytes_[rate] = per_second; }

std::vector<PeakRun> operations_runs(int threads) {
  std::vector<PeakRun> runs;
  for (const auto& row : kOperationsRows) {
    if (isa_usable(row.isa)) {
      runs.push_back(operations_run(row, threads));
    }
  }
  return runs;
}

std::vector<PeakRun> bytes_runs(int threads, double footprint) {
  const int64_t bytes = bytes_of_thread(static_cast<int64_t>(footprint), threads);
  const auto times = std::max<int64_t>(1, static_cast<int64_t>(kBytesOfACall) / bytes);
  const auto blocks = memory(threads, bytes);
  std::vector<PeakRun> runs;
  for (const Rate rate : {Rate::read, Rate::copy}) {
    runs.push_back(bytes_run(best_row(rate), threads, bytes, times, blocks));
  }
  return runs;
}

PeakRun reading_run(int threads, int64_t footprint) {
  const int64_t bytes = bytes_of_thread(round_up(footprint, threads * 2 * kStep), threads);
  return bytes_run(best_row(Rate::read), threads, bytes, 1, memory(threads, bytes));
}

std::vector<std::pair<std::string, double>> typical_footprints(int threads) {
  std::vector<std::pair<std::string, double>> footprints;
  double last = 0;
  for (const auto& cache : kCaches) {
    last = capacity_of(cache, threads);
    footprints.emplace_back(cache.name, last / 2);
  }
  footprints.emplace_back("memory", std::clamp(4 * last, kSmallestMemory, kLargestMemory));
  return footprints;
}

}  // namespace cpuaccel::kernels
