#include "bind/json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace cpuaccel {
namespace {

constexpr int kLevels = 64;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json document() {
    Json found = value(0);
    skip();
    if (at_ != text_.size()) {
      fail("more than one value");
    }
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument("JSON: " + what + " at character " + std::to_string(at_));
  }

  void skip() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  bool take(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  }

  void expect(std::string_view word) {
    if (!take(word)) {
      fail("expected " + std::string(word));
    }
  }

  Json value(int level) {
    if (level > kLevels) {
      fail("nested too deeply");
    }
    if (take("{")) {
      return {object(level)};
    }
    if (take("[")) {
      return {list(level)};
    }
    if (take("\"")) {
      return {string()};
    }
    if (take("null")) {
      return {nullptr};
    }
    if (take("true")) {
      return {true};
    }
    if (take("false")) {
      return {false};
    }
    if (take("NaN")) {
      return {std::numeric_limits<double>::quiet_NaN()};
    }
    if (take("-Infinity")) {
      return {-std::numeric_limits<double>::infinity()};
    }
    if (take("Infinity")) {
      return {std::numeric_limits<double>::infinity()};
    }
    return number();
  }

  JsonObject object(int level) {
    JsonObject found;
    if (take("}")) {
      return found;
    }
    do {
      expect("\"");
      auto key = string();
      expect(":");
      found.insert_or_assign(std::move(key), value(level + 1));
    } while (take(","));
    expect("}");
    return found;
  }

  JsonList list(int level) {
    JsonList found;
    if (take("]")) {
      return found;
    }
    do {
      found.push_back(value(level + 1));
    } while (take(","));
    expect("]");
    return found;
  }

  // After the opening quote. Names of ops and types are ASCII only.
  std::string string() {
    std::string found;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        found += text_[at_];
        continue;
      }
      if (++at_ == text_.size()) {
        break;
      }
      constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      const auto which = kEscapes.find(text_[at_]);
      if (which == std::string_view::npos) {
        fail("unsupported escape sequence");
      }
      found += kMeant[which];
    }
    expect("\"");
    return found;
  }

  Json number() {
    const auto end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    const char* last = word.data() + word.size();
    int64_t integer = 0;
    double real = 0;
    Json found;
    if (const auto [stop, error] = std::from_chars(word.data(), last, integer);
        error == std::errc() && stop == last) {
      found.value = integer;
    } else if (const auto [stop_real, error_real] = std::from_chars(word.data(), last, real);
               error_real == std::errc() && stop_real == last && !word.empty()) {
      found.value = real;
    } else {
      fail("expected a value");
    }
    at_ = end;
    return found;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Json parse_json(std::string_view text) { return Reader(text).document(); }

}  // namespace cpuaccel
