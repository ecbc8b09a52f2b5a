#include "plan/region.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <unordered_set>

#include "plan/names.h"
#include "plan/step_registry.h"

namespace cpuaccel::plan {
namespace {

// The parts of `text` between separators. Several separators in a row count as one.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) {
      parts.push_back(text.substr(begin, end - begin));
    }
    begin = end + 1;
  }
  return parts;
}

[[noreturn]] void fail(std::string_view start, std::string_view what, std::string_view word) {
  throw std::invalid_argument(std::string(start) + " " + std::string(what) + ", but got '" +
                              std::string(word) + "'");
}

[[noreturn]] void fail(std::string_view what, std::string_view word) {
  fail("expected", what, word);
}

template <class T>
T number(std::string_view word) {
  T result{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), result);
  if (error != std::errc{} || end != word.data() + word.size()) {
    fail("a number", word);
  }
  return result;
}

template <class T>
std::vector<T> numbers(std::string_view words, char separator) {
  std::vector<T> result;
  for (const auto word : split(words, separator)) {
    result.push_back(number<T>(word));
  }
  return result;
}

template <class T>
T known(const std::optional<T>& found, std::string_view what, std::string_view word) {
  if (!found) {
    fail(what, word);
  }
  return *found;
}

AttributeValue attribute_value(std::string_view type, std::string_view text) {
  if (type == "f") {
    return number<float>(text);
  }
  if (type == "fs") {
    return numbers<float>(text, ',');
  }
  if (type == "i") {
    return number<int64_t>(text);
  }
  if (type == "is") {
    return numbers<int64_t>(text, ',');
  }
  if (type == "b") {
    return text == "1";
  }
  if (type == "s") {
    return std::string(text);
  }
  fail("f, fs, i, is, b or s", type);
}

using Words = std::vector<std::string_view>;

class Parser {
 public:
  void line(const Words& words) {
    const auto first = words[0];
    if (first == "value" && words.size() == 4) {
      value(words);
    } else if (first == "input" || first == "constant") {
      for (size_t i = 1; i < words.size(); ++i) {
        const Id id = made(words[i]);
        (first == "input" ? region_.inputs : region_.constants).push_back(id);
      }
    } else if (first == "output" && words.size() == 3) {
      if (words[2] != "contiguous" && words[2] != "channels_last") {
        fail("contiguous or channels_last", words[2]);
      }
      region_.outputs.push_back({number<Id>(words[1]), words[2] == "contiguous"
                                                           ? MemoryFormat::contiguous
                                                           : MemoryFormat::channels_last});
    } else if (first == "partition") {
      region_.partitions.emplace_back();
    } else if (first == "op") {
      operation(words);
    } else if (first == "prepare" && words.size() > 2) {
      Preparation preparation{std::string(words[1]), {}, {}, {}};
      wiring(words, preparation, false);
      region_.preparations.push_back(std::move(preparation));
    } else if (first != "graph" || words.size() < 2 || words[1] != "1") {
      fail("a line of a graph of version 1", first);
    }
  }

  Region finish() {
    for (const auto& output : region_.outputs) {
      if (!made_.contains(output.id)) {
        fail("graph: expected", "an output that is made", std::to_string(output.id));
      }
    }
    return std::move(region_);
  }

 private:
  void value(const Words& words) {
    Value value{known(type_of(words[2]), "a type", words[2]), {}};
    if (words[3] != "-") {
      value.sizes = numbers<int64_t>(words[3], 'x');
    }
    region_.values.emplace(number<Id>(words[1]), std::move(value));
  }

  Id made(std::string_view word) {
    const Id id = number<Id>(word);
    if (!region_.values.contains(id) || !made_.insert(id).second) {
      fail("a value that is made once", word);
    }
    return id;
  }

  void operation(const Words& words) {
    if (region_.partitions.empty() || words.size() < 2) {
      fail("an op in a partition", words[0]);
    }
    const auto kind = kind_of(words[1]);
    if (!kind && find_registered(words[1]) == nullptr) {
      fail("a kind of op", words[1]);
    }
    Operation operation{kind, std::string(words[1]), {}, {}, {}};
    wiring(words, operation, kind.has_value());
    region_.partitions.back().operations.push_back(std::move(operation));
  }

  // Parses "in ID... out ID... ATTRIBUTE=TYPE:VALUE..." from the third word on. For ops of the
  // library, attributes must have names that the library knows.
  template <class Wired>
  void wiring(const Words& words, Wired& wired, bool of_library) {
    size_t at = 2;
    if (at < words.size() && words[at] == "in") {
      for (++at; at < words.size() && words[at] != "out"; ++at) {
        const Id id = number<Id>(words[at]);
        if (!made_.contains(id)) {
          fail("a value that was made before", words[at]);
        }
        wired.inputs.push_back(id);
      }
    }
    for (++at; at < words.size() && words[at].find('=') == std::string_view::npos; ++at) {
      wired.outputs.push_back(made(words[at]));
    }
    for (; at < words.size(); ++at) {
      const size_t equals = words[at].find('='), colon = words[at].find(':');
      if (equals == std::string_view::npos || colon == std::string_view::npos || colon < equals) {
        fail("attribute=type:value", words[at]);
      }
      const auto name = words[at].substr(0, equals);
      if (of_library && !attribute_of(name)) {
        fail("an attribute", name);
      }
      wired.attributes.emplace(std::string(name),
                               attribute_value(words[at].substr(equals + 1, colon - equals - 1),
                                               words[at].substr(colon + 1)));
    }
  }

  Region region_;
  std::unordered_set<Id> made_;
};

}  // namespace

std::vector<Id> Region::all_constants() const {
  auto result = constants;
  for (const auto& preparation : preparations) {
    result.insert(result.end(), preparation.outputs.begin(), preparation.outputs.end());
  }
  return result;
}

bool Region::is_read_outside(Id id, size_t partition) const {
  const auto reads_it = [&](const Operation& operation) { return reads(operation, id); };
  for (size_t i = 0; i < partitions.size(); ++i) {
    const auto& operations = partitions[i].operations;
    if (i != partition && std::any_of(operations.begin(), operations.end(), reads_it)) {
      return true;
    }
  }
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const Output& output) { return output.id == id; });
}

Region parse_region(std::string_view text) {
  Parser parser;
  for (const auto line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.empty()) {
      continue;
    }
    try {
      parser.line(words);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("graph: " + std::string(error.what()) + " in '" +
                                  std::string(line) + "'");
    }
  }
  return parser.finish();
}

}  // namespace cpuaccel::plan
