#include "report.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>

namespace cpuaccel::bench {
namespace {

constexpr size_t kColumns = 6;
constexpr size_t kLeftAligned = 2;
using Line = std::array<std::string, kColumns>;

constexpr const char* kCsvHeader =
    "family,shape,row,isa,seconds,first_quartile,third_quartile,rounds,work,unit,"
    "peak_seconds,bound_seconds";

std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

// A time in us or a rate in 10^9 per second, with three significant digits or more.
std::string figure(double value) { return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0); }

std::string share(double least_seconds, double seconds) {
  return least_seconds > 0 ? fixed(100 * least_seconds / seconds, 0) + " %" : "";
}

Line line_of(const Result& result) {
  const double seconds = result.sample.median;
  return {result.shape,
          result.row,
          figure(seconds * 1e6),
          figure(result.work / seconds * 1e-9) + " " + result.unit,
          share(result.peak_seconds, seconds),
          share(result.bound_seconds, seconds)};
}

void print_table(std::ostream& out, const std::vector<Line>& lines) {
  std::array<size_t, kColumns> widths{};
  for (const auto& line : lines) {
    for (size_t column = 0; column < kColumns; ++column) {
      widths[column] = std::max(widths[column], line[column].size());
    }
  }
  for (const auto& line : lines) {
    for (size_t column = 0; column < kColumns; ++column) {
      out << "  " << (column < kLeftAligned ? std::left : std::right)
          << std::setw(static_cast<int>(widths[column])) << line[column];
    }
    out << '\n';
  }
}

}  // namespace

void print_tables(std::ostream& out, const std::vector<Result>& results) {
  for (size_t first = 0; first < results.size();) {
    const std::string& family = results[first].family;
    std::vector<Line> lines{{"shape", "row", "us", "rate", "of peak", "of bound"}};
    for (; first < results.size() && results[first].family == family; ++first) {
      lines.push_back(line_of(results[first]));
    }
    out << family << '\n';
    print_table(out, lines);
  }
}

void write_csv(std::ostream& out, const std::vector<Result>& results) {
  out << kCsvHeader << '\n' << std::setprecision(9);
  for (const auto& result : results) {
    const Sample& sample = result.sample;
    out << result.family << ',' << std::quoted(result.shape, '"', '"') << ',' << result.row << ','
        << isa_name(result.isa) << ',' << sample.median << ',' << sample.first_quartile << ','
        << sample.third_quartile << ',' << sample.rounds << ',' << result.work << ',' << result.unit
        << ',' << result.peak_seconds << ',' << result.bound_seconds << '\n';
  }
}

}  // namespace cpuaccel::bench
