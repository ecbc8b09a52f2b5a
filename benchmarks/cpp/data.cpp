#include "data.h"

#include <algorithm>
#include <random>

namespace cpuaccel::bench {
namespace {

constexpr unsigned kSeed = 2024;

template <typename Value>
std::vector<Value> uniform(int64_t count, int low, int high) {
  std::mt19937 generator(kSeed);
  std::uniform_int_distribution<int> distribution(low, high);
  std::vector<Value> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(),
                [&] { return static_cast<Value>(distribution(generator)); });
  return values;
}

}  // namespace

std::vector<float> normal_floats(int64_t count) {
  std::mt19937 generator(kSeed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return distribution(generator); });
  return values;
}

std::vector<uint8_t> uniform_u8(int64_t count, int low, int high) {
  return uniform<uint8_t>(count, low, high);
}

std::vector<int8_t> uniform_s8(int64_t count, int low, int high) {
  return uniform<int8_t>(count, low, high);
}

std::vector<int8_t> bell_shaped_s8(int64_t count) {
  std::mt19937 generator(kSeed);
  std::normal_distribution<float> normal(0.0f, 127.0f / 4);
  std::vector<int8_t> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] {
    return static_cast<int8_t>(std::clamp(normal(generator), -127.0f, 127.0f));
  });
  return values;
}

}  // namespace cpuaccel::bench
