// A JSON parser for text that Python writes (with NaN and Infinity).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cpuaccel {

struct Json;
using JsonList = std::vector<Json>;
using JsonObject = std::map<std::string, Json, std::less<>>;

struct Json {
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, JsonList, JsonObject> value;

  template <typename T>
  const T* get_if() const {
    return std::get_if<T>(&value);
  }
  // Throws std::bad_variant_access if the value has another type.
  template <typename T>
  const T& get() const {
    return std::get<T>(value);
  }
};

// Throws std::invalid_argument, which names the position, unless `text` is JSON of at most 64
// levels.
Json parse_json(std::string_view text);

}  // namespace cpuaccel
