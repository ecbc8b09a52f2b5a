#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "bench.h"
#include "options.h"
#include "report.h"
#include "threads.h"

namespace cpuaccel::bench {
namespace {

struct NamedFamily {
  const char* name;
  Family (*make)();
};

#define CPUACCEL_FAMILY(name) NamedFamily{#name, bench_##name},
constexpr std::array kFamilies{CPUACCEL_BENCH_FAMILIES(CPUACCEL_FAMILY)};
#undef CPUACCEL_FAMILY

constexpr std::string_view kPeaks = "peaks";

std::vector<NamedFamily> chosen(const std::vector<std::string>& names) {
  if (names.empty()) {
    return {kFamilies.begin(), kFamilies.end()};
  }
  std::vector<NamedFamily> families;
  for (const auto& name : names) {
    if (name == kPeaks) {
      continue;  // peaks are measured with any family
    }
    const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                    [&](const auto& family) { return family.name == name; });
    if (found == kFamilies.end()) {
      throw std::invalid_argument("unknown family '" + name + "'; --list prints the known ones");
    }
    families.push_back(*found);
  }
  return families;
}

// The unit of a shape's size and rate: operations, or bytes if nothing is computed.
double work_of(const Case& item) {
  return item.operations > 0 ? item.operations : item.bytes_read + item.bytes_written;
}

// Times `candidates` and `peak_runs` in the same rounds, and updates `peaks`.
std::vector<Sample> measure(const std::vector<Candidate>& candidates,
                            const std::vector<PeakRun>& peak_runs, const Timing& timing,
                            Peaks& peaks) {
  std::vector<std::function<void()>> runs;
  for (const auto& candidate : candidates) {
    runs.push_back(candidate.run);
  }
  for (const auto& peak : peak_runs) {
    runs.push_back(peak.run);
  }
  const auto samples = side_by_side(runs, timing);
  for (size_t i = 0; i < peak_runs.size(); ++i) {
    peak_runs[i].record(peaks, samples[candidates.size() + i].median);
  }
  return samples;
}

Result result_of(std::string family, std::string shape, std::string row, Isa isa) {
  Result result;
  result.family = std::move(family);
  result.shape = std::move(shape);
  result.row = std::move(row);
  result.isa = isa;
  return result;
}

// The peaks alone: operations, and bytes at the size of each cache.
std::vector<Result> run_peaks(int threads, const Timing& timing) {
  std::vector<PeakRun> runs = operations_runs(threads);
  std::vector<std::string> places(runs.size());
  for (const auto& [place, footprint] : typical_footprints(threads)) {
    for (auto& run : bytes_runs(threads, footprint)) {
      runs.push_back(std::move(run));
      places.push_back(" " + place);
    }
  }
  Peaks peaks;
  const auto samples = measure({}, runs, timing, peaks);
  std::vector<Result> results;
  for (size_t i = 0; i < runs.size(); ++i) {
    Result result = result_of(std::string(kPeaks), rate_name(runs[i].rate) + places[i],
                              runs[i].name, runs[i].isa);
    result.sample = samples[i];
    result.work = runs[i].work;
    result.unit = rate_unit(runs[i].rate);
    results.push_back(result);
  }
  return results;
}

std::vector<Result> run_case(const std::string& family, const Case& item, int threads,
                             const Timing& timing) {
  const double bytes = item.bytes_read + item.bytes_written;
  const auto rows = item.prepare();
  std::vector<PeakRun> beside = operations_runs(threads);
  for (auto& run : bytes_runs(threads, bytes)) {
    beside.push_back(std::move(run));
  }
  Peaks peaks;
  const auto samples = measure(rows, beside, timing, peaks);
  std::vector<Result> results;
  for (size_t i = 0; i < rows.size(); ++i) {
    Result result = result_of(family, item.shape, rows[i].name, rows[i].isa);
    result.sample = samples[i];
    const bool computes = item.operations > 0;
    result.work = work_of(item);
    result.unit = rate_unit(computes ? item.rate : Rate::copy);
    if (computes) {
      const double peak = peaks.operations(item.rate, rows[i].isa);
      result.peak_seconds = peak > 0 ? item.operations / peak : 0;
    } else {
      result.peak_seconds = peaks.moving(item.bytes_read, item.bytes_written);
    }
    result.bound_seconds = item.bound ? item.bound(peaks, rows[i].isa) : 0;
    results.push_back(result);
  }
  return results;
}

std::vector<Result> run(const Options& options) {
  const auto families = chosen(options.families);
  auto results = run_peaks(options.threads, options.timing);
  for (const auto& each : families) {
    const Family family = each.make();
    for (const auto& item : family.cases) {
      if (item.shape.find(options.filter) != std::string::npos && work_of(item) <= options.most) {
        const auto more = run_case(family.name, item, options.threads, options.timing);
        results.insert(results.end(), more.begin(), more.end());
      }
    }
  }
  return results;
}

void run_and_report(const Options& options) {
  set_max_isa(options.max_isa.value_or(max_isa()));
  use_threads(options.threads);
  const auto results = run(options);
  if (!options.quiet) {
    print_tables(std::cout, results);
  }
  if (!options.csv.empty()) {
    std::ofstream file(options.csv);
    write_csv(file, results);
    if (!file.flush()) {
      throw std::runtime_error("cannot write " + options.csv);
    }
  }
}

}  // namespace
}  // namespace cpuaccel::bench

int main(int count, char** arguments) {
  using namespace cpuaccel::bench;
  try {
    const Options options = parse({arguments + 1, arguments + count});
    if (options.list) {
      for (const auto& family : kFamilies) {
        std::cout << family.name << '\n';
      }
      return 0;
    }
    run_and_report(options);
    return 0;
  } catch (const std::invalid_argument& error) {
    std::cerr << error.what() << "\n" << kUsage;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
