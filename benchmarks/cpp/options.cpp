#include "options.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace cpuaccel::bench {

const char* const kUsage =
    "cpuaccel_bench: kernel rows against each other and against this machine's peaks\n"
    "  --family A,B     families to run, peaks for none (default: all)\n"
    "  --filter TEXT    only shapes that contain TEXT\n"
    "  --most N         only shapes of at most N operations, or bytes where there are none\n"
    "  --threads N      threads of parallel_for and of the peaks (default: 1)\n"
    "  --rounds N       interleaved rounds, at most (default: 15)\n"
    "  --budget SECONDS after which no further round starts (default: 2)\n"
    "  --max-isa NAME   highest ISA to use, as in CPUACCEL_MAX_ISA\n"
    "  --csv FILE       write every figure to FILE\n"
    "  --quiet          print no tables\n"
    "  --list           print the families and end\n";

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

double positive(const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(value > 0)) {
    throw std::invalid_argument(name + " must be a number above 0, got '" + text + "'");
  }
  return value;
}

int count(const std::string& name, const std::string& text) {
  constexpr double kMost = 100000;
  const double value = positive(name, text);
  const int whole = value > kMost ? 0 : static_cast<int>(value);
  if (whole < 1 || whole != value) {
    throw std::invalid_argument(name + " must be a whole number of at least 1, got '" + text + "'");
  }
  return whole;
}

Isa isa(const std::string& name, const std::string& text) {
  const auto found = parse_isa(text);
  if (!found) {
    throw std::invalid_argument(name + " must be one of " + isa_names() + ", got '" + text + "'");
  }
  return *found;
}

struct Flag {
  const char* name;
  std::function<void(Options&, const std::string& name, const std::string& value)> set;
};

const std::array<Flag, 8> kFlags{{
    {"--family", [](Options& o, const auto&, const auto& value) { o.families = split(value); }},
    {"--filter", [](Options& o, const auto&, const auto& value) { o.filter = value; }},
    {"--most", [](Options& o, const auto& n, const auto& v) { o.most = positive(n, v); }},
    {"--threads", [](Options& o, const auto& n, const auto& v) { o.threads = count(n, v); }},
    {"--rounds", [](Options& o, const auto& n, const auto& v) { o.timing.rounds = count(n, v); }},
    {"--budget",
     [](Options& o, const auto& n, const auto& v) { o.timing.budget = positive(n, v); }},
    {"--max-isa", [](Options& o, const auto& n, const auto& v) { o.max_isa = isa(n, v); }},
    {"--csv", [](Options& o, const auto&, const auto& value) { o.csv = value; }},
}};

}  // namespace

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  if (const char* cap = std::getenv("CPUACCEL_MAX_ISA");
      cap != nullptr && cap != std::string("auto")) {
    options.max_isa = isa("CPUACCEL_MAX_ISA", cap);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--quiet" || name == "--list") {
      (name == "--quiet" ? options.quiet : options.list) = true;
      continue;
    }
    const Flag* flag = nullptr;
    for (const auto& each : kFlags) {
      flag = name == each.name ? &each : flag;
    }
    if (flag == nullptr) {
      throw std::invalid_argument("unknown option '" + name + "'");
    }
    if (++i == arguments.size()) {
      throw std::invalid_argument(name + " needs a value");
    }
    flag->set(options, name, arguments[i]);
  }
  return options;
}

}  // namespace cpuaccel::bench
