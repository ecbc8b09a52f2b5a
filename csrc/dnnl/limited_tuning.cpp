#include "dnnl/limited_tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace cpuaccel::dnnl_layer {
namespace {

constexpr int kTuningRuns = 1;  // of problems to which no timed one is near
const double kNear = std::log(4.0) + 1e-9;

thread_local LimitedTuning* g_inner = nullptr;

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Whether the number behind a letter must be equal: threads (t), ISA (i), kernel, stride, padding,
// dilation and groups decide more than the time that a layer takes.
bool must_be_equal(std::string_view before) {
  constexpr std::string_view kLetters = "tikspdg";
  return before.size() > 1 && before[before.size() - 2] == ' ' &&
         kLetters.find(before.back()) != std::string_view::npos;
}

// A key without its numbers, apart from those that must be equal, and the logarithms of the others.
struct Split {
  std::string skeleton;
  std::vector<double> logarithms;
};

Split split(std::string_view key) {
  Split result;
  for (size_t at = 0; at < key.size();) {
    if (!is_digit(key[at])) {
      result.skeleton += key[at++];
      continue;
    }
    const auto end =
        std::find_if_not(key.begin() + static_cast<std::ptrdiff_t>(at), key.end(), is_digit);
    const auto digits = key.substr(at, static_cast<size_t>(end - key.begin()) - at);
    if (must_be_equal(key.substr(0, at))) {
      result.skeleton += digits;
    } else {
      double number = 0;
      for (const char digit : digits) {
        number = 10 * number + (digit - '0');
      }
      result.logarithms.push_back(std::log(number + 1));
      result.skeleton += '#';
    }
    at += digits.size();
  }
  return result;
}

}  // namespace

LimitedTuning::LimitedTuning(bool on) : outer_(g_inner), left_(on ? kTuningRuns : -1) {
  g_inner = this;
}
LimitedTuning::~LimitedTuning() { g_inner = outer_; }

bool limited_tuning() { return g_inner != nullptr && g_inner->left_ >= 0; }

bool take_tuning_run() {
  if (!limited_tuning()) {
    return true;
  }
  return g_inner->left_ > 0 && g_inner->left_-- > 0;
}

void SimilarProblems::add(std::string_view key, int result) {
  auto [skeleton, logarithms] = split(key);
  by_skeleton_[std::move(skeleton)].push_back({std::move(logarithms), result});
}

std::optional<SimilarProblems::Found> SimilarProblems::nearest(std::string_view key) const {
  const auto [skeleton, logarithms] = split(key);
  const auto similar = by_skeleton_.find(skeleton);
  if (similar == by_skeleton_.end()) {
    return std::nullopt;
  }
  double least = std::numeric_limits<double>::infinity();
  std::optional<Found> found;
  for (const auto& entry : similar->second) {
    double distance = 0, largest = 0;
    for (size_t i = 0; i < logarithms.size(); ++i) {
      const double each = std::abs(logarithms[i] - entry.logarithms[i]);
      distance += each;
      largest = std::max(largest, each);
    }
    if (distance < least) {
      least = distance;
      found = Found{entry.result, largest <= kNear};
    }
  }
  return found;
}

}  // namespace cpuaccel::dnnl_layer
